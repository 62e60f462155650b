"""Prune a report title: old checkpoints of every run, then the objects that nothing names any more.

Rules
1. References go before referents: manifests are removed durably before any object is.
2. A run that somebody is writing is left alone.
3. Objects are swept only while every run of the title is locked by us and the title lock keeps new ones from
   starting: a writer's fresh objects are named by no manifest yet.

Not handled here: which checkpoints go (`core.retention`).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from gyoshu_ckpt.core.retention import check_keep_last
from gyoshu_ckpt.errors import LockHeld, NoSuchRun, StoreUnavailable
from gyoshu_ckpt.storage.checkpoints import CheckpointStore, PruneResult, referenced_objects
from gyoshu_ckpt.storage.durable_files import remove_leftovers
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore, SweepResult
from gyoshu_ckpt.storage.run_lock import take_run_lock, title_lock


@dataclass(frozen=True, slots=True)
class TitlePruneResult:
    """What was done to each run; runs in use, with who uses them; the sweep, or why there was none."""

    runs: dict[str, PruneResult]
    in_use: dict[str, str]
    swept: SweepResult | None
    not_swept_because: str | None


def prune_title(
    layout: StoreLayout, title: str, keep_last: int, dry_run: bool = False, *, command: str = "gyoshu prune"
) -> TitlePruneResult:
    """Keep the newest ``keep_last`` checkpoints of each run; with ``dry_run``, only say what would go."""
    check_keep_last(keep_last)
    if not layout.runs(title):
        raise NoSuchRun(f"there are no runs of '{title}'", next_step="gyoshu list")
    pruned: dict[str, PruneResult] = {}
    in_use: dict[str, str] = {}
    with title_lock(layout, title), ExitStack() as locks:
        for run_id in layout.runs(title):
            try:
                locks.enter_context(take_run_lock(layout, title, run_id, command=command))
            except LockHeld as problem:
                in_use[run_id] = problem.message
                continue
            pruned[run_id] = CheckpointStore(layout, title, run_id).prune(keep_last, dry_run)
            if not dry_run:
                remove_leftovers(layout.run_dir(title, run_id), below=layout.reports)
                remove_leftovers(layout.checkpoints_dir(title, run_id), below=layout.reports)
        swept, reason = _sweep(layout, title, pruned, in_use, dry_run)
    return TitlePruneResult(pruned, in_use, swept, reason)


def _sweep(
    layout: StoreLayout, title: str, pruned: dict[str, PruneResult], in_use: dict[str, str], dry_run: bool
) -> tuple[SweepResult | None, str | None]:
    if in_use:
        return None, f"objects stay as long as a run is in use: {', '.join(in_use)}"
    try:
        referenced = referenced_objects(
            layout, title, {run_id: result.removed for run_id, result in pruned.items()}
        )
    except StoreUnavailable as problem:
        return None, f"objects stay, because not every manifest can be read: {problem.message}"
    return ObjectStore(layout, title).sweep(referenced, dry_run), None
