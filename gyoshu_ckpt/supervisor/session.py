"""The loop: receive, step, perform. All I/O of a running session, and no decision.

What to do is decided in `core.supervision`; this module turns kernel messages into events, and actions into
calls on the kernel, the store, the journal and the notebook.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gyoshu_ckpt.core import actions, events
from gyoshu_ckpt.core.markers import MarkerScanner, format_marker
from gyoshu_ckpt.core.plan import OutputKind, Plan
from gyoshu_ckpt.core.sizes import format_bytes
from gyoshu_ckpt.core.supervision import Supervision
from gyoshu_ckpt.core.watchdog import Rung
from gyoshu_ckpt.errors import GyoshuError, InternalBug, KernelUnavailable, StoreUnavailable
from gyoshu_ckpt.in_kernel.exchange import Exchange, StagePlace
from gyoshu_ckpt.notebook.executed import ExecutedNotebook
from gyoshu_ckpt.supervisor import kernel_requests
from gyoshu_ckpt.supervisor.committing import Committer
from gyoshu_ckpt.supervisor.run_folder import RunFolder
from gyoshu_ckpt.supervisor.stop_signals import StopSignals
from gyoshu_ckpt.supervisor.watching import Watcher
from kernel_bridge.interface import (
    ClearOutput,
    ExecutionFinished,
    KernelEnded,
    KernelMessage,
    KernelNotAvailable,
    KernelSession,
    RichOutput,
    StreamText,
)

_LOOK_FOR_SIGNALS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended."""

    state: str
    exit_code: int
    message: str
    next_step: str | None


