"""What can happen to a run. The supervisor's shell turns I/O into these; `supervision.step` consumes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gyoshu_ckpt.core.markers import Marker, MarkerProblem
from gyoshu_ckpt.core.save_protocol import Receipt


class StopCause(StrEnum):
    """Who asked that the run stop."""

    CTRL_C = "ctrl_c"
    SIGTERM = "sigterm"
    SIGHUP = "sighup"


@dataclass(frozen=True, slots=True)
class Begun:
    """The first event of every session."""


@dataclass(frozen=True, slots=True)
class KernelStarted:
    """The kernel answers."""

    kernel_name: str
    pid: int


@dataclass(frozen=True, slots=True)
class StagePrepared:
    """The stage's inputs are there and its staging folder is empty."""


@dataclass(frozen=True, slots=True)
class StageNotPreparable:
    """Something that the stage declared as input is missing."""

    message: str
    next_step: str


@dataclass(frozen=True, slots=True)
class CellFinished:
    """The cell that was sent last is over, and all of its output has been received."""

    status: Literal["ok", "error", "aborted"]
    error_name: str = ""
    error_value: str = ""


@dataclass(frozen=True, slots=True)
class ValuesSaved:
    """The kernel answered a save request."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """The manifest is durable and was read back."""

    checkpoint_id: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointRefused:
    """The checkpoint could not be made; the one before it is as it was."""

    message: str
    next_step: str | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class KernelGone:
    """The kernel process ended."""

    exit_code: int | None
    signal: int | None
    last_words: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A person or the system asked the run to stop."""

    cause: StopCause


@dataclass(frozen=True, slots=True)
class MarkerSeen:
    """A marker, or something that looks like a broken one, in the kernel's output."""

    marker: Marker | MarkerProblem


@dataclass(frozen=True, slots=True)
class Ticked:
    """Nothing happened until the deadline that supervision had named."""


Event = (
    Begun
    | KernelStarted
    | StagePrepared
    | StageNotPreparable
    | CellFinished
    | ValuesSaved
    | CheckpointCommitted
    | CheckpointRefused
    | KernelGone
    | StopRequested
    | MarkerSeen
    | Ticked
)
