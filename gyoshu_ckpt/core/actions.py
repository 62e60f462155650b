"""What the supervisor's shell is to do. `supervision.step` returns these; it does nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gyoshu_ckpt.core.manifest import Reason, Status
from gyoshu_ckpt.core.plan import PlanCell
from gyoshu_ckpt.core.run_state import RunState
from gyoshu_ckpt.core.save_protocol import Receipt
from gyoshu_ckpt.core.watchdog import Rung


@dataclass(frozen=True, slots=True)
class StartKernel:
    """Start the kernel; answer with KernelStarted."""


@dataclass(frozen=True, slots=True)
class RunCell:
    """Execute a cell; its end comes back as CellFinished."""

    cell: PlanCell
    role: Literal["setup", "stage", "rehydration"]
    stage_id: str | None


@dataclass(frozen=True, slots=True)
class PrepareStage:
    """Check the stage's inputs and empty its staging folder; answer StagePrepared or StageNotPreparable."""

    stage_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class SaveValues:
    """Ask the kernel for the stage's values; the receipt comes back as ValuesSaved."""

    stage_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class CommitCheckpoint:
    """Verify what the receipt claims and commit; answer CheckpointCommitted or CheckpointRefused."""

    stage_id: str
    attempt: int
    receipt: Receipt = field(hash=False)


@dataclass(frozen=True, slots=True)
class WriteEmergency:
    """Write an emergency checkpoint: metadata, no kernel needed."""

    stage_id: str | None
    attempt: int
    status: Status
    reason: Reason


@dataclass(frozen=True, slots=True)
class TakeRung:
    """Send the kernel the signal of this rung."""

    rung: Rung


@dataclass(frozen=True, slots=True)
class Record:
    """Append to the journal. ``durable`` lines are synced to disk before the run goes on."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict, hash=False)
    durable: bool = False


@dataclass(frozen=True, slots=True)
class EndRun:
    """The session is over. ``message`` is for people; ``exit_code`` for whoever started us."""

    state: RunState
    exit_code: int
    message: str
    next_step: str | None = None


Action = (
    StartKernel
    | RunCell
    | PrepareStage
    | SaveValues
    | CommitCheckpoint
    | WriteEmergency
    | TakeRung
    | Record
    | EndRun
)
