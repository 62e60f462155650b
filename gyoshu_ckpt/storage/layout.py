"""Where everything lies: the only module that knows paths.

::

    {root}/reports/{title}/
      .lock                                       the title lock
      {runId}/
        notebook.ipynb  journal.jsonl  progress.md  source.ipynb|source.py
        outputs/                                  long cell outputs, spooled
        {stageId}/{artifactName}                  visible artifacts
        .staging/{stageId}.{attempt}/             where a running attempt writes its files
        .lock  .holder.json                       the run lock, and who has it
      checkpoints/{runId}/{checkpointId}/checkpoint.json
      objects/{2 hex}/{62 hex}

Rules
1. Every name is validated through `core.ids` before it becomes part of a path.
2. ``reports`` is resolved once: a link at it or above it is the user's business. Below it none is followed.
3. Listings ignore names that are not ours, and links; a folder that is not there is an empty listing.

Not handled here: creating, reading or writing anything (`durable_files`, `no_follow`).
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import BadName
from gyoshu_ckpt.storage.no_follow import entries_below, parts_below
from gyoshu_ckpt.storage.os_faults import translate_os_errors

_SOURCE_SUFFIXES = (".ipynb", ".py")


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths of one store of plain files."""

    reports: Path

    @classmethod
    def at(cls, root: Path) -> StoreLayout:
        """The store below ``root``, which need not exist yet."""
        with translate_os_errors(f"find {root}", root, safe="nothing was changed"):
            try:
                return cls(reports=(root / "reports").resolve())
            except (RuntimeError, ValueError) as problem:  # a loop of links; a NUL
                raise BadName(f"{str(root)!a} cannot hold a store: {problem}") from None

    def title_dir(self, title: str) -> Path:
        """The folder of one report title."""
        return self.reports / ids.check_title(title)

    def title_lock(self, title: str) -> Path:
        """Held for moments: around creating a run, taking its lock, and sweeping."""
        return self.title_dir(title) / ".lock"

    def run_dir(self, title: str, run_id: str) -> Path:
        """The folder that people look into."""
        return self.title_dir(title) / ids.check_run_id(run_id)

    def run_lock(self, title: str, run_id: str) -> Path:
        """Held by the one writer of the run."""
        return self.run_dir(title, run_id) / ".lock"

    def lock_holder(self, title: str, run_id: str) -> Path:
        """Who has the run lock."""
        return self.run_dir(title, run_id) / ".holder.json"

    def journal(self, title: str, run_id: str) -> Path:
        """The story of the run."""
        return self.run_dir(title, run_id) / "journal.jsonl"

    def notebook(self, title: str, run_id: str) -> Path:
        """The executed notebook."""
        return self.run_dir(title, run_id) / "notebook.ipynb"

    def progress(self, title: str, run_id: str) -> Path:
        """The story for people."""
        return self.run_dir(title, run_id) / "progress.md"

    def source_copy(self, title: str, run_id: str, suffix: str) -> Path:
        """The notebook or script as it was when the run began."""
        if suffix not in _SOURCE_SUFFIXES:
            raise BadName(f"a source ends with {' or '.join(_SOURCE_SUFFIXES)}, not with {suffix!a}")
        return self.run_dir(title, run_id) / f"source{suffix}"

    def identity(self, title: str, run_id: str) -> Path:
        """What a run is of: notebook, parameters, kernel. The journal says it too, but a journal can be lost."""
        return self.run_dir(title, run_id) / "run.json"

    def outputs_dir(self, title: str, run_id: str) -> Path:
        """Long outputs of cells, spooled."""
        return self.run_dir(title, run_id) / "outputs"

    def staging_dir(self, title: str, run_id: str, stage_id: str, attempt: int) -> Path:
        """Where ``gy.artifact_path`` points while an attempt runs; hidden, because it is not a result yet."""
        if attempt < 0:
            raise BadName(f"{attempt} is not the number of an attempt")
        return self.run_dir(title, run_id) / ".staging" / f"{ids.check_stage_id(stage_id)}.{attempt}"

    def exchange_dir(self, title: str, run_id: str) -> Path:
        """Where supervisor and kernel hand each other requests and receipts."""
        return self.run_dir(title, run_id) / ".exchange"

    def artifact(self, title: str, run_id: str, relative_path: str) -> Path:
        """A visible artifact. It lies in its stage's folder, so it can never take the journal's place."""
        stage_id, _, inside = ids.check_relative_path(relative_path).partition("/")
        ids.check_stage_id(stage_id)
        if not inside:
            raise BadName(f"'{relative_path}' names the folder of a stage, not a file in it")
        return self.run_dir(title, run_id) / relative_path

    def checkpoints_dir(self, title: str, run_id: str) -> Path:
        """All checkpoints of a run."""
        return self.title_dir(title) / "checkpoints" / ids.check_run_id(run_id)

    def checkpoint_dir(self, title: str, run_id: str, checkpoint_id: str) -> Path:
        """One checkpoint."""
        return self.checkpoints_dir(title, run_id) / ids.check_checkpoint_id(checkpoint_id)

    def manifest(self, title: str, run_id: str, checkpoint_id: str) -> Path:
        """The commit record of a checkpoint."""
        return self.checkpoint_dir(title, run_id, checkpoint_id) / "checkpoint.json"

    def objects_dir(self, title: str) -> Path:
        """The objects that all runs of a title share."""
        return self.title_dir(title) / "objects"

    def object(self, title: str, sha256: str) -> Path:
        """One object."""
        digest = ids.check_sha256(sha256)
        return self.objects_dir(title) / digest[:2] / digest[2:]

    def titles(self) -> list[str]:
        """Report titles that hold at least one run; other folders below ``reports`` are not ours."""
        return [title for title in self._folders(self.reports, _is_title) if self.runs(title)]

    def runs(self, title: str) -> list[str]:
        """Runs that left a folder or checkpoints, in the order in which they were started."""
        folder = self.title_dir(title)
        found = {*self._folders(folder, _is_run), *self._folders(folder / "checkpoints", _is_run)}
        return sorted(found, key=_by_number)

    def checkpoints(self, title: str, run_id: str) -> list[str]:
        """Checkpoint ids of a run in order, whole or not."""
        return sorted(self._folders(self.checkpoints_dir(title, run_id), _is_checkpoint), key=_by_number)

    def next_run_id(self, title: str) -> str:
        """The id after the highest one in use. Hold the title lock until its folder is made."""
        runs = self.runs(title)
        return ids.run_id(ids.number_of(runs[-1]) + 1 if runs else 1)

    def relative_to_root(self, path: Path) -> str:
        """``reports/t/…`` with slashes, for markers and messages; the same wherever the store lies."""
        return "/".join(("reports", *parts_below(path, self.reports)))

    def _folders(self, folder: Path, is_ours: Callable[[str], bool]) -> list[str]:
        entries = entries_below(folder, below=self.reports)
        return [name for name, status in entries if stat.S_ISDIR(status.st_mode) and is_ours(name)]


def _is_title(name: str) -> bool:
    try:
        ids.check_title(name)
    except BadName:
        return False
    return True


def _is_run(name: str) -> bool:
    return ids.RUN_ID.fullmatch(name) is not None


def _is_checkpoint(name: str) -> bool:
    return ids.CHECKPOINT_ID.fullmatch(name) is not None


def _by_number(identifier: str) -> tuple[int, str]:
    return ids.number_of(identifier), identifier
