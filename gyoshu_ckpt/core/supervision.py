"""The one door of the core: ``step(event, now) -> actions``. Pure: it is given time, and does nothing itself.

A session goes through phases::

    KERNEL → SETUP → [REHYDRATION] → for each stage: PREPARING → CELLS → SAVING → COMMITTING → ENDED

Rules
1. A stage is completed by `CheckpointCommitted` and by nothing else.
2. What cells print is recorded and never steers.
3. A limit or a person starts the ladder (`core.watchdog`); whatever comes back after that, the stage is
   interrupted. A second request by a person goes straight to the last rung.
4. An emergency checkpoint is asked for whenever a session ends before its plan does.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from gyoshu_ckpt.core import actions, events
from gyoshu_ckpt.core.durations import format_duration
from gyoshu_ckpt.core.manifest import Reason, Status
from gyoshu_ckpt.core.plan import Plan, PlanCell, Stage
from gyoshu_ckpt.core.run_state import (
    RUN_TABLE,
    STAGE_TABLE,
    RunState,
    RunTrigger,
    StageState,
    StageTrigger,
    StateMachine,
)
from gyoshu_ckpt.core.sentences import death_sentence, error_line, marker_record
from gyoshu_ckpt.core.watchdog import Ladder, Rung
from gyoshu_ckpt.errors import InternalBug

CONTINUE = "gyoshu continue"
ALLOWED_TO_RAISE = "raises-exception"  # nbclient's and JupyterLab's tag for a cell that may fail


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds."""

    stage_s: float = 240.0  # for a stage that names none, and for the setup cells as a whole
    save_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Start:
    """Where a session begins: at the first stage, or after a checkpoint."""

    run_state: RunState = RunState.PLANNED
    first_stage: int = 0
    from_checkpoint: str | None = None
    rehydration: PlanCell | None = None
    attempts: Mapping[str, int] = field(default_factory=dict)  # tries so far, by stage id


