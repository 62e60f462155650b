"""Which run a command means: ``run-003``, ``title``, ``title/run-003``, or nothing at all."""

from __future__ import annotations

from dataclasses import dataclass

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.history import RunHistory, fold
from gyoshu_ckpt.core.run_state import RunState
from gyoshu_ckpt.errors import NoSuchRun, UserMistake
from gyoshu_ckpt.storage.journal import read_journal
from gyoshu_ckpt.storage.layout import StoreLayout


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run in the store and what its journal says."""

    title: str
    run_id: str
    history: RunHistory

    @property
    def name(self) -> str:
        """``title/run-001``."""
        return f"{self.title}/{self.run_id}"

    @property
    def is_complete(self) -> bool:
        """Whether its journal says so."""
        return self.history.state is RunState.COMPLETED


def known_runs(layout: StoreLayout, title: str | None = None) -> list[KnownRun]:
    """All runs, oldest first. Order among titles is by the wall clock: there is no other."""
    titles = [title] if title is not None else layout.titles()
    runs = [
        KnownRun(name, run_id, fold(read_journal(layout.journal(name, run_id), layout.reports).records))
        for name in titles
        for run_id in layout.runs(name)
    ]
    return sorted(runs, key=lambda run: (run.history.started_at or "", ids.number_of(run.run_id)))


def choose_run(
    layout: StoreLayout, wanted: str | None, title: str | None = None, *, to_go_on: bool = False
) -> KnownRun:
    """The run that is meant; with ``to_go_on``, an unfinished one is preferred where nothing decides."""
    wanted_title, wanted_run = _read(layout, wanted, title)
    runs = known_runs(layout, wanted_title)
    if wanted_run is not None:
        runs = [run for run in runs if run.run_id == wanted_run]
        if len(runs) > 1:
            names = ", ".join(run.name for run in runs)
            raise UserMistake(f"{wanted_run} could be any of {names}", next_step=f"gyoshu … {runs[-1].name}")
    if not runs:
        what = "/".join(part for part in (wanted_title, wanted_run) if part)
        raise NoSuchRun(
            f"there is no run {what}".rstrip() + f" below {layout.reports}"
            if what
            else f"there are no runs below {layout.reports}",
            next_step="gyoshu list" if what else "gyoshu run NOTEBOOK, or name the store with --root",
        )
    # One that was killed in its first moments says nothing of itself: there is nothing to go on with.
    unfinished = [
        run
        for run in runs
        if not run.is_complete and (run.history.notebook or layout.identity(run.title, run.run_id).exists())
    ]
    return (unfinished or runs)[-1] if to_go_on else runs[-1]


def _read(layout: StoreLayout, wanted: str | None, title: str | None) -> tuple[str | None, str | None]:
    if title is not None:
        ids.check_title(title)
    if wanted is None:
        return title, None
    if ids.RUN_ID.fullmatch(wanted):
        return title, wanted
    name, slash, run_id = wanted.rpartition("/")
    if slash:
        return ids.check_title(name), ids.check_run_id(run_id)
    if title is not None:
        raise UserMistake(f"{wanted!r} and --title {title!r} are two titles", next_step="give one of them")
    return ids.check_title(wanted), None
