"""A run's journal, folded into what a resume and a status line need to know. Pure.

The journal is the story and manifests are the truth (`core.resume` reads those): what is folded here decides
how a run is described, which notebook and parameters it belongs to, and which attempt comes next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.run_state import RunState, StageState


class Recorded(Protocol):
    """A line of the journal."""

    @property
    def at(self) -> str: ...

    @property
    def event(self) -> str: ...

    @property
    def fields(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class StageHistory:
    """What the journal says of one stage."""

    state: StageState = StageState.PENDING
    attempts: int = 0
    started_at: str | None = None
    duration_s: float | None = None
    checkpoint: str | None = None
    size_bytes: int | None = None
    limit_s: float | None = None
    message: str = ""


@dataclass(slots=True)
class RunHistory:
    """What the journal says of a run."""

    state: RunState = RunState.PLANNED
    session_id: str = ""
    notebook: str | None = None
    notebook_sha256: str | None = None
    working_directory: str | None = None
    kernel_name: str | None = None
    title: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    stage_order: list[str] = field(default_factory=list)
    stages: dict[str, StageHistory] = field(default_factory=dict)
    started_at: str | None = None
    last_at: str | None = None
    sessions: int = 0
    highest_checkpoint: int = 0
    message: str = ""

    def attempts(self) -> dict[str, int]:
        """Tries so far, by stage id."""
        return {stage_id: stage.attempts for stage_id, stage in self.stages.items() if stage.attempts}

    def _stage(self, stage_id: str) -> StageHistory:
        return self.stages.setdefault(stage_id, StageHistory())


def fold(records: Iterable[Recorded]) -> RunHistory:
    """Read the records in order. Unknown events are passed over: a newer gyoshu may have written them."""
    history = RunHistory()
    for record in records:
        history.last_at = record.at
        checkpoint_id = str(record.fields.get("checkpoint", ""))
        if ids.CHECKPOINT_ID.fullmatch(checkpoint_id):
            history.highest_checkpoint = max(history.highest_checkpoint, ids.number_of(checkpoint_id))
        _take_in(history, record.event, record.fields, record.at)
    return history


def recorded_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the journal holds them: JSON has no word for nan and the infinities."""
    return {
        name: {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in parameters.items()
    }


def _from_record(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and set(value) == {"float"} else value


def take_identity(history: RunHistory, fields: Mapping[str, Any], at: str) -> None:
    """What a run is of, from the journal's first line or from where else it is kept."""
    history.session_id = str(fields.get("researchSessionID", ""))
    history.title = fields.get("title")
    history.notebook = fields.get("notebook")
    history.notebook_sha256 = fields.get("notebookSha256")
    history.working_directory = fields.get("workingDirectory")
    history.kernel_name = fields.get("kernel")
    recorded = fields.get("parameters") or {}
    history.parameters = {name: _from_record(value) for name, value in recorded.items()}
    history.started_at = at


def _take_in(history: RunHistory, event: str, fields: Mapping[str, Any], at: str) -> None:
    match event:
        case "run_created":
            take_identity(history, fields, at)
        case "session_started":
            history.sessions += 1
            history.state = RunState.IN_PROGRESS
            history.stage_order = [str(stage_id) for stage_id in fields.get("stages", [])]
            reused = int(fields.get("firstStage", 0))
            for position, stage_id in enumerate(history.stage_order):
                stage = history._stage(stage_id)
                stage.state = StageState.COMPLETED if position < reused else StageState.PENDING
        case "stage_started":
            stage = history._stage(str(fields["stage"]))
            stage.state = StageState.RUNNING
            stage.attempts = max(stage.attempts, int(fields["attempt"]))
            stage.started_at = at
            stage.limit_s = fields.get("maxDurationSec")
            stage.message = ""
        case "stage_completed":
            stage = history._stage(str(fields["stage"]))
            stage.state = StageState.COMPLETED
            stage.checkpoint = fields.get("checkpoint")
            stage.size_bytes = fields.get("sizeBytes")
            stage.duration_s = fields.get("durationSec")
        case "stage_failed" | "stage_interrupted":
            stage = history._stage(str(fields["stage"]))
            stage.state = StageState.FAILED if event == "stage_failed" else StageState.INTERRUPTED
            stage.message = str(fields.get("message", ""))
        case "run_ended":
            history.state = RunState(fields["state"])
            history.message = str(fields.get("message", ""))
        case _:
            pass