class _Phase(Enum):
    NEW = auto()
    KERNEL = auto()
    SETUP = auto()
    REHYDRATION = auto()
    PREPARING = auto()
    CELLS = auto()
    SAVING = auto()
    COMMITTING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why the ladder was started."""

    trigger: RunTrigger
    reason: Reason
    exit_code: int
    message: str


class Supervision:
    """One session of one run."""

    def __init__(self, plan: Plan, limits: Limits, start: Start) -> None:
        self._plan = plan
        self._limits = limits
        self._start = start
        self._phase = _Phase.NEW
        self._position = start.first_stage
        self._cells_left: list[PlanCell] = []
        self._cell: PlanCell | None = None  # the one that runs, or ran last
        self._attempt = 0
        self._phase_began = 0.0
        self._stage_began = 0.0
        self._stop: _Stop | None = None
        self._ladder: Ladder | None = None
        self._emergency_written = False
        self.run: StateMachine[RunState, RunTrigger] = StateMachine("the run", RUN_TABLE, start.run_state)
        self.stages: dict[str, StateMachine[StageState, StageTrigger]] = {
            stage.stage_id: StateMachine(f"stage {stage.stage_id}", STAGE_TABLE, StageState.PENDING)
            for stage in plan.stages
        }

    # What the shell asks.

    @property
    def ended(self) -> bool:
        """Whether `EndRun` was returned."""
        return self._phase is _Phase.ENDED

    @property
    def current_stage(self) -> Stage | None:
        """The stage that is being worked on; None in setup cells and after the last stage."""
        working = (_Phase.PREPARING, _Phase.CELLS, _Phase.SAVING, _Phase.COMMITTING)
        return self._plan.stages[self._position] if self._phase in working else None

    def next_deadline(self) -> float | None:
        """When to send `Ticked` if nothing else happens before; None: wait as long as it takes."""
        if self._ladder is not None:
            return self._ladder.due_at()
        limit = self._limit()
        return None if limit is None else self._phase_began + limit

    # The door.

    def step(self, event: events.Event, now: float) -> list[actions.Action]:
        """Take in what happened and say what is to be done about it."""
        if self.ended:
            return []
        match event:
            case events.Begun():
                return self._begin()
            case events.KernelStarted():
                return self._kernel_started(event, now)
            case events.CellFinished():
                return self._cell_finished(event, now)
            case events.StagePrepared():
                self._phase = _Phase.CELLS
                return self._next_cell(now)
            case events.StageNotPreparable():
                return self._fail(f"{self._stage().stage_id}: {event.message}", event.next_step)
            case events.ValuesSaved():
                return self._values_saved(event, now)
            case events.CheckpointCommitted():
                return self._committed(event, now)
            case events.CheckpointRefused():
                return self._fail(event.message, event.next_step, event.exit_code)
            case events.KernelGone():
                return self._kernel_gone(event)
            case events.StopRequested():
                return self._stop_requested(event, now)
            case events.MarkerSeen():
                return [marker_record(event.marker)]
            case events.Ticked():
                return self._ticked(now)

    # From the first event to the first stage.

    def _begin(self) -> list[actions.Action]:
        resuming = self._start.run_state is not RunState.PLANNED
        self.run.move(RunTrigger.CONTINUE if resuming else RunTrigger.START)
        for stage in self._plan.stages[: self._position]:
            self.stages[stage.stage_id].move(StageTrigger.RESTORED)
        self._phase = _Phase.KERNEL
        return [actions.StartKernel()]

    def _kernel_started(self, event: events.KernelStarted, now: float) -> list[actions.Action]:
        self._enter(_Phase.SETUP, now)
        self._cells_left = list(self._plan.setup)
        return [
            actions.Record("kernel_started", {"kernel": event.kernel_name, "pid": event.pid}),
            *self._next_cell(now),
        ]

    def _next_cell(self, now: float) -> list[actions.Action]:
        """Run the next cell of this phase, or go on to what follows it."""
        if self._cells_left:
            self._cell = cell = self._cells_left.pop(0)
            stage = self.current_stage
            role = {_Phase.SETUP: "setup", _Phase.REHYDRATION: "rehydration"}.get(self._phase, "stage")
            return [actions.RunCell(cell, role, stage.stage_id if stage else None)]  # type: ignore[arg-type]  # dict.get widens the literal
        if self._phase is _Phase.SETUP and self._start.rehydration is not None:
            self._enter(_Phase.REHYDRATION, now)
            self._cells_left = [self._start.rehydration]
            return self._next_cell(now)
        if self._phase is _Phase.CELLS:
            self._enter(_Phase.SAVING, now)
            return [actions.SaveValues(self._stage().stage_id, self._attempt)]
        rehydrated = self._phase is _Phase.REHYDRATION
        told = [actions.Record("rehydrated", {"from": self._start.from_checkpoint})] if rehydrated else []
        return [*told, *self._begin_stage(now)]

    # One stage.

    def _begin_stage(self, now: float) -> list[actions.Action]:
        if self._position == len(self._plan.stages):
            return self._complete()
        stage = self._plan.stages[self._position]
        self.stages[stage.stage_id].move(StageTrigger.BEGIN)
        self._enter(_Phase.PREPARING, now)
        self._stage_began = now
        self._attempt = self._start.attempts.get(stage.stage_id, 0) + 1
        self._cells_left = list(stage.cells)
        return [
            actions.Record(
                "stage_started",
                {
                    "stage": stage.stage_id,
                    "attempt": self._attempt,
                    "goal": stage.goal,
                    "maxDurationSec": self._stage_limit(stage),
                },
                durable=True,  # the number of an attempt is never given twice
            ),
            actions.PrepareStage(stage.stage_id, self._attempt),
        ]

    def _cell_finished(self, event: events.CellFinished, now: float) -> list[actions.Action]:
        if self._stop is not None:
            return self._stopped_alive()
        if self._phase is _Phase.SAVING:
            # The save request itself raised: the recorder never does that, but the kernel is not ours.
            return self._fail(
                f"the kernel could not save {self._stage().stage_id}: {error_line(event)}", None
            )
        if event.status == "ok" or (self._cell is not None and ALLOWED_TO_RAISE in self._cell.tags):
            return self._next_cell(now)
        if self._phase is _Phase.REHYDRATION:
            return self._fail(
                f"{self._start.from_checkpoint} is intact, but loading it into a new kernel failed: "
                f"{error_line(event)}",
                f"mend that (a missing package?), then {CONTINUE}",
            )
        where = self.current_stage.stage_id if self.current_stage else "a setup cell"
        return self._fail(f"{where} failed: {error_line(event)}", f"mend the cell, then {CONTINUE}")

    def _values_saved(self, event: events.ValuesSaved, now: float) -> list[actions.Action]:
        if self._stop is not None:
            return self._stopped_alive()
        self._enter(_Phase.COMMITTING, now)
        return [actions.CommitCheckpoint(self._stage().stage_id, self._attempt, event.receipt)]

    def _committed(self, event: events.CheckpointCommitted, now: float) -> list[actions.Action]:
        stage = self._stage()
        self.stages[stage.stage_id].move(StageTrigger.COMMITTED)
        record = actions.Record(
            "stage_completed",
            {
                "stage": stage.stage_id,
                "attempt": self._attempt,
                "checkpoint": event.checkpoint_id,
                "sizeBytes": event.size_bytes,
                "durationSec": round(now - self._stage_began, 3),
            },
            durable=True,
        )
        self._position += 1
        return [record, *self._begin_stage(now)]

    # Endings.

    def _complete(self) -> list[actions.Action]:
        self.run.move(RunTrigger.ALL_STAGES_COMPLETED)
        return self._end(0, "all stages are complete", None)

    def _fail(self, message: str, next_step: str | None, exit_code: int = 1) -> list[actions.Action]:
        emergency = self._emergency(Status.EMERGENCY, Reason.ERROR)
        failed = self._stage_ended(StageTrigger.FAIL, "stage_failed", message)
        self.run.move(RunTrigger.STAGE_FAILED)
        return [*failed, *emergency, *self._end(exit_code, message, next_step or CONTINUE)]

    def _kernel_gone(self, event: events.KernelGone) -> list[actions.Action]:
        stop = self._stop or _Stop(RunTrigger.KERNEL_DIED, Reason.KERNEL_DIED, 1, death_sentence(event))
        emergency = self._emergency(Status.INTERRUPTED, stop.reason)
        ended = self._stage_ended(StageTrigger.KERNEL_DIED, "stage_interrupted", stop.message)
        self.run.move(stop.trigger)
        return [*ended, *emergency, *self._end(stop.exit_code, stop.message, CONTINUE)]

    def _stopped_alive(self) -> list[actions.Action]:
        """The kernel obeyed: the ladder ends here, with the kernel idle."""
        stop = self._stop
        if stop is None:
            raise InternalBug("a stage stopped although nobody had asked it to")
        emergency = self._emergency(Status.INTERRUPTED, stop.reason)
        ended = self._stage_ended(StageTrigger.STOPPED, "stage_interrupted", stop.message)
        self.run.move(stop.trigger)
        return [*ended, *emergency, *self._end(stop.exit_code, stop.message, CONTINUE)]

    def _stage_ended(self, trigger: StageTrigger, event_name: str, message: str) -> list[actions.Action]:
        stage = self.current_stage
        if stage is None:
            return []
        self.stages[stage.stage_id].move(trigger)
        fields = {"stage": stage.stage_id, "attempt": self._attempt, "message": message}
        return [actions.Record(event_name, fields, durable=True)]

    def _emergency(self, status: Status, reason: Reason) -> list[actions.Action]:
        if self._emergency_written:
            return []
        self._emergency_written = True
        stage = self.current_stage
        return [actions.WriteEmergency(stage.stage_id if stage else None, self._attempt, status, reason)]

    def _end(self, exit_code: int, message: str, next_step: str | None) -> list[actions.Action]:
        self._phase = _Phase.ENDED
        state = self.run.state
        fields = {"state": state.value, "exitCode": exit_code, "message": message}
        return [
            actions.Record("run_ended", fields, durable=True),
            actions.EndRun(state, exit_code, message, next_step),
        ]

    # Limits and people.

    def _ticked(self, now: float) -> list[actions.Action]:
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return []
        if self._ladder is None:
            limit = format_duration(self._limit() or 0.0)
            doing = "was still saving" if self._phase is _Phase.SAVING else "passed its limit"
            where = self.current_stage.stage_id if self.current_stage else "the setup cells"
            return self._start_ladder(
                _Stop(RunTrigger.WATCHDOG, Reason.WATCHDOG_TIMEOUT, 124, f"{where} {doing} after {limit}"),
                now,
            )
        return self._climb(now)

    def _stop_requested(self, event: events.StopRequested, now: float) -> list[actions.Action]:
        exit_code, who = {
            events.StopCause.CTRL_C: (128 + signal.SIGINT, "Ctrl+C"),
            events.StopCause.SIGTERM: (128 + signal.SIGTERM, "SIGTERM"),
            events.StopCause.SIGHUP: (128 + signal.SIGHUP, "SIGHUP (the terminal was closed)"),
        }[event.cause]
        if self._stop is None:
            stop = _Stop(RunTrigger.PERSON, Reason.MANUAL_ABORT, exit_code, f"stopped by {who}")
            return self._start_ladder(stop, now)
        self._ladder = Ladder(Rung.KILL, now)
        return [actions.TakeRung(Rung.KILL)]

    def _start_ladder(self, stop: _Stop, now: float) -> list[actions.Action]:
        self._stop = stop
        stage = self.current_stage
        if stage is not None:
            self.stages[stage.stage_id].move(StageTrigger.INTERRUPT)
        self._ladder = Ladder(taken_at=now)
        began = actions.Record(
            "stopping", {"reason": stop.reason.value, "message": stop.message}, durable=True
        )
        return [began, *self._climb(now)]

    def _climb(self, now: float) -> list[actions.Action]:
        if self._ladder is None:
            return []
        self._ladder, rung = self._ladder.climb(now)
        if rung is None:
            return []
        # Written before the first signal that can end the kernel: nothing that follows is needed for it.
        first = (
            self._emergency(Status.INTERRUPTED, self._stop.reason)
            if self._stop and rung is not Rung.INTERRUPT
            else []
        )
        return [*first, actions.Record("rung", {"rung": rung.value}), actions.TakeRung(rung)]

    # Small things.

    def _enter(self, phase: _Phase, now: float) -> None:
        self._phase = phase
        if phase is not _Phase.CELLS:  # cells count from PREPARING on: one clock for the whole stage
            self._phase_began = now

    def _limit(self) -> float | None:
        match self._phase:
            case _Phase.SETUP | _Phase.PREPARING | _Phase.CELLS:
                stage = self.current_stage
                return self._stage_limit(stage) if stage else self._limits.stage_s
            case _Phase.REHYDRATION | _Phase.SAVING:
                return self._limits.save_s
            case _:
                return None

    def _stage_limit(self, stage: Stage) -> float:
        return stage.max_duration_s if stage.max_duration_s is not None else self._limits.stage_s

    def _stage(self) -> Stage:
        stage = self.current_stage
        if stage is None:
            raise InternalBug(f"no stage is under way in phase {self._phase.name}")
        return stage
