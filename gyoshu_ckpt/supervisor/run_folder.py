"""The folder of the run that this process holds: its journal, its staging areas, its exchange, its progress page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gyoshu_ckpt.core.events import ValuesSaved
from gyoshu_ckpt.core.history import fold
from gyoshu_ckpt.core.save_protocol import SaveRequest
from gyoshu_ckpt.errors import GyoshuError
from gyoshu_ckpt.in_kernel.exchange import Exchange, RunPlace
from gyoshu_ckpt.in_kernel.recorder import Recorder
from gyoshu_ckpt.reporting.progress_page import progress_page
from gyoshu_ckpt.storage import durable_files
from gyoshu_ckpt.storage.journal import JournalWriter, read_journal
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore


class RunFolder:
    """Everything below ``{title}/{runId}`` that is written while a run goes on, but for the notebook."""

    def __init__(self, layout: StoreLayout, title: str, run_id: str) -> None:
        self._layout = layout
        self.title = title
        self.run_id = run_id
        self.journal = JournalWriter(layout.journal(title, run_id), below=layout.reports)

    def open_exchange(self) -> Exchange:
        """An empty exchange folder: whatever a killed session left in it is gone."""
        folder = self._layout.exchange_dir(self.title, self.run_id)
        self._remove(folder)
        durable_files.make_directories(folder, self._layout.reports)
        exchange = Exchange(folder)
        exchange.write_run(RunPlace(str(self._layout.reports), self.title, self.run_id))
        return exchange

    def prepare_staging(self, stage_id: str, attempt: int, folders: Iterable[str]) -> Path:
        """An empty staging folder for this attempt, with the folders that the stage declares as outputs."""
        staging = self._staging(stage_id, attempt)
        self._remove(staging)
        durable_files.make_directories(staging, self._layout.reports)
        for name in folders:
            durable_files.make_directories(staging / name, self._layout.reports)
        return staging

    def clear_staging(self, stage_id: str, attempt: int) -> None:
        """The stage is committed: its files live in the object store now."""
        self._remove(self._staging(stage_id, attempt))

    def manifest_name(self, checkpoint_id: str) -> str:
        """Where a manifest lies, as markers name it."""
        path = self._layout.manifest(self.title, self.run_id, checkpoint_id)
        return self._layout.relative_to_root(path)

    def receipt_for_files(self, request: SaveRequest) -> ValuesSaved:
        """For a kernel that has no recorder (R, bash, …): the declared files are stored from here."""
        recorder = Recorder(
            ObjectStore(self._layout, self.title), self._staging(request.stage_id, request.attempt), {}
        )
        return ValuesSaved(recorder.save_files(request))

    def write_progress(self) -> None:
        """Rebuild ``progress.md`` from the journal."""
        below = self._layout.reports
        reading = read_journal(self._layout.journal(self.title, self.run_id), below)
        page = progress_page(self.title, self.run_id, fold(reading.records), reading.records)
        try:
            durable_files.replace_quickly(
                self._layout.progress(self.title, self.run_id), page.encode(), below=below
            )
        except GyoshuError:
            return  # a view: it is rebuilt at the next occasion

    def close(self) -> None:
        """Done with the journal; the exchange is of no more use."""
        self.journal.close()
        self._remove(self._layout.exchange_dir(self.title, self.run_id))

    def _staging(self, stage_id: str, attempt: int) -> Path:
        return self._layout.staging_dir(self.title, self.run_id, stage_id, attempt)

    def _remove(self, folder: Path) -> None:
        try:
            durable_files.remove_durably(folder, below=self._layout.reports)
        except GyoshuError:
            return  # leftovers do no harm; prune and the next session try again
