"""``gyoshu status``, ``list`` and ``show``: what is in the store. They change nothing and take no lock."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from gyoshu_ckpt.cli.choosing import KnownRun, choose_run, known_runs
from gyoshu_ckpt.cli.speaking import say, say_json, store_options
from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.durations import format_duration
from gyoshu_ckpt.core.manifest import Manifest
from gyoshu_ckpt.core.run_state import RunState, StageState
from gyoshu_ckpt.core.sizes import count_of, format_bytes
from gyoshu_ckpt.settings import read_settings
from gyoshu_ckpt.storage import run_lock
from gyoshu_ckpt.storage.checkpoints import CheckpointEntry, CheckpointStore
from gyoshu_ckpt.storage.layout import StoreLayout


@click.command()
@click.argument("run", required=False)
@click.option("--title", help="Of this report title only.")
@store_options
def status(run: str | None, title: str | None, root: Path | None, as_json: bool) -> None:
    """Show where RUN (default: the newest) stands: stages, last checkpoint, who is at work on it."""
    layout = StoreLayout.at(read_settings(root).root)
    chosen = choose_run(layout, run, title)
    history = chosen.history
    holder = run_lock.holder_of(layout, chosen.title, chosen.run_id)
    state = _state(chosen, held=holder is not None)
    saved = [
        entry for entry in _entries(layout, chosen) if entry.manifest and entry.manifest.status == "saved"
    ]
    last = saved[-1].manifest if saved else None
    if as_json:
        say_json(
            {
                "title": chosen.title,
                "run": chosen.run_id,
                "state": state,
                "message": history.message,
                "startedAt": history.started_at,
                "lastEventAt": history.last_at,
                "sessions": history.sessions,
                "stages": [
                    {
                        "stageId": stage_id,
                        "state": _stage_state(history.stages[stage_id].state, held=holder is not None),
                        "attempts": history.stages[stage_id].attempts,
                        "durationSec": history.stages[stage_id].duration_s,
                    }
                    for stage_id in history.stage_order
                ],
                "lastCheckpoint": _brief(last) if last else None,
                "heldBy": {"pid": holder.pid, "command": holder.command, "since": holder.since}
                if holder
                else None,
            }
        )
        return
    say(
        f"{chosen.name}: {state}"
        + (f" ({history.message})" if history.message and not chosen.is_complete else "")
    )
    width = max((len(stage_id) for stage_id in history.stage_order), default=0)
    for stage_id in history.stage_order:
        stage = history.stages[stage_id]
        took = f"  {format_duration(round(stage.duration_s, 1))}" if stage.duration_s is not None else ""
        tries = f"  attempt {stage.attempts}" if stage.attempts > 1 else ""
        say(
            f"  {stage_id:<{width}}  {_stage_state(stage.state, held=holder is not None).lower()}{took}{tries}"
        )
    if last is not None:
        say(f"last checkpoint: {last.checkpoint_id} ({last.stage_id}, {last.created_at})")
    if holder is not None:
        say(f"at work: process {holder.pid}, {holder.command}, since {holder.since}")
    elif state != RunState.COMPLETED.value:
        say(f"next: gyoshu continue {shlex.quote(chosen.name)}")


@click.command("list")
@click.option("--title", help="Of this report title only.")
@store_options
def list_(title: str | None, root: Path | None, as_json: bool) -> None:
    """List the runs of the store, oldest first."""
    layout = StoreLayout.at(read_settings(root).root)
    if title is not None:
        ids.check_title(title)
    rows = []
    for run in known_runs(layout, title):
        stages = run.history.stages
        done = sum(stages[stage_id].state is StageState.COMPLETED for stage_id in run.history.stage_order)
        held = run_lock.holder_of(layout, run.title, run.run_id) is not None
        rows.append(
            {
                "title": run.title,
                "run": run.run_id,
                "state": _state(run, held=held),
                "stagesCompleted": done,
                "stages": len(run.history.stage_order),
                "checkpoints": len(layout.checkpoints(run.title, run.run_id)),
                "startedAt": run.history.started_at,
            }
        )
    if as_json:
        say_json({"root": str(layout.reports.parent), "runs": rows})
        return
    if not rows:
        say(f"no runs below {layout.reports}")
    width = max((len(f"{row['title']}/{row['run']}") for row in rows), default=0)
    for row in rows:
        name = f"{row['title']}/{row['run']}"
        of = f"{row['stagesCompleted']}/{row['stages']} stages"
        say(f"{name:<{width}}  {row['state']:<12} {of:>13}  {row['startedAt'] or ''}")


@click.command()
@click.argument("what", required=False)
@click.option("--title", help="Of this report title only.")
@store_options
def show(what: str | None, title: str | None, root: Path | None, as_json: bool) -> None:
    """Show a run's checkpoints, or what one holds: WHAT is RUN, CHECKPOINT or RUN/CHECKPOINT.

    For example run-001, ckpt-003, run-001/ckpt-003 or quickstart/run-001/ckpt-003; default: the newest run.
    """
    layout = StoreLayout.at(read_settings(root).root)
    wanted_run, checkpoint_id = _split_target(what)
    chosen = choose_run(layout, wanted_run, title)
    if checkpoint_id is None:
        _show_run(layout, chosen, as_json=as_json)
        return
    manifest = CheckpointStore(layout, chosen.title, chosen.run_id).load(checkpoint_id)
    if as_json:
        say_json(manifest.model_dump(mode="json", by_alias=True))
    else:
        _show_manifest(manifest)


def _show_run(layout: StoreLayout, chosen: KnownRun, *, as_json: bool) -> None:
    entries = _entries(layout, chosen)
    if as_json:
        say_json(
            {
                "title": chosen.title,
                "run": chosen.run_id,
                "checkpoints": [
                    _brief(entry.manifest)
                    if entry.manifest
                    else {"checkpointId": entry.checkpoint_id, "problem": entry.problem}
                    for entry in entries
                ],
            }
        )
        return
    say(f"{chosen.name}: {count_of(len(entries), 'checkpoint')}")
    for entry in entries:
        if entry.manifest is None:
            say(f"  {entry.checkpoint_id}  cannot be used: {entry.problem}")
            continue
        manifest = entry.manifest
        why = f" ({manifest.reason})" if manifest.reason else ""
        size = format_bytes(sum(value.size_bytes for value in manifest.stored_values()))
        say(f"  {entry.checkpoint_id}  {manifest.status}{why}  {manifest.stage_id or 'setup'}  {size}")


def _show_manifest(manifest: Manifest) -> None:
    why = f" ({manifest.reason})" if manifest.reason else ""
    say(f"{manifest.report_title}/{manifest.run_id}/{manifest.checkpoint_id}: {manifest.status}{why}")
    say(f"  stage     {manifest.stage_id or 'setup'}, attempt {manifest.attempt}")
    say(f"  made      {manifest.created_at}")
    if manifest.python_env is not None:
        say(f"  python    {manifest.python_env.version}, kernel {manifest.python_env.kernel_name}")
    if manifest.git is not None:
        dirty = ", with changes" if manifest.git.dirty else ""
        say(f"  git       {manifest.git.branch or 'detached'} at {manifest.git.commit[:12]}{dirty}")
    for artifact in manifest.artifacts:
        say(
            f"  artifact  {artifact.relative_path}  {format_bytes(artifact.size_bytes)}  {artifact.sha256[:12]}…"
        )
    for variable in manifest.variables:
        size = format_bytes(variable.size_bytes)
        say(f"  variable  {variable.name}  {variable.codec}  {size}  {variable.sha256[:12]}…")


def _split_target(what: str | None) -> tuple[str | None, str | None]:
    if what is None:
        return None, None
    head, _, tail = what.rpartition("/")
    if ids.CHECKPOINT_ID.fullmatch(tail):
        return head or None, tail
    return what, None


def _entries(layout: StoreLayout, chosen: KnownRun) -> list[CheckpointEntry]:
    return CheckpointStore(layout, chosen.title, chosen.run_id).entries()


def _brief(manifest: Manifest) -> dict[str, Any]:
    return {
        "checkpointId": manifest.checkpoint_id,
        "stageId": manifest.stage_id,
        "status": manifest.status.value,
        "reason": manifest.reason.value if manifest.reason else None,
        "createdAt": manifest.created_at,
        "sizeBytes": sum(value.size_bytes for value in manifest.stored_values()),
    }


def _state(run: KnownRun, *, held: bool) -> str:
    """A run that its journal calls IN_PROGRESS, but that nobody holds, was killed without a word."""
    state = run.history.state
    if state in (RunState.IN_PROGRESS, RunState.PLANNED) and not held:
        return RunState.INTERRUPTED.value
    return state.value


def _stage_state(state: StageState, *, held: bool) -> str:
    return StageState.INTERRUPTED.value if state is StageState.RUNNING and not held else state.value
