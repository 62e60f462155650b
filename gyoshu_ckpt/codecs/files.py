"""Files and folders that a stage wrote itself: stored byte for byte.

Rules
1. Only regular files: a symbolic link could show another file tomorrow, a FIFO or socket holds nothing.
2. The file that is opened is the file that was looked at (``O_NOFOLLOW``, then ``fstat``); one that changes
   while it is copied is refused, because nobody could say what was stored.
3. A folder is its files, by sorted relative path, each checked like every other name that enters the store.

Not kept: modes, times, empty folders inside a folder. Nothing is loaded from these into a kernel, so there is
no codec object: ``file`` is only a name in the manifest.
"""

from __future__ import annotations

import io
import mimetypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gyoshu_ckpt.codecs.encoding import Encoded, OpenWriter
from gyoshu_ckpt.core.ids import check_relative_path
from gyoshu_ckpt.errors import ValueNotSavable

CODEC_NAME = "file"
CODEC_VERSION = 1

_CHUNK = 2**20
_PLAIN_FILES = "keep only regular files where artifacts are written: copy what a link points to"


def encode_file(path: Path, open_writer: OpenWriter, *, file_name: str | None = None) -> Encoded:
    """Store one file; ``file_name`` is what the store calls it, by default the file's own name."""
    file_name = check_relative_path(path.name if file_name is None else file_name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise _unreadable(path, file_name, problem) from problem
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        os.close(descriptor)
        raise _not_regular(file_name, before.st_mode)
    with io.FileIO(descriptor) as source, open_writer() as writer:
        view = memoryview(bytearray(_CHUNK))
        remaining = before.st_size  # not "until the end": a file that somebody appends to may have none
        while remaining and (size := source.readinto(view[:remaining])):
            writer.write(view[:size])
            remaining -= size
        after = os.fstat(descriptor)
        if remaining or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise ValueNotSavable(
                f"the file {file_name} was still being written while it was saved",
                next_step="close the file and wait for what writes it before the stage ends",
            )
        writer.seal()
        stored = writer.commit()
    media_type = mimetypes.guess_type(file_name)[0] or "application/octet-stream"
    return Encoded(CODEC_NAME, CODEC_VERSION, "data", media_type, file_name, stored.sha256, stored.size_bytes)


def encode_folder(path: Path, open_writer: OpenWriter) -> list[Encoded]:
    """Store every file of a folder; their names are relative to it, with slashes."""
    names = sorted(_files_below(path, path))
    if not names:
        raise ValueNotSavable(
            f"the folder {path.name} is empty, so there is nothing to save",
            next_step=f"write a file into {path.name}, or take it out of --out",
        )
    for name in names:
        check_relative_path(name)  # all names before the first byte
    return [encode_file(path / name, open_writer, file_name=name) for name in names]


def _files_below(folder: Path, top: Path) -> Iterator[str]:
    try:
        if folder.is_symlink():
            raise _not_regular(folder.name, stat.S_IFLNK)
        entries = list(os.scandir(folder))
    except OSError as problem:
        raise _unreadable(folder, folder.name, problem) from problem
    for entry in entries:
        name = Path(entry.path).relative_to(top).as_posix()
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _files_below(Path(entry.path), top)
        elif stat.S_ISREG(mode):
            yield name
        else:
            raise _not_regular(name, mode)


def _not_regular(name: str, mode: int) -> ValueNotSavable:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
    }
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return ValueNotSavable(
        f"{name} is {kind}, not a regular file, and cannot be saved", next_step=_PLAIN_FILES
    )


def _unreadable(path: Path, name: str, problem: OSError) -> ValueNotSavable:
    if path.is_symlink():
        return _not_regular(name, stat.S_IFLNK)
    if isinstance(problem, FileNotFoundError):
        return ValueNotSavable(
            f"{name} was declared as an output, but the stage did not write it",
            next_step=f"write it to gy.artifact_path('{name}'), or take it out of --out",
        )
    return ValueNotSavable(
        f"{name} cannot be read: {problem.strerror or problem}",
        next_step="give the kernel's user the right to read it",
    )
