"""The states of a stage and of a run, each as one table. The diagrams in the docs are drawn from these.

Theory. A stage is COMPLETED by one thing only: its checkpoint was committed and read back. Silence, death and
time-outs lead elsewhere, whatever the kernel printed. A run's state follows from what ended it. RESUMABLE and
BLOCKED are no states: the resume plan works them out from what is on disk (`core.resume`).

A table maps (state, trigger) to the next state. What it does not hold cannot happen; if it is asked for all
the same, that is our bug, and the error tells the story that led there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from gyoshu_ckpt.errors import InternalBug


class StageState(StrEnum):
    """Where a stage stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    INTERRUPTING = "INTERRUPTING"
    COMPLETED = "COMPLETED"
    INTERRUPTED = "INTERRUPTED"
    FAILED = "FAILED"


class StageTrigger(StrEnum):
    """What moves a stage."""

    RESTORED = "restored from its checkpoint"
    BEGIN = "begin"
    COMMITTED = "checkpoint committed"
    FAIL = "error"
    INTERRUPT = "limit passed or stop asked for"
    STOPPED = "kernel idle again"
    KERNEL_DIED = "kernel died"


class RunState(StrEnum):
    """Where a run stands."""

    PLANNED = "PLANNED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    INTERRUPTED = "INTERRUPTED"
    ABORTED = "ABORTED"
    FAILED = "FAILED"


class RunTrigger(StrEnum):
    """What moves a run."""

    START = "start"
    CONTINUE = "continue"
    ALL_STAGES_COMPLETED = "last stage completed"
    STAGE_FAILED = "stage failed"
    WATCHDOG = "limit passed"
    KERNEL_DIED = "kernel died"
    PERSON = "stopped by a person"


STAGE_TABLE: Mapping[tuple[StageState, StageTrigger], StageState] = {
    (StageState.PENDING, StageTrigger.RESTORED): StageState.COMPLETED,
    (StageState.PENDING, StageTrigger.BEGIN): StageState.RUNNING,
    (StageState.RUNNING, StageTrigger.COMMITTED): StageState.COMPLETED,
    (StageState.RUNNING, StageTrigger.FAIL): StageState.FAILED,
    (StageState.RUNNING, StageTrigger.KERNEL_DIED): StageState.INTERRUPTED,
    (StageState.RUNNING, StageTrigger.INTERRUPT): StageState.INTERRUPTING,
    (StageState.INTERRUPTING, StageTrigger.STOPPED): StageState.INTERRUPTED,
    (StageState.INTERRUPTING, StageTrigger.KERNEL_DIED): StageState.INTERRUPTED,
}

RUN_TABLE: Mapping[tuple[RunState, RunTrigger], RunState] = {
    (RunState.PLANNED, RunTrigger.START): RunState.IN_PROGRESS,
    (RunState.IN_PROGRESS, RunTrigger.ALL_STAGES_COMPLETED): RunState.COMPLETED,
    (RunState.IN_PROGRESS, RunTrigger.STAGE_FAILED): RunState.FAILED,
    (RunState.IN_PROGRESS, RunTrigger.WATCHDOG): RunState.INTERRUPTED,
    (RunState.IN_PROGRESS, RunTrigger.KERNEL_DIED): RunState.INTERRUPTED,
    (RunState.IN_PROGRESS, RunTrigger.PERSON): RunState.ABORTED,
    # A supervisor that was killed leaves its run IN_PROGRESS with nobody at work on it.
    (RunState.IN_PROGRESS, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
    (RunState.PLANNED, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
    (RunState.INTERRUPTED, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
    (RunState.ABORTED, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
    (RunState.FAILED, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
    # The notebook may have got more stages since, or a checkpoint may have been damaged.
    (RunState.COMPLETED, RunTrigger.CONTINUE): RunState.IN_PROGRESS,
}

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T", bound=StrEnum)


class StateMachine(Generic[S, T]):
    """A state that changes through one method, and remembers how it came about."""

    def __init__(self, name: str, table: Mapping[tuple[S, T], S], start: S) -> None:
        self.name = name
        self.state = start
        self._table = table
        self._story: list[str] = [start.value]

    def move(self, trigger: T) -> S:
        """Go to the next state; :class:`InternalBug` if the table has no such transition."""
        following = self._table.get((self.state, trigger))
        if following is None:
            raise InternalBug(
                f"{self.name} cannot go on from {self.state.value} by '{trigger.value}' "
                f"(so far: {' → '.join(self._story)})"
            )
        self._story.append(following.value)
        self.state = following
        return following


def draw(table: Mapping[tuple[S, T], S]) -> str:
    """The table as lines of text, one per transition, aligned: the diagram that the docs show."""
    rows = [(before.value, trigger.value, after.value) for (before, trigger), after in table.items()]
    left = max(len(row[0]) for row in rows)
    middle = max(len(row[1]) for row in rows)
    return "\n".join(
        f"{before:<{left}} ──({trigger}){'─' * (middle - len(trigger))}──▶ {after}"
        for before, trigger, after in rows
    )
