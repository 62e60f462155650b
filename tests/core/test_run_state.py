"""The two tables: what they allow, what they refuse, and that the docs show them as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from gyoshu_ckpt.core.run_state import (
    RUN_TABLE,
    STAGE_TABLE,
    RunState,
    RunTrigger,
    StageState,
    StageTrigger,
    StateMachine,
    draw,
)
from gyoshu_ckpt.errors import InternalBug


def test_a_stage_is_completed_by_a_committed_checkpoint_or_restored_and_by_nothing_else() -> None:
    ways = {trigger for (_, trigger), after in STAGE_TABLE.items() if after is StageState.COMPLETED}
    assert ways == {StageTrigger.COMMITTED, StageTrigger.RESTORED}
    assert (StageState.INTERRUPTING, StageTrigger.COMMITTED) not in STAGE_TABLE


def test_every_state_can_be_reached_and_every_run_can_go_on() -> None:
    assert set(STAGE_TABLE.values()) == set(StageState) - {StageState.PENDING}
    assert set(RUN_TABLE.values()) == set(RunState) - {RunState.PLANNED}
    assert {before for (before, trigger) in RUN_TABLE if trigger is RunTrigger.CONTINUE} == set(RunState)


def test_an_impossible_step_tells_the_story() -> None:
    machine = StateMachine("stage S01_x", STAGE_TABLE, StageState.PENDING)
    machine.move(StageTrigger.BEGIN)
    machine.move(StageTrigger.FAIL)
    with pytest.raises(InternalBug, match="PENDING → RUNNING → FAILED"):
        machine.move(StageTrigger.COMMITTED)


@pytest.mark.parametrize("table", [STAGE_TABLE, RUN_TABLE])
def test_the_architecture_page_shows_the_tables(table: dict) -> None:  # type: ignore[type-arg]
    page = Path(__file__, "../../../docs/architecture.md").resolve().read_text()
    for line in draw(table).splitlines():
        assert line in page
