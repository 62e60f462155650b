"""The pure core of a session: events and times in, actions out. No kernel, no clock, no disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).parent))
from plans import plan_of, stage

from gyoshu_ckpt.core import actions, events
from gyoshu_ckpt.core.manifest import Reason, Status
from gyoshu_ckpt.core.plan import PlanCell
from gyoshu_ckpt.core.run_state import RunState, StageState
from gyoshu_ckpt.core.save_protocol import Receipt
from gyoshu_ckpt.core.supervision import Limits, Start, Supervision
from gyoshu_ckpt.core.watchdog import Rung

TWO = plan_of(stage("S01_a", "one", "two"), stage("S02_b", "three", limit=10.0))
OK = events.CellFinished("ok")


def begin(supervision: Supervision, now: float = 0.0) -> list[actions.Action]:
    supervision.step(events.Begun(), now)
    return supervision.step(events.KernelStarted("python3", 1), now)


def only(kind: type, found: list[actions.Action]) -> list:  # type: ignore[type-arg]
    return [action for action in found if isinstance(action, kind)]


def through_first_stage(supervision: Supervision, now: float = 0.0) -> list[actions.Action]:
    begin(supervision, now)
    supervision.step(events.StagePrepared(), now)
    supervision.step(OK, now)
    supervision.step(OK, now)
    supervision.step(events.ValuesSaved(Receipt()), now)
    return supervision.step(events.CheckpointCommitted("ckpt-001", 10), now)


def test_a_run_from_end_to_end() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    assert supervision.step(events.Begun(), 0.0) == [actions.StartKernel()]
    found = supervision.step(events.KernelStarted("python3", 1), 0.0)
    assert only(actions.PrepareStage, found) == [actions.PrepareStage("S01_a", 1)]
    found = supervision.step(events.StagePrepared(), 0.0)
    assert found == [actions.RunCell(TWO.stages[0].cells[0], "stage", "S01_a")]
    assert supervision.step(OK, 0.0) == [actions.RunCell(TWO.stages[0].cells[1], "stage", "S01_a")]
    assert supervision.step(OK, 0.0) == [actions.SaveValues("S01_a", 1)]
    assert supervision.stages["S01_a"].state is StageState.RUNNING
    assert only(actions.CommitCheckpoint, supervision.step(events.ValuesSaved(Receipt()), 0.0))
    assert supervision.stages["S01_a"].state is StageState.RUNNING
    found = supervision.step(events.CheckpointCommitted("ckpt-001", 10), 1.5)
    assert supervision.stages["S01_a"].state is StageState.COMPLETED
    assert only(actions.Record, found)[0].fields["durationSec"] == 1.5
    supervision.step(events.StagePrepared(), 2.0)
    supervision.step(OK, 2.0)
    supervision.step(events.ValuesSaved(Receipt()), 2.0)
    found = supervision.step(events.CheckpointCommitted("ckpt-002", 10), 2.0)
    assert only(actions.EndRun, found) == [actions.EndRun(RunState.COMPLETED, 0, "all stages are complete")]
    assert supervision.ended
    assert supervision.step(OK, 3.0) == []


def test_a_failing_cell_fails_the_stage_and_says_what_to_do() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    found = supervision.step(events.CellFinished("error", "ValueError", "no\nmore"), 0.0)
    (end,) = only(actions.EndRun, found)
    assert (end.state, end.exit_code) == (RunState.FAILED, 1)
    assert end.message == "S01_a failed: ValueError: no"
    assert "gyoshu continue" in end.next_step
    assert only(actions.WriteEmergency, found) == [
        actions.WriteEmergency("S01_a", 1, Status.EMERGENCY, Reason.ERROR)
    ]
    assert supervision.stages["S01_a"].state is StageState.FAILED


def test_a_kernel_that_names_no_error() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    (end,) = only(actions.EndRun, supervision.step(events.CellFinished("error", "", "1"), 0.0))
    assert end.message == "S01_a failed: 1"


def test_a_cell_that_may_raise_does_not_fail_its_stage() -> None:
    supervision = Supervision(plan_of(stage("S01_a", "1/0", tags="raises-exception")), Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    assert supervision.step(events.CellFinished("error", "E", ""), 0.0) == [actions.SaveValues("S01_a", 1)]


def test_setup_runs_first_and_its_failure_ends_the_run() -> None:
    cell = PlanCell(0, "setup", "import x")
    supervision = Supervision(plan_of(stage("S01_a"), setup=(cell,)), Limits(), Start())
    assert actions.RunCell(cell, "setup", None) in begin(supervision)
    (end,) = only(actions.EndRun, supervision.step(events.CellFinished("error", "ImportError", "x"), 0.0))
    assert end.message == "a setup cell failed: ImportError: x"


def resumed() -> Start:
    return Start(
        run_state=RunState.INTERRUPTED,
        first_stage=1,
        from_checkpoint="ckpt-001",
        rehydration=PlanCell(-1, "re", "load()"),
        attempts={"S02_b": 2},
    )


def test_a_resume_rehydrates_and_goes_on_at_the_next_stage_with_a_new_attempt() -> None:
    supervision = Supervision(TWO, Limits(), resumed())
    found = begin(supervision)
    assert only(actions.RunCell, found)[0].role == "rehydration"
    assert supervision.stages["S01_a"].state is StageState.COMPLETED
    found = supervision.step(OK, 0.0)
    assert only(actions.PrepareStage, found) == [actions.PrepareStage("S02_b", 3)]


def test_a_rehydration_that_fails_leaves_the_checkpoint_and_says_so() -> None:
    supervision = Supervision(TWO, Limits(), resumed())
    begin(supervision)
    (end,) = only(actions.EndRun, supervision.step(events.CellFinished("error", "ImportError", "xgb"), 0.0))
    assert "ckpt-001 is intact" in end.message
    assert end.exit_code == 1


def test_the_limit_starts_the_ladder_and_a_kernel_that_obeys_ends_it() -> None:
    supervision = Supervision(TWO, Limits(stage_s=60), Start())
    through_first_stage(supervision, 5.0)
    supervision.step(events.StagePrepared(), 5.0)
    assert supervision.next_deadline() == 15.0
    assert supervision.step(events.Ticked(), 14.9) == []
    found = supervision.step(events.Ticked(), 15.0)
    assert only(actions.TakeRung, found) == [actions.TakeRung(Rung.INTERRUPT)]
    assert not only(actions.WriteEmergency, found)
    found = supervision.step(events.CellFinished("error", "KeyboardInterrupt", ""), 15.2)
    (end,) = only(actions.EndRun, found)
    assert (end.state, end.exit_code) == (RunState.INTERRUPTED, 124)
    assert "S02_b passed its limit after 10s" in end.message
    assert only(actions.WriteEmergency, found)[0].reason is Reason.WATCHDOG_TIMEOUT
    assert supervision.stages["S02_b"].state is StageState.INTERRUPTED


def test_a_kernel_that_does_not_obey_gets_every_rung_with_an_emergency_checkpoint_before_the_second() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    through_first_stage(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    supervision.step(events.Ticked(), 10.0)
    found = supervision.step(events.Ticked(), 15.0)
    kinds = [type(action) for action in found]
    assert kinds.index(actions.WriteEmergency) < kinds.index(actions.TakeRung)
    assert only(actions.TakeRung, found) == [actions.TakeRung(Rung.TERMINATE)]
    found = supervision.step(events.Ticked(), 18.0)
    assert only(actions.TakeRung, found) == [actions.TakeRung(Rung.KILL)]
    found = supervision.step(events.KernelGone(None, 9, ""), 18.1)
    assert not only(actions.WriteEmergency, found)
    assert only(actions.EndRun, found)[0].exit_code == 124


def test_a_cell_that_ends_well_after_its_limit_is_interrupted_all_the_same() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    through_first_stage(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    supervision.step(events.Ticked(), 10.0)
    assert only(actions.EndRun, supervision.step(OK, 10.1))[0].state is RunState.INTERRUPTED


def test_saving_has_a_limit_of_its_own() -> None:
    supervision = Supervision(TWO, Limits(stage_s=60, save_s=30), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    supervision.step(OK, 59.0)
    supervision.step(OK, 59.0)
    assert supervision.next_deadline() == 89.0
    supervision.step(events.Ticked(), 89.0)
    found = supervision.step(events.ValuesSaved(Receipt()), 89.5)
    assert not only(actions.CommitCheckpoint, found)
    assert "still saving" in only(actions.EndRun, found)[0].message


@pytest.mark.parametrize(
    ("cause", "code"),
    [(events.StopCause.CTRL_C, 130), (events.StopCause.SIGTERM, 143), (events.StopCause.SIGHUP, 129)],
)
def test_a_person_stops_the_run_in_order_and_a_second_request_kills(
    cause: events.StopCause, code: int
) -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    assert only(actions.TakeRung, supervision.step(events.StopRequested(cause), 1.0)) == [
        actions.TakeRung(Rung.INTERRUPT)
    ]
    assert supervision.step(events.StopRequested(cause), 1.5) == [actions.TakeRung(Rung.KILL)]
    (end,) = only(actions.EndRun, supervision.step(events.KernelGone(None, 9, ""), 1.6))
    assert (end.state, end.exit_code) == (RunState.ABORTED, code)


def test_death_of_the_kernel_interrupts_and_names_the_signal() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    found = supervision.step(events.KernelGone(None, 9, ""), 1.0)
    (end,) = only(actions.EndRun, found)
    assert end.message == "the kernel was killed by SIGKILL"
    assert end.state is RunState.INTERRUPTED
    assert only(actions.WriteEmergency, found)[0].reason is Reason.KERNEL_DIED


def test_a_refused_checkpoint_ends_the_run_with_its_exit_code() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    supervision.step(events.StagePrepared(), 0.0)
    supervision.step(OK, 0.0)
    supervision.step(OK, 0.0)
    supervision.step(events.ValuesSaved(Receipt()), 0.0)
    found = supervision.step(events.CheckpointRefused("the disk is full", "make room", 69), 0.0)
    assert only(actions.EndRun, found)[0].exit_code == 69
    assert supervision.stages["S01_a"].state is StageState.FAILED


def test_a_missing_input_fails_the_stage_before_its_first_cell() -> None:
    supervision = Supervision(TWO, Limits(), Start())
    begin(supervision)
    found = supervision.step(events.StageNotPreparable("its input x is not there", "put it"), 0.0)
    assert not only(actions.RunCell, found)
    assert only(actions.EndRun, found)[0].message == "S01_a: its input x is not there"


class AnySession(RuleBasedStateMachine):
    """Whatever happens in whatever order: one EndRun, one emergency at most, and no completion without a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.supervision = Supervision(TWO, Limits(stage_s=60, save_s=30), Start())
        self.now = 0.0
        self.sent: list[actions.Action] = []
        self.committed: set[str] = set()
        self._step(events.Begun())
        self._step(events.KernelStarted("python3", 1))

    def _step(self, event: events.Event) -> None:
        new = self.supervision.step(event, self.now)
        self.sent += new
        for action in new:  # what the shell answers at once
            if isinstance(action, actions.PrepareStage):
                self._step(events.StagePrepared())

    def _busy(self) -> bool:
        asked = [a for a in self.sent if isinstance(a, actions.RunCell | actions.SaveValues)]
        return bool(asked) and not self.supervision.ended

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._step(events.Ticked())

    @precondition(lambda self: self._busy())
    @rule(status=st.sampled_from(["ok", "ok", "ok", "error"]), commits=st.booleans())
    def kernel_answers(self, status: str, commits: bool) -> None:
        last = [a for a in self.sent if isinstance(a, actions.RunCell | actions.SaveValues)][-1]
        if isinstance(last, actions.SaveValues) and status == "ok":
            before = len(self.sent)
            self._step(events.ValuesSaved(Receipt()))
            if any(isinstance(a, actions.CommitCheckpoint) for a in self.sent[before:]):
                if commits:
                    self.committed.add(last.stage_id)
                    self._step(events.CheckpointCommitted(f"ckpt-00{len(self.committed)}", 1))
                else:
                    self._step(events.CheckpointRefused("no", None, 69))
        else:
            self._step(events.CellFinished(status, "E", ""))  # type: ignore[arg-type]

    @rule(cause=st.sampled_from(events.StopCause))
    def person_stops(self, cause: events.StopCause) -> None:
        self._step(events.StopRequested(cause))

    @rule()
    def kernel_dies(self) -> None:
        self._step(events.KernelGone(None, 9, ""))

    @invariant()
    def completed_means_committed(self) -> None:
        completed = {
            name for name, one in self.supervision.stages.items() if one.state is StageState.COMPLETED
        }
        assert completed == self.committed

    @invariant()
    def ends_once_and_knows_how(self) -> None:
        ends = [a for a in self.sent if isinstance(a, actions.EndRun)]
        assert len(ends) == (1 if self.supervision.ended else 0)
        emergencies = [a for a in self.sent if isinstance(a, actions.WriteEmergency)]
        assert len(emergencies) <= 1
        if ends:
            assert (ends[0].state is RunState.COMPLETED) == (len(self.committed) == 2)
            assert ends[0].state is RunState.COMPLETED or emergencies


TestAnySession = AnySession.TestCase
TestAnySession.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
