"""``gyoshu check`` and ``gyoshu prune``: is the store whole, and how much of it to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gyoshu_ckpt.cli.choosing import choose_run, known_runs
from gyoshu_ckpt.cli.speaking import note, say, say_json, store_options
from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.sizes import count_of, format_bytes
from gyoshu_ckpt.errors import Damaged, NoSuchRun
from gyoshu_ckpt.settings import read_settings
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.pruning import prune_title


@click.command()
@click.argument("run", required=False)
@click.option("--title", help="Of this report title only.")
@store_options
def check(run: str | None, title: str | None, root: Path | None, as_json: bool) -> None:
    """Verify the checkpoints of RUN (default: of every run): read each object and compare its hash.

    Exit code 65 if anything is damaged.
    """
    layout = StoreLayout.at(read_settings(root).root)
    runs = [choose_run(layout, run, title)] if run else known_runs(layout, title)
    if not runs:
        raise NoSuchRun(f"there are no runs below {layout.reports}", next_step="gyoshu run NOTEBOOK")
    results: list[dict[str, Any]] = []
    for chosen in runs:
        store = CheckpointStore(layout, chosen.title, chosen.run_id)
        for checkpoint_id in layout.checkpoints(chosen.title, chosen.run_id):
            problems = store.verify(checkpoint_id)
            results.append({"run": chosen.name, "checkpoint": checkpoint_id, "problems": problems})
            if not as_json:
                say(f"{chosen.name}/{checkpoint_id}  {'; '.join(problems) if problems else 'whole'}")
    damaged = [result for result in results if result["problems"]]
    if as_json:
        say_json({"checked": len(results), "damaged": len(damaged), "checkpoints": results})
    if damaged:
        if not as_json:
            note(f"gyoshu: {len(damaged)} of {len(results)} checkpoints are damaged")
            note("  next: gyoshu continue goes on from the newest that is whole")
        click.get_current_context().exit(Damaged.exit_code)
    if not as_json:
        say(f"{count_of(len(results), 'checkpoint')}, all whole")


@click.command()
@click.option("--keep-last", default=5, show_default=True, help="How many checkpoints of each run to keep.")
@click.option("--title", help="Of this report title only.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@store_options
def prune(keep_last: int, title: str | None, dry_run: bool, root: Path | None, as_json: bool) -> None:
    """Remove all but the newest checkpoints of each run, then the objects that nothing refers to.

    The newest valid checkpoint of a run never goes. A run that is in use is left alone.
    """
    layout = StoreLayout.at(read_settings(root).root)
    titles = [ids.check_title(title)] if title is not None else layout.titles()
    if not titles:
        raise NoSuchRun(f"there are no runs below {layout.reports}", next_step="gyoshu run NOTEBOOK")
    documents: list[dict[str, Any]] = []
    for name in titles:
        result = prune_title(layout, name, keep_last, dry_run)
        removed = [f"{run_id}/{one}" for run_id, pruned in result.runs.items() for one in pruned.removed]
        documents.append(
            {
                "title": name,
                "removed": removed,
                "kept": [f"{run_id}/{one}" for run_id, pruned in result.runs.items() for one in pruned.kept],
                "inUse": sorted(result.in_use),
                "objectsRemoved": result.swept.count if result.swept else 0,
                "bytesFreed": result.swept.bytes if result.swept else 0,
                "notSwept": result.not_swept_because,
            }
        )
    if as_json:
        say_json({"dryRun": dry_run, "titles": documents})
        return
    would = "would remove" if dry_run else "removed"
    for document in documents:
        freed = format_bytes(document["bytesFreed"])
        checkpoints = count_of(len(document["removed"]), "checkpoint")
        objects = count_of(document["objectsRemoved"], "object")
        say(f"{document['title']}: {would} {checkpoints} and {objects} ({freed})")
        if document["notSwept"]:
            note(f"note: {document['notSwept']}")
