"""Write so that a crash leaves the old file or the new one: the only module that calls fsync and rename.

Rules
1. A file is never rewritten in place: temp file beside it, all bytes, fsync, rename, fsync of the folder.
2. A failed fsync is never trusted and never repeated: the kernel may have dropped the pages and forgotten
   the fault. The temp file is thrown away; the caller starts over from the source.
3. Every folder on the way has its entry fsynced, made by us or not: whoever made it may have died before.
   Once per process is enough for an entry that is still the same one.
4. All access goes through descriptors opened without following links (`no_follow`).
5. Files are 0600 and folders 0700 unless the umask asks for less.

Not handled here: several writers of one file (`run_lock`), temp files that a killed process leaves behind
(`remove_leftovers`, called by prune), and filesystems that lie about fsync.

Longer than its neighbours because fsync and rename are kept in one place.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from gyoshu_ckpt.errors import InternalBug, ObjectDamaged, StoreUnavailable
from gyoshu_ckpt.storage.no_follow import (
    directory_below,
    entries_below,
    open_directory,
    open_regular,
    open_step,
    parts_below,
)
from gyoshu_ckpt.storage.os_faults import translate_os_errors

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "DurableFile",
    "append_durably",
    "make_directories",
    "make_name_durable",
    "open_for_append",
    "open_regular",
    "publish",
    "remove_durably",
    "remove_files",
    "remove_leftovers",
    "replace_quickly",
    "translate_os_errors",
    "write_durably",
]

TEMP_SUFFIX = ".gyoshu-tmp"
SMALL_ENOUGH_TO_COPY = 16 * 2**20  # people edit small files by hand; larger ones would double the disk usage
_SLICE = 8 * 2**20
_FICLONE = 0x40049409  # not in Python's fcntl module

# Folder, name and inode of entries that this process has synced: a commit touches the same few every time.
_durable_entries: set[tuple[int, int, str, int]] = set()


def make_directories(path: Path, below: Path) -> None:
    """Create the folder ``path`` and what is missing on the way, ``below`` included, durably."""
    parts = parts_below(path, below)
    with translate_os_errors(f"create the folder {path}", path):
        _make_base(below)
        descriptor = open_directory(below, below=below)
        try:
            for part in parts:
                try:
                    os.mkdir(part, 0o700, dir_fd=descriptor)
                    is_new = True
                except FileExistsError:
                    is_new = False
                deeper = open_step(part, descriptor)
                parent, descriptor = descriptor, deeper
                try:
                    _sync_entry(part, parent, is_new=is_new)
                finally:
                    os.close(parent)
        finally:
            os.close(descriptor)


def write_durably(path: Path, data: ReadableBuffer, *, below: Path) -> None:
    """Make ``data`` the content of ``path``: after this returns, it survives a loss of power."""
    parts_below(path, below)
    make_directories(path.parent, below)
    with DurableFile(path.parent, below=below) as file:
        file.write(data)
        file.sync()
        file.rename_to(path)


def replace_quickly(path: Path, data: ReadableBuffer, *, below: Path) -> None:
    """Like `write_durably`, but safe against the death of the process only. For views that can be rebuilt."""
    parts_below(path, below)
    try:
        file = DurableFile(path.parent, below=below, durable=False)
    except StoreUnavailable as problem:
        if not isinstance(problem.__cause__, FileNotFoundError):
            raise
        make_directories(path.parent, below)
        file = DurableFile(path.parent, below=below, durable=False)
    with file:
        file.write(data)
        file.rename_to(path)


class DurableFile:
    """A temp file that becomes a whole file under its final name, or nothing: a context manager.

    Write, `sync`, then `rename_to`. Leaving the block before the rename removes the temp file.
    """

    def __init__(self, directory: Path, *, below: Path, mode: int = 0o600, durable: bool = True) -> None:
        self._directory = directory
        self._below = below
        self._durable = durable
        self._synced = False
        self._size = 0
        self._handed_over = 0  # how far the disk was told to begin
        self._name: str | None = _temp_name()
        with translate_os_errors(f"write in {directory}", directory):
            self._parent = open_directory(directory, below=below)
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self._name, flags, mode, dir_fd=self._parent)
            except BaseException:
                os.close(self._parent)
                raise

    def __enter__(self) -> DurableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def fileno(self) -> int:
        """The descriptor of the temp file."""
        return self._fd

    def write(self, data: ReadableBuffer) -> None:
        """Append all of ``data``, however many calls that takes."""
        view = memoryview(data).cast("B")
        with translate_os_errors(f"write in {self._directory}", self._directory):
            for start in range(0, len(view), _SLICE):
                piece = view[start : start + _SLICE]
                _write_all(self._fd, piece)
                self._start_writeback(len(piece))
        self._synced = False

    def sync(self) -> None:
        """Have the bytes on the medium. If this fails, the file is lost: start over."""
        with translate_os_errors(f"write in {self._directory}", self._directory):
            os.fsync(self._fd)
        self._synced = True

    def reopen(self) -> io.BufferedReader:
        """The temp file from its start, for reading back what was written before it gets its name."""
        if self._name is None:
            raise InternalBug("a file that has its name already is opened by that name")
        with translate_os_errors(f"read in {self._directory}", self._directory):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.fdopen(os.open(self._name, flags, dir_fd=self._parent), "rb")

    def rename_to(self, target: Path) -> None:
        """Give the file its final name, replacing what has it. The folder of ``target`` must exist."""
        parts_below(target, self._below)
        if self._name is None or (self._durable and not self._synced):
            raise InternalBug(f"{target} was about to be named before its bytes were safe")
        with (
            translate_os_errors(f"write {target}", target),
            directory_below(target.parent, below=self._below) as folder,
        ):
            os.replace(self._name, target.name, src_dir_fd=self._parent, dst_dir_fd=folder)
            self._name = None
            if self._durable:
                _sync_entry(target.name, folder, is_new=True)

    def discard(self) -> None:
        """Close everything, and remove the temp file if it never got its name. May be called twice."""
        if self._fd < 0:
            return
        with suppress(OSError):  # the bytes were synced or are unwanted; a temp file left behind is harmless
            os.close(self._fd)
        self._fd = -1
        if self._name is not None:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._parent)
            self._name = None
        os.close(self._parent)

    def _start_writeback(self, size: int) -> None:
        # On Linux DONTNEED makes the disk start now on dirty pages, so that the fsync at the end finds little
        # left to do. Each range once: a second time its pages would be clean, and be dropped from the cache
        # just before they are read back.
        self._size += size
        if self._durable and self._size - self._handed_over >= _SLICE:
            length = self._size - self._handed_over
            os.posix_fadvise(self._fd, self._handed_over, length, os.POSIX_FADV_DONTNEED)
            self._handed_over = self._size


def publish(object_path: Path, target: Path, *, below: Path) -> None:
    """Make a visible file of an object: a reflink, else a small copy, else a read-only hard link.

    Objects are 0400 from their birth: chmod of a link would change the object, which is the same inode.
    """
    parts_below(target, below)
    make_directories(target.parent, below)
    with (
        open_regular(
            object_path, below=below, called=f"object {object_path.name}", refusal=ObjectDamaged
        ) as source,
        DurableFile(target.parent, below=below) as file,
        translate_os_errors(f"write {target}", target),
    ):
        if not _reflink(source, file):
            is_small = os.fstat(source.fileno()).st_size <= SMALL_ENOUGH_TO_COPY
            if not is_small and _hard_link(object_path, target, below=below):
                return
            while chunk := source.read(_SLICE):
                file.write(chunk)
        file.sync()
        file.rename_to(target)


def open_for_append(path: Path, *, below: Path) -> int:
    """A descriptor that appends to ``path``, which is made if it is missing; its entry is durable."""
    parts_below(path, below)
    with translate_os_errors(f"write {path}", path), directory_below(path.parent, below=below) as parent:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
        try:
            _sync_directory(parent)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def append_durably(fd: int, data: ReadableBuffer, sync: bool) -> None:
    """Append all of ``data``. Raises ``OSError``, because only the caller knows the file's name."""
    _write_all(fd, memoryview(data).cast("B"))
    if sync:
        os.fsync(fd)


