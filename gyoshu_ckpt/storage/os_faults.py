"""Turn what the operating system refuses into one clear sentence.

Every ``OSError`` that a user could meet while the store is read or written passes through
`translate_os_errors` and leaves as :class:`StoreUnavailable`: what could not be done, why in plain words,
and what is safe. The original stays as ``__cause__`` for those who have to know the errno.

Not handled here: whether trying again is worth it. That is the caller's decision.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gyoshu_ckpt.errors import StoreUnavailable

UNTOUCHED = "the last checkpoint is untouched"

_WHY = {
    errno.EDQUOT: "your disk quota is used up",
    errno.EROFS: "the filesystem is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "the operation is not permitted",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.EIO: "the disk reports an input/output error",
    errno.ENOENT: "a folder on the way does not exist",
    errno.ENOTDIR: "a file is in the way where a folder is needed",
    errno.EISDIR: "a folder is in the way where a file is needed",
    errno.EEXIST: "something of that name is there already",
    errno.ENAMETOOLONG: "the path is longer than the filesystem takes",
    errno.ESTALE: "the network filesystem has lost the folder",
    errno.EFBIG: "the file would be larger than the filesystem or the limits of this process allow",
    errno.ENOMEM: "the system is out of memory",
}
_NEXT = {
    errno.ENOSPC: "free some space, then gyoshu continue",
    errno.EDQUOT: "free some space or raise the quota, then gyoshu continue",
    errno.EROFS: "make the filesystem writable or choose another --root, then gyoshu continue",
    errno.EACCES: "give yourself access to the folder or choose another --root, then gyoshu continue",
    errno.EPERM: "give yourself access to the folder or choose another --root, then gyoshu continue",
    errno.EMFILE: "raise the limit (ulimit -n), then gyoshu continue",
    errno.ELOOP: "put a real folder in place of the link, then gyoshu continue",
}


@contextmanager
def translate_os_errors(what: str, where: Path, *, safe: str = UNTOUCHED) -> Iterator[None]:
    """Raise :class:`StoreUnavailable` for any ``OSError`` of the block: "could not {what}: why; {safe}"."""
    try:
        yield
    except OSError as fault:
        message = f"could not {what}: {_why(fault, where)}; {safe}"
        raise StoreUnavailable(message, next_step=_NEXT.get(fault.errno or 0)) from fault


def is_disk_fault(problem: StoreUnavailable) -> bool:
    """Whether the medium itself could not give the bytes back, as opposed to a missing right or resource."""
    return isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EIO


def _why(fault: OSError, where: Path) -> str:
    if fault.errno == errno.ENOSPC:
        return (
            "the filesystem has no free inodes (too many files)" if _no_inodes(where) else "the disk is full"
        )
    if fault.errno == errno.ELOOP:
        link = f"'{fault.filename}'" if fault.filename else "a part of the path"
        return f"{link} is a symbolic link, and none is followed inside a store"
    return _WHY.get(fault.errno or 0) or fault.strerror or str(fault)


def _no_inodes(where: Path) -> bool:
    """ENOSPC has two causes; only statvfs tells which. Filesystems without fixed inodes say f_files == 0."""
    for candidate in (where, *where.parents):
        try:
            numbers = os.statvfs(candidate)
        except OSError:
            continue  # not made yet: ask its parent
        return numbers.f_files > 0 and numbers.f_favail == 0
    return False
