"""Open what lies below a trusted folder, without following a link on the way.

Rules
1. ``below`` is trusted and may be reached through links; from there on every component is opened relative to
   its parent's descriptor with O_NOFOLLOW, so that nobody can swap a link in between check and use.
2. A path that leaves ``below`` by its text alone is :class:`BadName`.
3. Reading never blocks: what is not a regular file (a FIFO, a device) is refused before it is opened, and is
   opened with O_NONBLOCK in case it changed after that look.

Not handled here: writing (`durable_files`), and whether the bytes are the right ones (`objects`).
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gyoshu_ckpt.errors import BadName, Damaged
from gyoshu_ckpt.storage.os_faults import translate_os_errors

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Refused(Exception):
    """A path does not lead to a regular file. Never leaves this package: callers give it its public name."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


def parts_below(path: Path, below: Path) -> tuple[str, ...]:
    """The components that lead from ``below`` to ``path``; :class:`BadName` if they do not stay inside."""
    try:
        parts = path.relative_to(below).parts
    except ValueError:
        raise BadName(f"{str(path)!a} lies outside the store {str(below)!a}") from None
    if any(part == ".." or "\0" in part for part in parts):
        raise BadName(f"{str(path)!a} is not a path that stays inside the store")
    return parts


def open_step(name: str, parent: int) -> int:
    """Open one folder inside the folder ``parent``. A link is ELOOP, anything else in the way ENOTDIR."""
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError:
        # Linux says ENOTDIR for a link too when O_DIRECTORY is asked for; people want to know which it was.
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        code = errno.ELOOP if is_link else errno.ENOTDIR
        raise OSError(code, os.strerror(code), name) from None


@contextmanager
def directory_below(path: Path, *, below: Path) -> Iterator[int]:
    """A descriptor of the folder ``path``, for use as ``dir_fd``. Raises ``OSError``."""
    descriptor = open_directory(path, below=below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(path: Path, *, below: Path) -> int:
    """Like `directory_below`, for a descriptor that the caller closes."""
    parts = parts_below(path, below)
    descriptor = os.open(below, _DIRECTORY)
    for part in parts:
        try:
            deeper = open_step(part, descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def open_regular(
    path: Path, *, below: Path, called: str | None = None, refusal: type[Damaged] = Damaged
) -> io.BufferedReader:
    """Open a regular file for reading; raise ``refusal`` ("{called} is missing") when it is none.

    What is no fault of the file (no permission, too many open files) is :class:`StoreUnavailable`.
    """
    name = called or path.name
    with translate_os_errors(f"read {name}", path, safe="nothing was changed"):
        try:
            return open_or_refuse(path, below=below)
        except Refused as problem:
            raise refusal(f"{name} {problem.reason}") from None


def open_or_refuse(path: Path, *, below: Path) -> io.BufferedReader:
    """`open_regular` for this package: raises :class:`Refused` or ``OSError``."""
    if not parts_below(path, below):
        raise Refused("is a folder, not a file")
    try:
        with directory_below(path.parent, below=below) as parent:
            _refuse_unless_regular(os.stat(path.name, dir_fd=parent, follow_symlinks=False))
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.fdopen(os.open(path.name, flags, dir_fd=parent), "rb")
    except FileNotFoundError:
        raise Refused("is missing", missing=True) from None
    except NotADirectoryError:
        raise Refused("is missing: a file stands where its folder should be") from None
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            raise Refused(f"lies behind a symbolic link ({fault.filename})") from None
        raise
    try:
        _refuse_unless_regular(os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def entries_below(path: Path, *, below: Path) -> list[tuple[str, os.stat_result]]:
    """Names and lstat of what a folder holds, sorted by name; empty when there is no such folder.

    A link where the folder should be counts as none: what lies behind it is not part of the store.
    """
    found: list[tuple[str, os.stat_result]] = []
    with translate_os_errors(f"list {path}", path, safe="nothing was changed"):
        try:
            with directory_below(path, below=below) as descriptor, os.scandir(descriptor) as listing:
                for entry in listing:
                    try:
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue  # removed while we were looking
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as fault:
            if fault.errno != errno.ELOOP:
                raise
            return []
    return sorted(found, key=lambda entry: entry[0])


def _refuse_unless_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a file")
