"""The file that a codec writes to: forward only, and it remembers whether the store failed.

Libraries wrap or swallow what a file raises. Whether a save failed for the value's sake (try the next codec)
or for the disk's sake (stop) must not depend on that, so the fault is kept here.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Sink(Protocol):
    """Takes bytes; all of them or raises."""

    def write(self, data: ReadableBuffer, /) -> object:
        """Take ``data``, which may be reused afterwards."""


class ForwardFile(io.RawIOBase):
    """Hands everything on to ``target`` and counts. Closing it leaves the target open."""

    def __init__(self, target: Sink) -> None:
        super().__init__()
        self._target = target
        self._position = 0
        self.fault: Exception | None = None

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of ``data``."""
        size = memoryview(data).nbytes
        try:
            self._target.write(data)
        except Exception as fault:
            self.fault = fault
            raise
        self._position += size
        return size

    def tell(self) -> int:
        """How many bytes were written: joblib aligns its arrays by it."""
        return self._position
