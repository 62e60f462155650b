"""Where a run's notebook, identity and folders are found again, also after things were moved or lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gyoshu_ckpt.core.history import RunHistory
from gyoshu_ckpt.errors import Damaged, GyoshuError, UserMistake
from gyoshu_ckpt.settings import Settings
from gyoshu_ckpt.storage import durable_files
from gyoshu_ckpt.storage.layout import StoreLayout


def notebook_of(
    layout: StoreLayout, settings: Settings, title: str, run_id: str, history: RunHistory, notices: list[str]
) -> Path:
    """The notebook as it is now; the copy that the run keeps if it is gone."""
    path = from_portable(history.notebook, settings.root)
    if path is not None and path.is_file():
        return path
    for suffix in (".ipynb", ".py"):
        copy = layout.source_copy(title, run_id, suffix)
        if copy.is_file() and not copy.is_symlink():
            notices.append(f"{path or 'the notebook'} is gone: using the copy that the run keeps")
            return copy
    raise UserMistake(
        f"{path or 'the notebook'} of {title}/{run_id} is gone, and the run has no copy of it",
        next_step="put the notebook back, then gyoshu continue",
    )


def identity_of(layout: StoreLayout, title: str, run_id: str) -> dict[str, Any]:
    """What the run is of. Without it nobody knows the parameters, and guessing would compute something else."""
    try:
        with durable_files.open_regular(layout.identity(title, run_id), below=layout.reports) as file:
            identity = json.load(file)
    except (GyoshuError, OSError, ValueError, RecursionError):
        identity = None
    if not isinstance(identity, dict) or not isinstance(identity.get("parameters"), dict):
        raise Damaged(
            f"neither the journal nor run.json of {title}/{run_id} says which notebook and parameters it is of",
            next_step="start anew with gyoshu run NOTEBOOK; the run's artifacts stay where they are",
        )
    return identity


def keep_source(layout: StoreLayout, title: str, run_id: str, source: Path) -> None:
    """The run keeps a copy of the notebook that it really runs, for the day on which the notebook is gone."""
    copy = layout.source_copy(title, run_id, source.suffix)
    if not (copy.exists() and source.samefile(copy)):
        durable_files.write_durably(copy, source.read_bytes(), below=layout.reports)


def existing_folder(path: Path) -> Path:
    """``path`` if it is a folder; :class:`UserMistake` if not."""
    if not path.is_dir():
        raise UserMistake(
            f"the working directory {path} is not there", next_step="make that folder, then try again"
        )
    return path


def portable(path: Path, root: Path) -> str:
    """Relative to the root where it lies below it, so that a project folder can be moved as a whole."""
    path, root = path.resolve(), root.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def from_portable(text: str | None, root: Path) -> Path | None:
    """The inverse of :func:`portable`."""
    return root / text if text is not None else None
