"""Visible artifacts: what a person finds below the run's folder, made from objects.

Rules
1. The object is the truth; a visible artifact is a view of it and can be made again at any time.
2. A visible file that differs was edited by somebody. It is left alone and named, unless the caller asks to
   overwrite what an earlier attempt left.
3. An object is verified before it is published, so that damage never gets a friendly name.

Not handled here: which artifacts a stage has (`core.manifest`), how the bytes get there (`durable_files`).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gyoshu_ckpt.core.manifest import Artifact, Manifest
from gyoshu_ckpt.storage.durable_files import publish, remove_durably, translate_os_errors
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.no_follow import Refused, open_or_refuse
from gyoshu_ckpt.storage.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class Published:
    """Relative paths of artifacts: made now, right already, and left alone because somebody changed them."""

    made: tuple[str, ...]
    unchanged: tuple[str, ...]
    left_alone: tuple[str, ...]


class _Visible(Enum):
    MISSING = "missing"
    SAME = "same"
    OTHER = "other"


def publish_artifacts(
    layout: StoreLayout, manifest: Manifest, *, stage_id: str | None = None, overwrite: bool = False
) -> Published:
    """Make artifacts visible where they are missing and, with ``overwrite``, where they differ.

    With ``stage_id``, only those of that stage: a commit need not look at what earlier stages published.
    """
    objects = ObjectStore(layout, manifest.report_title)
    made, unchanged, left_alone = [], [], []
    for artifact in manifest.artifacts:
        if stage_id is not None and artifact.stage_id != stage_id:
            continue
        target = layout.artifact(manifest.report_title, manifest.run_id, artifact.relative_path)
        visible = _look_at(target, artifact, layout.reports)
        if visible is _Visible.SAME:
            unchanged.append(artifact.relative_path)
        elif visible is _Visible.OTHER and not overwrite:
            left_alone.append(artifact.relative_path)
        else:
            objects.verify(artifact.sha256, artifact.size_bytes)
            if target.is_dir() and not target.is_symlink():  # a rename cannot put a file in place of a folder
                remove_durably(target, below=layout.reports)
            publish(layout.object(manifest.report_title, artifact.sha256), target, below=layout.reports)
            made.append(artifact.relative_path)
    return Published(tuple(made), tuple(unchanged), tuple(left_alone))


def _look_at(target: Path, artifact: Artifact, below: Path) -> _Visible:
    with translate_os_errors(f"read {target}", target, safe="nothing was changed"):
        try:
            file = open_or_refuse(target, below=below)
        except Refused as problem:
            return _Visible.MISSING if problem.missing else _Visible.OTHER
        with file:
            if os.fstat(file.fileno()).st_size != artifact.size_bytes:
                return _Visible.OTHER
            is_same = hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    return _Visible.SAME if is_same else _Visible.OTHER
