"""Content-addressed objects of one report title: bytes stored once, under their SHA-256.

Rules
1. Bytes are hashed as they are written, in one pass. An object gets its name only after its bytes are on the
   medium, so a name in ``objects/`` always once stood for the right content.
2. An object is hashed and loaded through the same open file: `open_verified` returns the very file that it
   hashed, and nobody can swap it in between.
3. Objects are read-only (0400) from their birth, because large visible artifacts are hard links to them.
4. What fits into memory touches the disk only when it is committed, and not at all if an intact object has the
   same content: most values of a checkpoint are those of the one before.
5. An object that exists is not believed to be intact: committing the same content verifies it, and replaces
   it if it is damaged.

Not handled here: which objects are still needed (`checkpoints`), and two writers at once (`run_lock`).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import threading
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gyoshu_ckpt.errors import InternalBug, ObjectDamaged
from gyoshu_ckpt.storage.durable_files import (
    DurableFile,
    is_leftover,
    make_directories,
    make_name_durable,
    open_regular,
    remove_durably,
    remove_files,
    translate_os_errors,
)
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.no_follow import entries_below

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER = (
    256 * 2**10
)  # codecs write crumbs, and the disk wants more at a time; less than this stays in memory
_HASH_IN_THREAD = 2**20  # below this, starting a thread costs more than it saves
_SHARD = re.compile(r"[0-9a-f]{2}")
_REST = re.compile(r"[0-9a-f]{62}")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a manifest needs to know of an object."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep removed, or would remove."""

    count: int
    bytes: int