class RunSession:
    """One kernel, one passage from the first stage to run to the end of the plan or of the session."""

    def __init__(
        self,
        *,
        plan: Plan,
        supervision: Supervision,
        kernel: KernelSession,
        folder: RunFolder,
        notebook: ExecutedNotebook,
        committer: Committer,
        exchange: Exchange,
        working_directory: Path,
        watcher: Watcher,
        stop_signals: StopSignals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._supervision = supervision
        self._kernel = kernel
        self._folder = folder
        self._notebook = notebook
        self._committer = committer
        self._exchange = exchange
        self._working_directory = working_directory
        self._watcher = watcher
        self._stop_signals = stop_signals
        self._clock = clock
        self._is_python = plan.is_python
        self._scanners: dict[str, MarkerScanner] = {}
        self._request: str | None = None
        self._saving = False
        self._execution_count = 0
        self._notebook_trouble_told = False
        self._outcome: Outcome | None = None

    def run(self) -> Outcome:
        """Drive the session to its end. The kernel is gone when this returns or raises."""
        waiting: deque[events.Event] = deque([events.Begun()])
        try:
            while not self._supervision.ended:
                event = waiting.popleft() if waiting else self._wait(waiting)
                for action in self._supervision.step(event, self._clock()):
                    waiting.extend(self._perform(action))
        finally:
            self._kernel.close()
        self._save_notebook()
        self._folder.write_progress()
        if self._outcome is None:
            raise InternalBug("supervision ended without EndRun")
        return self._outcome

    # Receive.

    def _wait(self, waiting: deque[events.Event]) -> events.Event:
        """The next event; further ones that came with it are put into ``waiting``."""
        while True:
            cause = self._stop_signals.next()
            if cause is not None:
                return events.StopRequested(cause)
            deadline = self._supervision.next_deadline()
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                return events.Ticked()
            timeout = _LOOK_FOR_SIGNALS_EVERY_S if left is None else min(left, _LOOK_FOR_SIGNALS_EVERY_S)
            message = self._kernel.receive(timeout)
            if message is None:
                # What was left unsaved for the sake of speed is saved as soon as the kernel is quiet.
                self._save_notebook(only_if_cheap=True)
                continue
            happened = self._translate(message)
            if happened:
                waiting.extend(happened[1:])
                return happened[0]

    def _translate(self, message: KernelMessage) -> list[events.Event]:
        match message:
            case StreamText():
                return self._take_text(message)
            # Output of a thread that an earlier cell started carries that cell's id: it is shown where it happens.
            case RichOutput():
                if not self._saving:
                    self._notebook.rich(message.kind, message.content)
                return []
            case ClearOutput():
                if not self._saving:
                    self._notebook.clear(wait=message.wait)
                return []
            case ExecutionFinished():
                return self._take_end(message) if message.request == self._request else []
            case KernelEnded():
                self._notebook.finish(None)
                flushed = self._flush_scanners()
                return [*flushed, events.KernelGone(message.exit_code, message.signal, message.last_words)]

    def _take_text(self, message: StreamText) -> list[events.Event]:
        if not self._saving:
            self._notebook.stream(message.name, message.text)
        self._watcher.printed(message.text)
        scanner = self._scanners.setdefault(message.name, MarkerScanner())
        return [events.MarkerSeen(marker) for marker in scanner.feed(message.text)]

    def _take_end(self, message: ExecutionFinished) -> list[events.Event]:
        self._request = None
        if self._saving:
            self._saving = False
            return [self._receipt_event(message)]
        self._execution_count = message.execution_count or self._execution_count
        self._notebook.finish(message.execution_count)
        ended = events.CellFinished(message.status, message.error_name, message.error_value)
        return [*self._flush_scanners(), ended]

    def _receipt_event(self, message: ExecutionFinished) -> events.Event:
        from gyoshu_ckpt.core.save_protocol import Receipt

        if message.status != "ok":
            return events.CellFinished(message.status, message.error_name, message.error_value)
        try:
            return events.ValuesSaved(Receipt.from_json(self._exchange.read_receipt()))
        except (OSError, ValueError, TypeError, KeyError) as problem:
            return events.CellFinished("error", type(problem).__name__, f"no usable receipt: {problem}")

    def _flush_scanners(self) -> list[events.Event]:
        """A marker that no newline follows ends with its cell."""
        found = [marker for scanner in self._scanners.values() for marker in scanner.finish()]
        self._scanners.clear()
        return [events.MarkerSeen(marker) for marker in found]

    # Perform.

    def _perform(self, action: actions.Action) -> Iterable[events.Event]:
        match action:
            case actions.StartKernel():
                return [self._start_kernel()]
            case actions.RunCell():
                self._notebook.begin(action.cell.cell_id)
                self._request = self._kernel.execute(action.cell.code)
                self._save_notebook(only_if_cheap=True)  # while the kernel is at work
                return []
            case actions.PrepareStage():
                return [self._prepare(action)]
            case actions.SaveValues():
                return self._ask_for_values(action)
            case actions.CommitCheckpoint():
                return [self._commit(action)]
            case actions.WriteEmergency():
                self._write_emergency(action)
                return []
            case actions.TakeRung():
                self._take_rung(action.rung)
                return []
            case actions.Record():
                self._record(action)
                return []
            case actions.EndRun():
                self._outcome = Outcome(
                    action.state.value, action.exit_code, action.message, action.next_step
                )
                return []

    def _start_kernel(self) -> events.Event:
        try:
            info = self._kernel.start()
        except KernelNotAvailable as refusal:
            raise kernel_unavailable(refusal) from None
        if self._is_python:
            self._greet(info.kernel_name)
        return events.KernelStarted(info.kernel_name, info.pid)

    def _greet(self, kernel_name: str) -> None:
        request = self._kernel.execute(kernel_requests.GREET, silent=True)
        while True:
            message = self._kernel.receive(60.0)
            if isinstance(message, ExecutionFinished) and message.request == request:
                if message.status == "ok":
                    return
                problem = f"{message.error_name}: {message.error_value}"
                break
            if message is None or isinstance(message, KernelEnded):
                problem = "it does not answer"
                break
        raise KernelUnavailable(
            f"the kernel {kernel_name} cannot use gyoshu_ckpt ({problem})",
            next_step="pip install gyoshu-ckpt in that kernel's environment, or pick another with --kernel",
        )

    def _prepare(self, action: actions.PrepareStage) -> events.Event:
        stage = self._plan.stage(action.stage_id)
        missing = [
            name
            for name in stage.inputs
            if not name.isidentifier() and not (self._working_directory / name).exists()
        ]
        if missing:
            return events.StageNotPreparable(
                f"its input {missing[0]} is not there (looked in {self._working_directory})",
                f"put {missing[0]} in place, then gyoshu continue",
            )
        try:
            folders = [output.name for output in stage.outputs if output.kind is OutputKind.FOLDER]
            staging = self._folder.prepare_staging(action.stage_id, action.attempt, folders)
            self._exchange.write_stage(StagePlace(action.stage_id, action.attempt), staging)
        except GyoshuError as refusal:
            return _refused(refusal)
        except OSError as refusal:
            return _refused(StoreUnavailable(f"cannot write to the run's folder: {refusal.strerror}"))
        return events.StagePrepared()

    def _ask_for_values(self, action: actions.SaveValues) -> Iterable[events.Event]:
        request = self._committer.save_request(action.stage_id, action.attempt)
        if not self._is_python:
            return [self._folder.receipt_for_files(request)]
        try:
            self._exchange.write_request(request.to_json())
        except OSError as refusal:
            return [_refused(StoreUnavailable(f"cannot write to the run's folder: {refusal.strerror}"))]
        self._saving = True
        self._request = self._kernel.execute(kernel_requests.SAVE, silent=True)
        return []

    def _commit(self, action: actions.CommitCheckpoint) -> events.Event:
        cell_id = f"gyoshu-{self._committer.next_checkpoint_id()}"
        try:
            manifest = self._committer.commit(
                action.stage_id,
                action.attempt,
                action.receipt,
                cell_id=cell_id,
                execution_count=self._execution_count,
            )
        except GyoshuError as refusal:
            return _refused(refusal)
        size = sum(value.size_bytes for value in manifest.stored_values())
        marker = format_marker(
            "CHECKPOINT",
            "saved",
            {
                "id": manifest.checkpoint_id,
                "stage": action.stage_id,
                "manifest": self._folder.manifest_name(manifest.checkpoint_id),
            },
        )
        last_cell = self._plan.stage(action.stage_id).cells[-1].cell_id
        kept = ", ".join(
            sorted({artifact.name for artifact in manifest.artifacts if artifact.stage_id == action.stage_id})
        )
        text = f"**{manifest.checkpoint_id}** · {action.stage_id} · {format_bytes(size)}" + (
            f" · {kept}" if kept else ""
        )
        self._notebook.add_checkpoint(last_cell, cell_id, [text, "", f"`{marker}`"])
        self._save_notebook()
        self._folder.clear_staging(action.stage_id, action.attempt)
        return events.CheckpointCommitted(manifest.checkpoint_id, size)

    def _write_emergency(self, action: actions.WriteEmergency) -> None:
        try:
            manifest = self._committer.write_emergency(
                action.stage_id,
                action.attempt,
                action.status,
                action.reason,
                execution_count=self._execution_count,
            )
        except GyoshuError as refusal:
            self._watcher.told(f"no emergency checkpoint could be written: {refusal.message}")
            return
        self._record(
            actions.Record(
                "emergency_checkpoint",
                {
                    "checkpoint": manifest.checkpoint_id,
                    "stage": action.stage_id,
                    "reason": action.reason.value,
                },
            )
        )

    def _take_rung(self, rung: Rung) -> None:
        {
            Rung.INTERRUPT: self._kernel.interrupt,
            Rung.TERMINATE: self._kernel.terminate,
            Rung.KILL: self._kernel.kill,
        }[rung]()

    def _record(self, action: actions.Record) -> None:
        try:
            self._folder.journal.append(action.event, action.fields, sync=action.durable)
        except StoreUnavailable as refusal:
            # While things still go on, a journal that cannot be written stops the run. At its end the reason
            # for ending matters more than the line that could not be written about it.
            if not self._supervision.ended:
                raise
            self._watcher.told(f"the journal could not be written: {refusal.message}")
        self._watcher.recorded(action.event, action.fields)

    def _save_notebook(self, *, only_if_cheap: bool = False) -> None:
        try:
            if only_if_cheap:
                self._notebook.save_if_cheap()
            else:
                self._notebook.save()
        except (GyoshuError, OSError) as refusal:  # a view: no run stops for it
            if not self._notebook_trouble_told:
                self._notebook_trouble_told = True
                self._watcher.told(f"the executed notebook could not be saved: {refusal}")


def kernel_unavailable(refusal: KernelNotAvailable) -> KernelUnavailable:
    """The bridge's refusal as an error of ours."""
    detail = f": {refusal.detail.strip().splitlines()[-1]}" if refusal.detail.strip() else ""
    return KernelUnavailable(
        f"{refusal.message}{detail}",
        next_step="jupyter kernelspec list shows what is installed; gyoshu run --kernel NAME picks one",
    )


def _refused(refusal: GyoshuError) -> events.CheckpointRefused:
    return events.CheckpointRefused(refusal.message, refusal.next_step, refusal.exit_code)
