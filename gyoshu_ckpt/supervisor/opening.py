"""From a command to a running session: a new run, or one that goes on.

``run``:      slice → number and lock → journal → session
``continue``: lock → fold journal → slice → verify manifests → resume plan → rehydration cell → session
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gyoshu_ckpt.core import rehydration
from gyoshu_ckpt.core.actions import Record
from gyoshu_ckpt.core.history import RunHistory, fold, recorded_parameters, take_identity
from gyoshu_ckpt.core.manifest import Manifest
from gyoshu_ckpt.core.plan import Plan, PlanCell
from gyoshu_ckpt.core.resume import ResumePlan, Skipped, why_it_does_not_stand
from gyoshu_ckpt.core.run_state import RunState
from gyoshu_ckpt.core.supervision import Start, Supervision
from gyoshu_ckpt.errors import GyoshuError
from gyoshu_ckpt.in_kernel.exchange import environment_for
from gyoshu_ckpt.notebook.executed import ExecutedNotebook, read_executed
from gyoshu_ckpt.notebook.slicing import SlicedNotebook, make_plan
from gyoshu_ckpt.settings import Settings
from gyoshu_ckpt.storage import durable_files, run_lock
from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.journal import read_journal, wall_clock
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.supervisor import sources
from gyoshu_ckpt.supervisor.committing import Committer, RunIdentity
from gyoshu_ckpt.supervisor.run_folder import RunFolder
from gyoshu_ckpt.supervisor.session import Outcome, RunSession, kernel_unavailable
from gyoshu_ckpt.supervisor.stop_signals import StopSignals
from gyoshu_ckpt.supervisor.watching import Watcher
from gyoshu_ckpt.supervisor.working_copy import git_state
from kernel_bridge.interface import KernelNotAvailable, KernelSession

KernelFactory = Callable[[str, Path, Mapping[str, str]], KernelSession]


def jupyter_kernel(
    kernel_name: str, working_directory: Path, environment: Mapping[str, str]
) -> KernelSession:
    """The real thing."""
    from kernel_bridge.jupyter_session import JupyterSession

    return JupyterSession(kernel_name, cwd=working_directory, env=environment)


def _require_installed(kernel_name: str) -> None:
    from kernel_bridge.jupyter_session import require_installed

    try:
        require_installed(kernel_name)
    except KernelNotAvailable as refusal:
        raise kernel_unavailable(refusal) from None


@dataclass(frozen=True, slots=True)
class NewRun:
    """What ``gyoshu run`` was asked for."""

    notebook: Path
    title: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kernel_name: str | None = None
    working_directory: Path | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Continuation:
    """A run that can be looked at, or gone on with: what is on disk, and what follows from it."""

    notebook: Path
    sliced: SlicedNotebook
    history: RunHistory
    resume: ResumePlan
    working_directory: Path
    notices: tuple[str, ...]


def slice_for(request: NewRun, settings: Settings) -> SlicedNotebook:
    """Slice the notebook of a new run and hold it against the settings."""
    sliced = make_plan(
        request.notebook,
        title=request.title,
        parameters=request.parameters,
        kernel_name=request.kernel_name,
        strict=request.strict,
    )
    settings.check_limits_of(sliced.plan)
    return sliced


def start_run(
    request: NewRun,
    settings: Settings,
    watcher: Watcher,
    *,
    make_kernel: KernelFactory = jupyter_kernel,
) -> tuple[str, Outcome]:
    """Run a notebook from its first stage; return the run's id and how the session ended."""
    sliced = slice_for(request, settings)
    plan = sliced.plan
    working_directory = sources.existing_folder(
        request.working_directory or request.notebook.resolve().parent
    )
    if make_kernel is jupyter_kernel:
        _require_installed(plan.kernel_name)  # else the run would be there, and could never go on
    layout = StoreLayout.at(settings.root)
    source = request.notebook.read_bytes()
    with run_lock.create_run(layout, plan.title, command=_command("run", str(request.notebook))) as lock:
        copy = layout.source_copy(plan.title, lock.run_id, request.notebook.suffix)
        durable_files.write_durably(copy, source, below=layout.reports)
        history = RunHistory(
            session_id=uuid.uuid4().hex,
            title=plan.title,
            kernel_name=plan.kernel_name,
            parameters=dict(request.parameters),
        )
        identity = {
            "researchSessionID": history.session_id,
            "title": plan.title,
            "notebook": sources.portable(request.notebook, settings.root),
            "notebookSha256": hashlib.sha256(source).hexdigest(),
            "workingDirectory": sources.portable(working_directory, settings.root),
            "kernel": plan.kernel_name,
            "parameters": recorded_parameters(request.parameters),
        }
        durable_files.write_durably(
            layout.identity(plan.title, lock.run_id), json.dumps(identity).encode(), below=layout.reports
        )
        created = Record("run_created", identity, durable=True)
        opened = _Opened(
            layout, settings, watcher, make_kernel, sliced, history, working_directory, lock.run_id
        )
        return lock.run_id, opened.drive(Start(), None, (), created)


