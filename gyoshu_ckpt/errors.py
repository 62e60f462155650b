"""Every error that gyoshu raises on purpose, and the exit code of each.

::

    GyoshuError ........................... 1   something failed
    ├── UserMistake ....................... 2   the command or the notebook has to change
    │   ├── BadName                             an id, title, path or artifact name is refused
    │   ├── BadPlan                             the notebook cannot be sliced into stages
    │   ├── NoSuchRun ..................... 66  no run or checkpoint of that name
    │   └── BadSettings ................... 78  gyoshu.toml or GYOSHU_* cannot be used
    ├── RunFailed ......................... 1   the research did not get to its end
    │   ├── StageFailed                         a cell raised
    │   ├── ValueNotSavable                     no codec can store a value exactly
    │   ├── KernelDied                          the kernel ended by itself
    │   └── StoppedByWatchdog ............. 124 a limit was passed
    ├── Damaged ........................... 65  bytes in the store are not what was written
    │   ├── ManifestDamaged
    │   │   └── NewerFormat                     written by a later release: not ours to judge
    │   └── ObjectDamaged
    ├── Unavailable ....................... 69  something outside has to be mended first
    │   ├── KernelUnavailable                   the kernel cannot be started
    │   └── StoreUnavailable                    no space, no permission, no such filesystem
    ├── LockHeld .......................... 75  somebody else is at work: try again later
    └── InternalBug ....................... 70  ours, not yours

A message says what happened and what is safe; ``next_step`` is the command or the edit that helps.
Nothing else crosses the boundary of the package: an ``OSError`` that a user could meet is turned into
one of these where it is understood.
"""

from __future__ import annotations

__all__ = [
    "BadName",
    "BadPlan",
    "BadSettings",
    "Damaged",
    "GyoshuError",
    "InternalBug",
    "KernelDied",
    "KernelUnavailable",
    "LockHeld",
    "ManifestDamaged",
    "NewerFormat",
    "NoSuchRun",
    "ObjectDamaged",
    "RunFailed",
    "StageFailed",
    "StoppedByWatchdog",
    "StoreUnavailable",
    "Unavailable",
    "UserMistake",
    "ValueNotSavable",
]


class GyoshuError(Exception):
    """The root of the tree."""

    exit_code = 1

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class UserMistake(GyoshuError):
    """The command line or the notebook has to change before anything can run."""

    exit_code = 2


class BadName(UserMistake):
    """An id, title, path or artifact name that could escape the store or break a marker."""


class BadPlan(UserMistake):
    """The notebook cannot be sliced into stages; raised before any kernel starts."""


class NoSuchRun(UserMistake):
    """The store has no run, checkpoint or report title of that name."""

    exit_code = 66


class BadSettings(UserMistake):
    """``gyoshu.toml`` or a ``GYOSHU_*`` variable holds something that cannot be used."""

    exit_code = 78


class RunFailed(GyoshuError):
    """The run stopped before its last stage was finished."""


class StageFailed(RunFailed):
    """A cell of a stage raised an exception, or an input of it is missing."""


class ValueNotSavable(RunFailed):
    """A value that the checkpoint needs cannot be stored and read back exactly."""


class KernelDied(RunFailed):
    """The kernel process ended although nobody had asked it to."""


class StoppedByWatchdog(RunFailed):
    """A stage passed one of its limits and was stopped."""

    exit_code = 124


class Damaged(GyoshuError):
    """Bytes in the store are not the bytes that were written."""

    exit_code = 65


class ManifestDamaged(Damaged):
    """A manifest is unreadable, is not what its hash says, or names something outside the store."""


class NewerFormat(ManifestDamaged):
    """A manifest says that a newer gyoshu wrote it: not ours to resume from, nor to throw away."""


class ObjectDamaged(Damaged):
    """An object is missing, shortened, altered, or not a regular file."""


class Unavailable(GyoshuError):
    """Something that gyoshu needs is not to be had at the moment."""

    exit_code = 69


class KernelUnavailable(Unavailable):
    """The kernel is not installed, does not start, or lacks gyoshu_ckpt."""


class StoreUnavailable(Unavailable):
    """The store cannot be written: no space, no inodes, no permission, read-only."""


class LockHeld(GyoshuError):
    """Another process is working on this run."""

    exit_code = 75


class InternalBug(GyoshuError):
    """A state that the code calls impossible. The message tells the story that led to it."""

    exit_code = 70
