"""An object store in memory, with the protocol of ``storage.objects``, and the two ways to go through it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gyoshu_ckpt.codecs.encoding import Encoded, decode, encode
from gyoshu_ckpt.codecs.interface import Codec, SaveContext


@dataclass(frozen=True)
class Stored:
    sha256: str
    size_bytes: int


class MemoryWriter:
    def __init__(self, objects: dict[str, bytes]) -> None:
        self._objects = objects
        self._data = bytearray()
        self._sealed = False

    def write(self, data: Any) -> int:
        assert not self._sealed, "written after seal"
        self._data += memoryview(data).cast("B")
        return memoryview(data).nbytes

    def seal(self) -> None:
        self._sealed = True

    def reopen(self) -> io.BytesIO:
        assert self._sealed, "read before seal"
        return io.BytesIO(bytes(self._data))

    def commit(self) -> Stored:
        assert self._sealed, "committed before seal"
        digest = hashlib.sha256(self._data).hexdigest()
        self._objects[digest] = bytes(self._data)
        return Stored(digest, len(self._data))


@dataclass
class MemoryStore:
    objects: dict[str, bytes] = field(default_factory=dict)
    opened: int = 0

    @contextmanager
    def writer(self) -> Iterator[MemoryWriter]:
        self.opened += 1
        yield MemoryWriter(self.objects)

    def bytes_of(self, encoded: Encoded) -> bytes:
        return self.objects[encoded.sha256]

    def load(self, encoded: Encoded) -> Any:
        return decode(encoded.codec, encoded.codec_version, io.BytesIO(self.bytes_of(encoded)))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(scope="session")
def new_store() -> Callable[[], MemoryStore]:
    """For Hypothesis, which runs many examples in one test."""
    return MemoryStore


@pytest.fixture(scope="session")
def through() -> Callable[..., tuple[str, Any]]:
    """Encode and decode through the one door: the codec that took the value, and what came back."""

    def go(
        value: Any, file_name: str | None = None, restorable: frozenset[str] = frozenset()
    ) -> tuple[str, Any]:
        memory = MemoryStore()
        encoded = encode(value, memory.writer, SaveContext(restorable), name="value", file_name=file_name)
        return encoded.codec, memory.load(encoded)

    return go


@pytest.fixture(scope="session")
def written() -> Callable[..., io.BytesIO]:
    """The file that one codec writes, at its start."""

    def go(codec: Codec, value: Any, context: SaveContext | None = None) -> io.BytesIO:
        file = io.BytesIO()
        codec.save(value, file, context or SaveContext())
        file.seek(0)
        return file

    return go