class ObjectWriter(io.BufferedIOBase):
    """A binary file that can only be written forward. `close` ends writing; `commit` makes it an object."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store
        self._file: DurableFile | None = None  # None: all of it is still in memory
        self._hash = hashlib.sha256()
        self._pending = bytearray()
        self._size = 0
        self._sealed: StoredObject | None = None

    def writable(self) -> bool:
        """Always, until it is closed."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Take all of ``data``; it may be reused as soon as this returns."""
        if self.closed:
            raise ValueError("write to a closed object")
        view = memoryview(data)
        size = view.nbytes
        if size < _BUFFER:
            self._pending += view.tobytes() if not view.c_contiguous else view.cast("B") if size else b""
        else:
            self._spill()
            self._write_through(view.cast("B") if view.c_contiguous else memoryview(view.tobytes()))
        self._size += size
        if len(self._pending) >= _BUFFER:
            self._spill()
        return size

    def tell(self) -> int:
        """How many bytes were written so far."""
        return self._size

    def flush(self) -> None:
        """Codecs call this; nothing is gained by it, because `commit` is what makes an object."""

    def seal(self) -> StoredObject:
        """End writing; the bytes are ready to be read back and committed."""
        if self._sealed is None:
            self.close()
            if self._file is None:
                self._hash.update(self._pending)
            else:
                self._spill()
                self._file.sync()
            self._sealed = StoredObject(self._hash.hexdigest(), self._size)
        return self._sealed

    def reopen(self) -> io.BufferedReader | io.BytesIO:
        """The sealed bytes, for proving that they can be read before they are committed."""
        if self._sealed is None:
            raise InternalBug("an object is read back only after it was sealed")
        return io.BytesIO(self._pending) if self._file is None else self._file.reopen()

    def commit(self) -> StoredObject:
        """Give the bytes their name, if no intact object has it already."""
        stored = self.seal()
        if not self._store._has_intact(stored):
            if self._file is None:
                self._file = self._store._new_file()
                self._file.write(self._pending)
                self._file.sync()
            self._store._adopt(self._file, stored)
        return stored

    def discard(self) -> None:
        """Forget what was not committed. May be called twice, and after `commit`."""
        self._pending = bytearray()
        self.close()
        if self._file is not None:
            self._file.discard()

    def _spill(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            self._write_through(memoryview(pending))

    def _write_through(self, view: memoryview) -> None:
        if self._file is None:
            self._file = self._store._new_file()
        if len(view) < _HASH_IN_THREAD:
            self._hash.update(view)
            self._file.write(view)
            return
        # SHA-256 releases the GIL: hash on one core while the other copies into the page cache.
        hashing = threading.Thread(target=self._hash.update, args=(view,), name="gyoshu-hash")
        try:
            hashing.start()
        except RuntimeError:  # no more threads in this container, or the interpreter is ending
            self._hash.update(view)
            self._file.write(view)
            return
        try:
            self._file.write(view)
        finally:
            hashing.join()


class ObjectStore:
    """The objects of one report title."""

    def __init__(self, layout: StoreLayout, title: str) -> None:
        self._layout = layout
        self._title = title
        self._folder = layout.objects_dir(title)

    @contextmanager
    def writer(self) -> Iterator[ObjectWriter]:
        """A new object. Leaving the block without `ObjectWriter.commit` leaves nothing behind."""
        writer = ObjectWriter(self)
        try:
            yield writer
        finally:
            writer.discard()

    def open_verified(self, sha256: str, size: int) -> io.BufferedReader:
        """The object, hashed through the file that is returned; :class:`ObjectDamaged` says what is wrong."""
        path = self._layout.object(self._title, sha256)
        called = f"object {sha256[:12]}…"
        file = open_regular(path, below=self._layout.reports, called=called, refusal=ObjectDamaged)
        try:
            with translate_os_errors(f"read {called}", path, safe="nothing was changed"):
                actual_size = os.fstat(file.fileno()).st_size
                if actual_size != size:
                    raise ObjectDamaged(f"{called} is {actual_size} bytes, not {size}")
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
                actual = hashlib.file_digest(file, "sha256").hexdigest()
                if actual != sha256:
                    raise ObjectDamaged(f"{called} has other content: sha256 {actual[:12]}…")
                file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def verify(self, sha256: str, size: int) -> None:
        """Read the whole object; :class:`ObjectDamaged` if it is not what its name says."""
        self.open_verified(sha256, size).close()

    def sweep(self, keep: Set[str], dry_run: bool = False) -> SweepResult:
        """Remove every object that ``keep`` does not name, and temp files that killed writers left.

        Only for those who keep every writer of the title out: a temp file of a living one looks the same.
        """
        count = size = 0
        for folder, names in self._unwanted(keep):
            count += len(names)
            size += sum(names.values())
            if names and not dry_run:
                remove_files(folder, names, below=self._layout.reports)
        return SweepResult(count, size)

    def _unwanted(self, keep: Set[str]) -> Iterator[tuple[Path, dict[str, int]]]:
        below = self._layout.reports
        top = entries_below(self._folder, below=below)
        yield self._folder, {name: status.st_size for name, status in top if _is_temp(name, status)}
        for shard, status in top:
            if not stat.S_ISDIR(status.st_mode) or not _SHARD.fullmatch(shard):
                continue
            folder = self._folder / shard
            yield (
                folder,
                {
                    rest: status.st_size
                    for rest, status in entries_below(folder, below=below)
                    if _REST.fullmatch(rest) and shard + rest not in keep and not stat.S_ISDIR(status.st_mode)
                },
            )

    def _new_file(self) -> DurableFile:
        make_directories(self._folder, self._layout.reports)
        return DurableFile(self._folder, below=self._layout.reports, mode=0o400)

    def _has_intact(self, stored: StoredObject) -> bool:
        """Whether the object is there, whole, and will still be after a loss of power."""
        try:
            self.verify(stored.sha256, stored.size_bytes)
        except ObjectDamaged:
            return False
        # Whoever renamed it may have been killed before the folder was synced.
        path = self._layout.object(self._title, stored.sha256)
        make_directories(path.parent, self._layout.reports)
        make_name_durable(path, below=self._layout.reports)
        return True

    def _adopt(self, file: DurableFile, stored: StoredObject) -> None:
        path = self._layout.object(self._title, stored.sha256)
        make_directories(path.parent, self._layout.reports)
        if path.is_dir() and not path.is_symlink():  # rename puts a file in place of anything but a folder
            remove_durably(path, below=self._layout.reports)
        file.rename_to(path)


def _is_temp(name: str, status: os.stat_result) -> bool:
    return is_leftover(name) and stat.S_ISREG(status.st_mode)