def make_name_durable(path: Path, *, below: Path) -> None:
    """Have the entry of ``path`` in its folder survive a loss of power, whoever made it."""
    with translate_os_errors(f"write {path}", path), directory_below(path.parent, below=below) as parent:
        _sync_entry(path.name, parent, is_new=False)


def remove_durably(path: Path, *, below: Path) -> None:
    """Remove a file, a link or a whole folder; nothing happens if there is none."""
    if not parts_below(path, below):
        raise InternalBug(f"{path} is the store itself")
    with (
        translate_os_errors(f"remove {path}", path),
        suppress(FileNotFoundError),
        directory_below(path.parent, below=below) as parent,
    ):
        if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
            _remove_tree(path.name, parent)
        else:
            os.unlink(path.name, dir_fd=parent)
        _sync_directory(parent)


def remove_files(folder: Path, names: Iterable[str], *, below: Path) -> None:
    """Remove several files of one folder, with one fsync for all."""
    with (
        translate_os_errors(f"remove files in {folder}", folder),
        directory_below(folder, below=below) as parent,
    ):
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
        _sync_directory(parent)


def remove_leftovers(folder: Path, *, below: Path) -> None:
    """Remove the temp files that killed processes left in ``folder`` and its folders.

    Only for those who hold the lock of what lies there: a temp file of a living writer looks the same.
    """
    entries = entries_below(folder, below=below)
    names = [name for name, status in entries if is_leftover(name) and stat.S_ISREG(status.st_mode)]
    if names:
        remove_files(folder, names, below=below)
    for name, status in entries:
        if stat.S_ISDIR(status.st_mode):
            remove_leftovers(folder / name, below=below)


