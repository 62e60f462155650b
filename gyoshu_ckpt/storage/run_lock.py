"""One writer per run: an flock that the operating system frees when its holder dies, however it dies.

Rules
1. The lock is the truth. The holder file beside it only says whom to name in a message; it is removed before
   the lock is let go, and one that a killed process left is told apart by the process's start time.
2. The title lock is held for moments: around creating a run, around taking a run's lock, and while a title is
   pruned. So nobody can begin to write while unreferenced objects are swept.
3. Never a soft lock (a file that merely exists): it would outlive its holder.
4. A lock file behind a symbolic link is refused. The path is checked first and then opened by name: whoever
   can swap folders of the store in between could take the lock anyway.

Not handled here: several machines on one network filesystem without flock, which is refused, not emulated.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from gyoshu_ckpt.errors import Damaged, GyoshuError, LockHeld, NoSuchRun, StoreUnavailable
from gyoshu_ckpt.storage.durable_files import (
    make_directories,
    open_regular,
    remove_durably,
    replace_quickly,
    translate_os_errors,
)
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.no_follow import directory_below

_TITLE_LOCK_TIMEOUT_S = 30.0
_LARGEST_HOLDER_FILE = 2**16


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a run lock. ``started``: clock ticks after boot, so that a reused pid is another process."""

    pid: int
    command: str
    since: str
    started: int


class RunLock:
    """A run lock that is held. Release it, or use it in ``with``."""

    def __init__(self, layout: StoreLayout, lock: FileLock, title: str, run_id: str, holder: Holder) -> None:
        self._layout = layout
        self._lock = lock
        self.title = title
        self.run_id = run_id
        self.holder = holder

    def release(self) -> None:
        """Let others write. May be called twice."""
        if not self._lock.is_locked:
            return
        with suppress(GyoshuError):  # a holder file that cannot be removed names a process without the lock
            remove_durably(self._layout.lock_holder(self.title, self.run_id), below=self._layout.reports)
        self._lock.release()

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _local_time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


@contextmanager
def title_lock(layout: StoreLayout, title: str, *, timeout: float = _TITLE_LOCK_TIMEOUT_S) -> Iterator[None]:
    """Keep others from creating, taking or pruning runs of a title; :class:`LockHeld` after ``timeout``."""
    lock = _lock_at(layout, layout.title_lock(title))
    if not _acquire(lock, layout.title_lock(title), timeout):
        raise LockHeld(
            f"'{title}' is being changed by another process (for {timeout:.0f} s now)",
            next_step="try again later",
        )
    try:
        yield
    finally:
        lock.release()


def create_run(
    layout: StoreLayout, title: str, *, command: str, clock: Callable[[], str] = _local_time
) -> RunLock:
    """Make the folder of the next run, and hold its lock. The title's folder is made when it is missing."""
    make_directories(layout.title_dir(title), layout.reports)
    with title_lock(layout, title):
        run_id = layout.next_run_id(title)
        make_directories(layout.run_dir(title, run_id), layout.reports)
        return take_run_lock(layout, title, run_id, command=command, clock=clock)


def lock_run(
    layout: StoreLayout, title: str, run_id: str, *, command: str, clock: Callable[[], str] = _local_time
) -> RunLock:
    """Hold the lock of a run that exists; :class:`LockHeld` names who has it."""
    if run_id not in layout.runs(title):
        raise NoSuchRun(f"there is no {run_id} of '{title}'", next_step="gyoshu list")
    with title_lock(layout, title):
        return take_run_lock(layout, title, run_id, command=command, clock=clock)


def take_run_lock(
    layout: StoreLayout, title: str, run_id: str, *, command: str, clock: Callable[[], str] = _local_time
) -> RunLock:
    """`lock_run` for those who hold the title lock already."""
    make_directories(layout.run_dir(title, run_id), layout.reports)  # a run may have checkpoints only
    path = layout.run_lock(title, run_id)
    lock = _lock_at(layout, path)
    if not _acquire(lock, path, 0):
        raise LockHeld(
            f"{run_id} of {title} is in use by {_named(holder_of(layout, title, run_id), clock())}",
            next_step="wait for it to end, or stop it, then try again",
        )
    try:
        holder = Holder(os.getpid(), command, clock(), _start_ticks(os.getpid()) or 0)
        data = json.dumps(asdict(holder)).encode()
        with suppress(StoreUnavailable):  # prune must be able to take the lock on a full disk
            replace_quickly(layout.lock_holder(title, run_id), data, below=layout.reports)
    except BaseException:
        lock.release()
        raise
    return RunLock(layout, lock, title, run_id, holder)


def holder_of(layout: StoreLayout, title: str, run_id: str) -> Holder | None:
    """The living process that has the run's lock, or None. Takes no lock, so it disturbs nobody."""
    path = layout.lock_holder(title, run_id)
    try:
        with open_regular(path, below=layout.reports) as file:
            raw = json.loads(file.read(_LARGEST_HOLDER_FILE))
        holder = Holder(int(raw["pid"]), str(raw["command"]), str(raw["since"]), int(raw["started"]))
    except (Damaged, StoreUnavailable, OSError, ValueError, TypeError, KeyError, RecursionError):
        return None  # nobody, or nobody who can be named
    return holder if _start_ticks(holder.pid) == holder.started else None


def _lock_at(layout: StoreLayout, path: Path) -> FileLock:
    with translate_os_errors(f"lock {path}", path):
        try:
            with directory_below(path.parent, below=layout.reports) as parent, suppress(FileNotFoundError):
                status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise StoreUnavailable(
                        f"{path} is a link or something else that is no file, so it cannot serve as a lock",
                        next_step=f"remove {path}",
                    )
        except FileNotFoundError:
            raise NoSuchRun(f"{path.parent} does not exist", next_step="gyoshu list") from None
    # thread_local=False: a run is locked by the process; the thread that ends it may be another one.
    return FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)


def _acquire(lock: FileLock, path: Path, timeout: float) -> bool:
    with translate_os_errors(f"lock {path}", path):
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            return False
        except NotImplementedError as problem:
            raise StoreUnavailable(f"the filesystem of {path} has no locks: {problem}") from None
    return True


def _start_ticks(pid: int) -> int | None:
    """When a living process was started; None for one that is gone or is a zombie, which holds no lock."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        state, *numbers = text.rpartition(")")[2].split()  # the command before it may hold anything
        return None if state in {"Z", "X"} else int(numbers[18])
    except (OSError, ValueError, IndexError):
        return None


def _named(holder: Holder | None, now: str) -> str:
    if holder is None:
        return "another process"
    day, _, time = holder.since.partition("T")
    since = time[:5] if now.startswith(day) else f"{day} {time[:5]}"
    command = "".join(c if c.isprintable() else "?" for c in holder.command)[
        :80
    ]  # a file's word, on a terminal
    return f"process {holder.pid} ({command}, since {since})"
