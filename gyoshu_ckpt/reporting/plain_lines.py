"""A session as plain lines, one per thing that happened: for logs, pipes and terminals that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gyoshu_ckpt.core.durations import format_duration
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.run_state import StageState
from gyoshu_ckpt.core.sizes import count_of, format_bytes
from gyoshu_ckpt.reporting.stage_board import StageBoard


class PlainLines:
    """Watches a session and writes lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._board: StageBoard | None = None
        self._width = 0

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        """Head line, and the stages that stand."""
        self._board = StageBoard(plan, run_id, finished)
        self._width = max(len(stage.stage_id) for stage in plan.stages)
        self._write(f"{plan.title} · {run_id} · {count_of(len(plan.stages), 'stage')}")
        for stage_id in finished:
            self._write(f"  {stage_id:<{self._width}}  stands")

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        """A line for each stage that begins or ends."""
        row = self._board.take_in(event, fields, 0.0) if self._board is not None else None
        if event == "stopping":
            self._write(f"  stopping: {fields['message']}")
        if row is None or event == "marker":
            return
        name = f"  {row.stage_id:<{self._width}}  "
        if row.state is StageState.RUNNING:
            limit = format_duration(row.limit_s) if row.limit_s else "none"
            self._write(f"{name}runs       (limit {limit}){f'  {row.goal}' if row.goal else ''}")
        elif row.state is StageState.COMPLETED:
            took = format_duration(round(row.duration_s or 0.0, 1))
            self._write(f"{name}completed  {took}, {row.checkpoint}, {format_bytes(row.size_bytes or 0)}")
        else:
            self._write(f"{name}{row.state.value.lower()}")

    def told(self, sentence: str) -> None:
        """A notice."""
        self._write(f"  note: {sentence}")

    def printed(self, text: str) -> None:
        """What the notebook prints is in the executed notebook; here it would drown the rest."""

    def session_ended(self) -> None:
        """Nothing to add."""