def look_at(layout: StoreLayout, settings: Settings, title: str, run_id: str) -> Continuation:
    """Read and verify everything that decides how a run would go on. Changes nothing."""
    reading = read_journal(layout.journal(title, run_id), layout.reports)
    history = fold(reading.records)
    notices: list[str] = []
    if reading.damaged_lines:
        notices.append(f"{reading.damaged_lines} line(s) of the journal are damaged and were passed over")
    if history.notebook is None:
        notices.append("the journal has lost its beginning")
        take_identity(history, sources.identity_of(layout, title, run_id), history.started_at or "")
    notebook = sources.notebook_of(layout, settings, title, run_id, history, notices)
    working_directory = (
        sources.from_portable(history.working_directory, settings.root) or notebook.resolve().parent
    )
    sliced = make_plan(notebook, title=title, parameters=history.parameters, kernel_name=history.kernel_name)
    settings.check_limits_of(sliced.plan)
    found = CheckpointStore(layout, title, run_id).newest_valid(
        stands=lambda manifest: why_it_does_not_stand(sliced.plan, manifest)
    )
    resume = ResumePlan(sliced.plan, found.manifest, found.skipped)
    if found.manifest is not None and found.manifest.fingerprint.setup != sliced.plan.setup_sha256:
        notices.append("a setup cell has changed since; finished stages are kept as they are")
    return Continuation(
        notebook, sliced, history, resume, sources.existing_folder(working_directory), tuple(notices)
    )


def continue_run(
    settings: Settings,
    title: str,
    run_id: str,
    watcher: Watcher,
    *,
    make_kernel: KernelFactory = jupyter_kernel,
) -> Outcome:
    """Go on with a run at the first stage that has no standing checkpoint."""
    layout = StoreLayout.at(settings.root)
    with run_lock.lock_run(layout, title, run_id, command=_command("continue", f"{title}/{run_id}")):
        found = look_at(layout, settings, title, run_id)
        resume = found.resume
        for notice in (*found.notices, *resume_sentences(resume)):
            watcher.told(notice)
        if resume.checkpoint is not None:
            published = publish_artifacts(layout, resume.checkpoint)
            for name in published.left_alone:
                watcher.told(f"{name} is not as it was saved; it is left as it is")
        sources.keep_source(layout, title, run_id, found.notebook)
        if resume.is_complete:
            return Outcome(RunState.COMPLETED.value, 0, "already complete", None)
        opened = _Opened(
            layout,
            settings,
            watcher,
            make_kernel,
            found.sliced,
            found.history,
            found.working_directory,
            run_id,
        )
        return opened.drive(_start_of(found), resume.checkpoint, resume.skipped, None)


def resume_sentences(resume: ResumePlan) -> list[str]:
    """What a person is told before a run goes on."""
    told = [f"{one.checkpoint_id} is passed over: {one.reason}" for one in resume.skipped]
    if resume.checkpoint is None:
        told.append("no checkpoint can be used: the run starts again at its first stage")
    elif not resume.is_complete:
        told.append(
            f"going on at {resume.next_stage_id}, from {resume.checkpoint.checkpoint_id} "
            f"({resume.checkpoint.stage_id})"
        )
    return told


