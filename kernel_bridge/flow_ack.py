"""The supervisor's half of flow control: how many characters of stream text have been taken.

A Jupyter kernel publishes its output without knowing whether anybody keeps up; it queues without limit, or
drops. A kernel that cares can watch this counter and wait. The file holds one unsigned 64-bit number in the
machine's byte order: the characters of stdout and stderr received since the kernel started. It only grows.
A kernel finds the file's path in the environment variable `FLOW_ACK_VARIABLE`.

The number is stored and read as one machine word, so the reader never sees half of it.

Not handled: rich output. It is not counted, and so not held back.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

FLOW_ACK_VARIABLE = "GYOSHU_FLOW_ACK"
_COUNTER_BYTES = 8


class StreamAcknowledger:
    """The counter in a file, shared with the kernel through memory."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, _COUNTER_BYTES)
            self._memory = mmap.mmap(descriptor, _COUNTER_BYTES)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._memory).cast("Q")

    def add(self, characters: int) -> None:
        """Tell the kernel that so many more characters have been taken."""
        self._words[0] += characters

    def close(self) -> None:
        """Let go of the memory; the file is left to its directory. May be called twice."""
        self._words.release()
        self._memory.close()