def is_leftover(name: str) -> bool:
    """Whether ``name`` is that of a temp file. No title or artifact begins with a dot."""
    return name.startswith(".") and name.endswith(TEMP_SUFFIX)


def _temp_name() -> str:
    return f".{os.urandom(8).hex()}{TEMP_SUFFIX}"


def _make_base(below: Path) -> None:
    """Create the store's own folder. Links above it are the user's business, so plain paths will do."""
    if below.is_dir():
        return
    _make_base(below.parent)
    with suppress(FileExistsError):
        below.mkdir(0o700)
    descriptor = os.open(below.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync_directory(descriptor)
    finally:
        os.close(descriptor)


def _write_all(fd: int, view: memoryview) -> None:
    while view:
        written = os.write(fd, view)
        if written == 0:  # neither progress nor an error: never loop on it
            raise OSError(errno.EIO, "the filesystem took no bytes")
        view = view[written:]


def _sync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as fault:
        # Some network and FUSE filesystems have no fsync for folders. That is no failed write: there is none.
        if fault.errno != errno.EINVAL:
            raise


def _sync_entry(name: str, parent: int, *, is_new: bool) -> None:
    """Have ``name`` in its folder survive a loss of power, unless this process has seen to that before."""
    folder = os.fstat(parent)
    entry = (folder.st_dev, folder.st_ino, name, os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino)
    if is_new or entry not in _durable_entries:
        _sync_directory(parent)
        _durable_entries.add(entry)


def _reflink(source: BinaryIO, file: DurableFile) -> bool:
    try:
        fcntl.ioctl(file.fileno(), _FICLONE, source.fileno())
    except OSError as fault:
        if fault.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        return False  # this filesystem cannot: each says so with an errno of its own
    return True


def _hard_link(object_path: Path, target: Path, *, below: Path) -> bool:
    with (
        directory_below(object_path.parent, below=below) as source,
        directory_below(target.parent, below=below) as folder,
    ):
        temp = _temp_name()
        try:
            os.link(object_path.name, temp, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as fault:
            if fault.errno in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}:
                return False
            raise
        try:
            os.replace(temp, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # rename does nothing when both names are the same inode already, so the temp name may remain.
            with suppress(FileNotFoundError):
                os.unlink(temp, dir_fd=folder)
        _sync_directory(folder)
        return True


def _remove_tree(name: str, parent: int) -> None:
    descriptor = open_step(name, parent)
    try:
        with os.scandir(descriptor) as listing:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
        for entry, is_folder in entries:
            if is_folder:
                _remove_tree(entry, descriptor)
            else:
                os.unlink(entry, dir_fd=descriptor)
        _sync_directory(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
