"""``gyoshu run`` and ``gyoshu continue``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gyoshu_ckpt.cli.choosing import choose_run
from gyoshu_ckpt.cli.speaking import Muting, note, say, say_json, store_options, wants_live_view
from gyoshu_ckpt.core.durations import format_duration, parse_duration
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.sizes import count_of
from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.settings import Settings, read_settings
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.supervisor import opening
from gyoshu_ckpt.supervisor.session import Outcome
from gyoshu_ckpt.supervisor.watching import Watcher


@click.command()
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option(
    "-p", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="Set a parameter, as in papermill."
)
@click.option("--title", help="The report title. [default: the notebook's name]")
@click.option("--kernel", "kernel_name", help="The kernel to use. [default: the notebook's own]")
@click.option(
    "--cwd", type=click.Path(path_type=Path), help="Where the kernel works. [default: the notebook's folder]"
)
@click.option(
    "--max", "stage_limit", metavar="DURATION", help="Time limit of stages that name none, such as 4m."
)
@click.option(
    "--strict", is_flag=True, help="Refuse a notebook whose stages read names that no --out declares."
)
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan and start nothing.")
@store_options
def run(
    notebook: Path,
    parameters: tuple[tuple[str, str], ...],
    title: str | None,
    kernel_name: str | None,
    cwd: Path | None,
    stage_limit: str | None,
    strict: bool,
    dry_run: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Run NOTEBOOK (.ipynb or a percent script) stage by stage, with a checkpoint after each."""
    from gyoshu_ckpt.notebook.parameters import parse_parameter

    settings = _with_limit(read_settings(root), stage_limit)
    request = opening.NewRun(
        notebook=notebook,
        title=title,
        parameters={name: parse_parameter(value) for name, value in parameters},
        kernel_name=kernel_name,
        working_directory=cwd,
        strict=strict,
    )
    if dry_run:
        _show_plan(opening.slice_for(request, settings).plan, settings, as_json=as_json)
        return
    run_id, outcome = opening.start_run(request, settings, _watcher(as_json))
    _close(run_id, outcome, as_json=as_json)


@click.command("continue")
@click.argument("run", required=False)
@click.option("--title", help="Of this report title only.")
@click.option("-n", "--dry-run", is_flag=True, help="Show where the run would go on, and start nothing.")
@store_options
def continue_(run: str | None, title: str | None, dry_run: bool, root: Path | None, as_json: bool) -> None:
    """Go on with RUN (run-001, TITLE or TITLE/run-001; default: the newest that can) where it stopped.

    Checkpoints are verified from the newest back; one that is damaged is passed over with its reason. The values
    come back in a new kernel, and the run goes on at the next stage. A stage that failed or was interrupted is
    run again.
    """
    settings = read_settings(root)
    layout = StoreLayout.at(settings.root)
    chosen = choose_run(layout, run, title, to_go_on=True)
    if dry_run:
        _show_resume(
            opening.look_at(layout, settings, chosen.title, chosen.run_id), chosen.name, as_json=as_json
        )
        return
    outcome = opening.continue_run(settings, chosen.title, chosen.run_id, _watcher(as_json))
    _close(chosen.run_id, outcome, as_json=as_json)


_write = Muting()


def _with_limit(settings: Settings, stage_limit: str | None) -> Settings:
    if stage_limit is None:
        return settings
    import dataclasses

    seconds = parse_duration(stage_limit)
    if seconds > settings.longest_stage_s:
        raise UserMistake(
            f"--max {stage_limit} is more than the {format_duration(settings.longest_stage_s)} that a stage may take",
            next_step="raise [limits] longest_stage in gyoshu.toml",
        )
    return dataclasses.replace(settings, stage_s=seconds)


def _watcher(as_json: bool) -> Watcher:
    if as_json:
        from gyoshu_ckpt.reporting.event_stream import EventStream

        return EventStream(_write)
    if wants_live_view():
        from rich.console import Console

        from gyoshu_ckpt.reporting.live_view import LiveView

        return LiveView(Console(highlight=False))
    from gyoshu_ckpt.reporting.plain_lines import PlainLines

    return PlainLines(_write)


def _close(run_id: str, outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        closing: dict[str, Any] = {
            "event": "closed",
            "run": run_id,
            "state": outcome.state,
            "exitCode": outcome.exit_code,
            "message": outcome.message,
            "next": outcome.next_step,
        }
        _write(json.dumps(closing, ensure_ascii=False))
    elif outcome.exit_code == 0:
        _write(f"{run_id}: {outcome.message}")
    if outcome.exit_code != 0:
        note(f"gyoshu: {run_id} stopped: {outcome.message}")
        if outcome.next_step:
            note(f"  next: {outcome.next_step}")
        click.get_current_context().exit(outcome.exit_code)


def _show_plan(plan: Plan, settings: Settings, *, as_json: bool) -> None:
    stages = [
        {
            "stageId": stage.stage_id,
            "goal": stage.goal,
            "inputs": list(stage.inputs),
            "outputs": [output.file_name or output.name for output in stage.outputs],
            "maxDurationSec": stage.max_duration_s or settings.stage_s,
            "cells": len(stage.cells),
        }
        for stage in plan.stages
    ]
    if as_json:
        say_json(
            {"title": plan.title, "kernel": plan.kernel_name, "stages": stages, "notices": list(plan.notices)}
        )
        return
    cells, count = count_of(len(plan.setup), "setup cell"), count_of(len(stages), "stage")
    say(f"{plan.title} · kernel {plan.kernel_name} · {cells} · {count}")
    for stage in plan.stages:
        limit = format_duration(stage.max_duration_s or settings.stage_s)
        outputs = ", ".join(output.file_name or output.name for output in stage.outputs) or "no outputs"
        say(f"  {stage.stage_id}  at most {limit}  → {outputs}" + (f"  ({stage.goal})" if stage.goal else ""))
    for notice in plan.notices:
        note(f"note: {notice}")


def _show_resume(found: opening.Continuation, name: str, *, as_json: bool) -> None:
    resume = found.resume
    checkpoint = resume.checkpoint.checkpoint_id if resume.checkpoint else None
    if as_json:
        say_json(
            {
                "run": name,
                "from": checkpoint,
                "complete": resume.is_complete,
                "next": resume.next_stage_id,
                "skipped": [
                    {"checkpoint": one.checkpoint_id, "reason": one.reason} for one in resume.skipped
                ],
                "stages": [
                    {"stageId": stage.stage_id, "verdict": "reuse" if place < resume.first_stage else "run"}
                    for place, stage in enumerate(resume.plan.stages)
                ],
                "notices": list(found.notices),
            }
        )
        return
    say(f"{name}: already complete" if resume.is_complete else f"{name}:")
    for sentence in (*found.notices, *opening.resume_sentences(resume)):
        say(f"  {sentence}")
    for place, stage in enumerate(resume.plan.stages):
        say(f"  {'reuse' if place < resume.first_stage else 'run  '}  {stage.stage_id}")
