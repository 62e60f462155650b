"""Folding a journal: the last word on each stage, attempts that never repeat, tolerance for the unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gyoshu_ckpt.core.history import fold
from gyoshu_ckpt.core.run_state import RunState, StageState


@dataclass
class Line:
    event: str
    fields: dict[str, Any] = field(default_factory=dict)
    at: str = "2026-01-01T00:00:00Z"


FIRST = [
    Line(
        "run_created",
        {"researchSessionID": "s", "notebook": "n.ipynb", "parameters": {"a": 1}, "kernel": "python3"},
    ),
    Line("session_started", {"stages": ["S01_a", "S02_b"], "firstStage": 0}),
    Line("stage_started", {"stage": "S01_a", "attempt": 1, "maxDurationSec": 5}),
    Line(
        "stage_completed",
        {"stage": "S01_a", "attempt": 1, "checkpoint": "ckpt-001", "sizeBytes": 3, "durationSec": 1.5},
    ),
    Line("stage_started", {"stage": "S02_b", "attempt": 1}),
]


def test_a_session_that_was_killed_is_in_progress_with_its_stage_running() -> None:
    history = fold(FIRST)
    assert history.state is RunState.IN_PROGRESS
    assert history.stages["S01_a"].state is StageState.COMPLETED
    assert history.stages["S02_b"].state is StageState.RUNNING
    assert history.attempts() == {"S01_a": 1, "S02_b": 1}
    assert history.highest_checkpoint == 1
    assert (history.notebook, history.parameters, history.session_id) == ("n.ipynb", {"a": 1}, "s")


def test_a_continue_keeps_attempts_and_resets_what_is_to_run() -> None:
    history = fold(
        [
            *FIRST,
            Line("stage_failed", {"stage": "S02_b", "attempt": 1, "message": "boom"}),
            Line("run_ended", {"state": "FAILED", "message": "boom"}),
            Line("session_started", {"stages": ["S01_a", "S02_b"], "firstStage": 1}),
            Line("stage_started", {"stage": "S02_b", "attempt": 2}),
            Line("something_from_the_future", {"x": 1}),
        ]
    )
    assert history.sessions == 2
    assert history.state is RunState.IN_PROGRESS
    assert history.attempts()["S02_b"] == 2
    assert history.stages["S02_b"].message == ""


def test_an_empty_journal_is_a_planned_run() -> None:
    assert fold([]).state is RunState.PLANNED
