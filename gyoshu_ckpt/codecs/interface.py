"""What a codec is. Each family of values has a file of its own; entry points make them known.

Rules
1. A codec is exact: what `load` returns is what `save` was given, down to dtypes, index, order of categories,
   time zones, nulls and attrs. The caller proves it after every save with `load` and `is_same`, and goes to
   the next codec when it is not so.
2. A codec never imports the library of a value first: if the kernel holds a DataFrame, pandas is loaded
   already, so `accepts` looks in ``sys.modules``.
3. ``trust`` is ``code`` when loading can run code (pickle), else ``data``.
4. `save` writes forward only, to a file that hashes as it writes; `load` may seek.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, Protocol


class CannotEncode(Exception):
    """A codec meets a value that it cannot store. Caught by the caller, which tries the next codec."""


@dataclass(frozen=True, slots=True)
class SaveContext:
    """What a codec may need to know beside the value.

    ``restorable_globals``: names of functions and classes in ``__main__`` that a resume defines again from
    their source. Pickles refer to these by name, so that ``isinstance`` still holds after a resume; anything
    else that lives in ``__main__`` has to be stored by value.
    """

    restorable_globals: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that belongs beside the data for people to look at, such as the PNG of a figure."""

    suffix: str
    media_type: str
    data: bytes


class Codec(Protocol):
    """Saves and loads one kind of value."""

    name: str  # as in the entry point and in manifests
    version: int  # raised when the bytes change meaning; old versions stay readable
    suffixes: tuple[str, ...]  # the first is the default; the others are taken when the user asks for them
    media_type: str
    trust: Literal["data", "code"]
    priority: int  # lower is asked first

    def accepts(self, value: Any) -> bool:
        """Whether this codec is meant for ``value``. Cheap; must not import anything heavy."""

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Write ``value`` to ``file``; raise :class:`CannotEncode` if it cannot be done."""

    def load(self, file: BinaryIO, version: int) -> Any:
        """Read a value that :meth:`save` of ``version`` wrote."""

    def is_same(self, original: Any, loaded: Any) -> bool:
        """Whether ``loaded`` is exactly ``original``."""

    def companions(self, value: Any) -> Iterable[Companion]:
        """Files to keep beside the data; usually none."""
