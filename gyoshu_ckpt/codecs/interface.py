"""What a codec is. Each family of values has a file of its own; entry points make them known.

Rules
1. A codec is exact: what `load` returns is what `save` was given, down to dtypes, index, order of categories,
   time zones, nulls and attrs. The caller proves it after every save (`prove`), and goes to the next codec
   when it is not so.
2. A codec never imports the library of a value first: if the kernel holds a DataFrame, pandas is loaded
   already, so `accepts` looks in ``sys.modules`` (`instance_of`).
3. ``trust`` is ``code`` when loading can run code (pickle), else ``data``.
4. `save` writes forward only, to a file that hashes as it writes; `load` may seek.

A third party inherits from :class:`Codec` and names an instance of it under ``gyoshu_ckpt.codecs``.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Literal


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


class Codec(ABC):
    """Saves and loads one kind of value."""

    name: ClassVar[str]  # as in the entry point and in manifests
    version: ClassVar[int] = 1  # raised when the bytes change meaning; old versions stay readable
    suffixes: ClassVar[tuple[str, ...]]  # the first is the default; the others when the user asks for them
    media_type: ClassVar[str]
    trust: ClassVar[Literal["data", "code"]] = "data"
    priority: ClassVar[int] = 500  # lower is asked first
    only_on_request: ClassVar[bool] = False  # True: taken only when the user gave a file name with its suffix

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether this codec is meant for ``value``. Cheap; must not import anything heavy."""

    @abstractmethod
    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Write ``value`` to ``file``; raise :class:`CannotEncode` if it cannot be done."""

    @abstractmethod
    def load(self, file: BinaryIO, version: int) -> Any:
        """Read a value that :meth:`save` of ``version`` wrote."""

    @abstractmethod
    def difference(self, original: Any, loaded: Any) -> str | None:
        """None if ``loaded`` is exactly ``original``; else the first difference, as the end of a sentence."""

    def is_same(self, original: Any, loaded: Any) -> bool:
        """Whether ``loaded`` is exactly ``original``."""
        return self.difference(original, loaded) is None

    def prove(self, original: Any, file: BinaryIO, context: SaveContext) -> str | None:
        """Read back what :meth:`save` just wrote; None if a resume would get ``original``, else why not."""
        return self.difference(original, self.load(file, self.version))

    def companions(self, value: Any) -> Iterable[Companion]:
        """Files to keep beside the data; usually none."""
        return ()


def instance_of(value: Any, module: str, *classes: str, exactly: bool = True) -> bool:
    """Whether ``value`` is of one of ``classes`` of ``module``, which is not imported for the question."""
    loaded = sys.modules.get(module)
    wanted = tuple(
        found for name in classes if isinstance(found := getattr(loaded, name, None), type)
    )  # a module that is half imported lacks some
    return type(value) in wanted if exactly else issubclass(type(value), wanted)


def type_name(value: Any) -> str:
    """The type of ``value`` as a person would write it."""
    kind = type(value)
    module = str(getattr(kind, "__module__", ""))
    name = str(getattr(kind, "__qualname__", kind))
    return name if module in {"builtins", "__main__", ""} else f"{module}.{name}"