@dataclass(slots=True)
class _Opened:
    """A locked run with all that a session needs."""

    layout: StoreLayout
    settings: Settings
    watcher: Watcher
    make_kernel: KernelFactory
    sliced: SlicedNotebook
    history: RunHistory
    working_directory: Path
    run_id: str

    def drive(
        self, start: Start, last: Manifest | None, skipped: tuple[Skipped, ...], created: Record | None
    ) -> Outcome:
        plan = self.sliced.plan
        folder = RunFolder(self.layout, plan.title, self.run_id)
        with contextlib.closing(folder), StopSignals() as signals:
            if created is not None:
                folder.journal.append(created.event, created.fields, sync=True)
            self._announce(folder, plan, start, skipped)
            exchange = folder.open_exchange()
            kernel = self.make_kernel(plan.kernel_name, self.working_directory, environment_for(exchange))
            identity = RunIdentity(
                title=plan.title,
                run_id=self.run_id,
                session_id=self.history.session_id or uuid.uuid4().hex,
                kernel_name=plan.kernel_name,
                parameters=self.history.parameters,
                git=git_state(self.working_directory),
            )
            session = RunSession(
                plan=plan,
                supervision=Supervision(plan, self.settings.limits(), start),
                kernel=kernel,
                folder=folder,
                notebook=self._executed_notebook(plan, start),
                committer=Committer(
                    self.layout,
                    identity,
                    plan,
                    last=last,
                    highest_number=self.history.highest_checkpoint,
                    clock=wall_clock,
                ),
                exchange=exchange,
                working_directory=self.working_directory,
                watcher=self.watcher,
                stop_signals=signals,
            )
            with self._told_of_the_end(folder):
                return session.run()

    def _announce(self, folder: RunFolder, plan: Plan, start: Start, skipped: tuple[Skipped, ...]) -> None:
        for one in skipped:
            folder.journal.append(
                "checkpoint_skipped", {"checkpoint": one.checkpoint_id, "reason": one.reason}
            )
        fields = {
            "stages": [stage.stage_id for stage in plan.stages],
            "firstStage": start.first_stage,
            "from": start.from_checkpoint,
            "notices": list(plan.notices),
        }
        folder.journal.append("session_started", fields, sync=True)
        finished = {
            stage.stage_id: self.history.stages[stage.stage_id].size_bytes
            if stage.stage_id in self.history.stages
            else None
            for stage in plan.stages[: start.first_stage]
        }
        self.watcher.session_began(plan, self.run_id, finished)
        for notice in plan.notices:
            self.watcher.told(notice)

    def _executed_notebook(self, plan: Plan, start: Start) -> ExecutedNotebook:
        path = self.layout.notebook(plan.title, self.run_id)
        notebook = ExecutedNotebook(
            self.sliced.notebook,
            path,
            below=self.layout.reports,
            outputs_dir=self.layout.outputs_dir(plan.title, self.run_id),
        )
        if start.first_stage:
            earlier = read_executed(path, below=self.layout.reports)
            if earlier is None:
                self.watcher.told(
                    "the executed notebook cannot be read: outputs of finished stages are not shown"
                )
            else:
                notebook.take_over(earlier, plan.stages[start.first_stage].cells[0].cell_id)
        if start.rehydration is not None:
            first_cell = plan.stages[start.first_stage].cells[0].cell_id
            notebook.add_rehydration(first_cell, start.rehydration.cell_id, start.rehydration.code)
        return notebook

    @contextlib.contextmanager
    def _told_of_the_end(self, folder: RunFolder) -> Iterator[None]:
        """A fault that ends the session outside supervision (no kernel, no store) is journaled all the same."""
        try:
            yield
        except GyoshuError as fault:
            fields = {"state": RunState.FAILED.value, "exitCode": fault.exit_code, "message": fault.message}
            with contextlib.suppress(GyoshuError):
                folder.journal.append("run_ended", fields, sync=True)
            raise
        finally:
            self.watcher.session_ended()


def _start_of(found: Continuation) -> Start:
    resume = found.resume
    checkpoint = resume.checkpoint
    cell = None
    if checkpoint is not None and resume.plan.is_python:
        cell = PlanCell(
            index=-1,
            cell_id=f"gyoshu-rehydrate-{checkpoint.checkpoint_id}-{found.history.sessions}",
            code=rehydration.rehydration_source(resume.plan, checkpoint),
        )
    return Start(
        # A journal that lost its beginning still belongs to a run that was started once.
        run_state=RunState.IN_PROGRESS if found.history.state is RunState.PLANNED else found.history.state,
        first_stage=resume.first_stage,
        from_checkpoint=checkpoint.checkpoint_id if checkpoint is not None else None,
        rehydration=cell,
        attempts=found.history.attempts(),
    )


def _command(verb: str, what: str) -> str:
    return f"gyoshu {verb} {shlex.quote(what)}"
