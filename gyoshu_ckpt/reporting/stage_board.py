"""What a person wants to know of a session while it runs, kept current from the journal's lines. No I/O.

Both the live view and the plain lines are drawn from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.run_state import StageState


@dataclass(slots=True)
class StageRow:
    """One stage on the board."""

    stage_id: str
    goal: str
    limit_s: float | None = None
    state: StageState = StageState.PENDING
    began: float | None = None
    duration_s: float | None = None
    checkpoint: str | None = None
    size_bytes: int | None = None
    percent: float | None = None
    restored: bool = False
    message: str = ""


class StageBoard:
    """All stages of a session."""

    def __init__(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        self.title = plan.title
        self.run_id = run_id
        self.rows = {stage.stage_id: StageRow(stage.stage_id, stage.goal) for stage in plan.stages}
        for stage_id, size in finished.items():
            row = self.rows[stage_id]
            row.state, row.size_bytes, row.restored = StageState.COMPLETED, size, True

    def take_in(self, event: str, fields: Mapping[str, Any], now: float) -> StageRow | None:
        """Update from one line of the journal; return the row that changed."""
        row = self.rows.get(str(fields.get("stage", "")))
        if event == "marker":
            return self._progress(fields)
        if row is None:
            return None
        match event:
            case "stage_started":
                row.state, row.began, row.limit_s = StageState.RUNNING, now, fields.get("maxDurationSec")
            case "stage_completed":
                row.state, row.duration_s = StageState.COMPLETED, fields.get("durationSec")
                row.checkpoint, row.size_bytes = fields.get("checkpoint"), fields.get("sizeBytes")
            case "stage_failed":
                row.state, row.message = StageState.FAILED, str(fields.get("message", ""))
            case "stage_interrupted":
                row.state, row.message = StageState.INTERRUPTED, str(fields.get("message", ""))
            case _:
                return None
        return row

    def _progress(self, fields: Mapping[str, Any]) -> StageRow | None:
        attributes = fields.get("attributes", {})
        row = self.rows.get(attributes.get("id", ""))
        if row is None or fields.get("subtype") != "progress" or row.state is not StageState.RUNNING:
            return None
        try:
            row.percent = float(attributes.get("pct", ""))
        except ValueError:
            return None
        return row
