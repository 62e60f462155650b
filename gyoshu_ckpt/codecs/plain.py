"""Python's own plain values: JSON for nested data, text for ``str``, raw bytes for ``bytes``.

Rules
1. JSON takes only what it gives back exactly: None, bool, int, float, str, list and dict with str keys, of
   exactly these types. Tuples, subclasses, NaN and infinity (which are not JSON), lone surrogates, and a list
   or dict that occurs twice (it would come back as two) go to the next codec.
2. Nesting is limited well below Python's own limit: the resume may read from deeper in a stack than the save.
3. Text is UTF-8 with every newline as it was. It is also taken for ``.md``, ``.html`` and the like.

Not handled: ``bytearray`` (the pickle codec keeps it).
"""

from __future__ import annotations

import json
import math
from typing import Any, BinaryIO

from gyoshu_ckpt.codecs import comparison
from gyoshu_ckpt.codecs.interface import CannotEncode, Codec, SaveContext, type_name

_DEEPEST = 100
_READABLE = 5_000  # values; a larger document is written without indentation, at several times the speed


class JsonCodec(Codec):
    """Nested data as one JSON document."""

    name = "json"
    suffixes = (".json",)
    media_type = "application/json"
    priority = 200

    def accepts(self, value: Any) -> bool:
        """Only by the outermost type; `save` looks inside."""
        return type(value) in (bool, int, float, str, type(None), list, dict)

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Check every value inside, then write."""
        count = _count_exact_values(value)
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=2 if count <= _READABLE else None
        )
        file.write(_utf8(text))

    def load(self, file: BinaryIO, version: int) -> Any:
        """Parse the document."""
        return json.loads(file.read())

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Compare as documents, which distinguish all that rule 1 admits, at the speed of C."""
        try:
            if json.dumps(original) == json.dumps(loaded) and _count_exact_values(original):
                return None
        except (CannotEncode, ValueError, TypeError, RecursionError):
            pass
        return comparison.difference(original, loaded)


class TextCodec(Codec):
    """A ``str`` as a text file."""

    name = "text"
    suffixes = (".txt", ".md", ".html", ".svg", ".tex")
    media_type = "text/plain"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Exactly ``str``."""
        return type(value) is str

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Write UTF-8; a lone surrogate has none."""
        file.write(_utf8(value))

    def load(self, file: BinaryIO, version: int) -> Any:
        """Decode the whole file; no newline is translated."""
        return file.read().decode("utf-8")

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Equality is exact for ``str``."""
        return comparison.difference(original, loaded)


class BytesCodec(Codec):
    """``bytes`` as they are."""

    name = "bytes"
    suffixes = (".bin",)
    media_type = "application/octet-stream"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Exactly ``bytes``."""
        return type(value) is bytes

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Write them."""
        file.write(value)

    def load(self, file: BinaryIO, version: int) -> Any:
        """Read them."""
        return file.read()

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Equality is exact for ``bytes``."""
        return comparison.difference(original, loaded)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise CannotEncode("it holds half of a surrogate pair, which UTF-8 cannot write") from None


def _count_exact_values(value: Any) -> int:
    """How many values are inside; :class:`CannotEncode` at the first that JSON would change."""
    count = 0
    seen: set[int] = set()
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is list or kind is dict:
                if id(item) in seen:
                    raise CannotEncode(f"the same {kind.__name__} is inside it twice, which JSON would copy")
                seen.add(id(item))
                if kind is dict:
                    if any(type(key) is not str for key in item):
                        raise CannotEncode(
                            "it holds a dict with keys that are not str, which JSON would change"
                        )
                    below.extend(item.values())
                else:
                    below.extend(item)
            elif kind is float:
                if not math.isfinite(item):
                    raise CannotEncode(f"it holds {item}, which is not JSON")
            elif kind not in (str, int, bool, type(None)):
                raise CannotEncode(f"it holds a value of type {type_name(item)}, which JSON would change")
        count += len(level)
        if not below:
            return count
        level = below
    raise CannotEncode(f"it is nested more than {_DEEPEST} deep")


JSON = JsonCodec()
TEXT = TextCodec()
BYTES = BytesCodec()
