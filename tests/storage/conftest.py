"""A small store to save into, for all tests of `storage`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.manifest import Manifest, ManifestDraft
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore, StoredObject

STAGE = "S01_load_data"


class Research:
    """One run that saves plain bytes as variables and artifacts."""

    def __init__(self, root: Path, title: str = "quickstart", run_id: str = "run-001") -> None:
        self.root = root
        self.layout = StoreLayout.at(root)
        self.title = title
        self.run_id = run_id
        self.objects = ObjectStore(self.layout, title)

    @property
    def checkpoints(self) -> CheckpointStore:
        """A fresh instance each time, as after a crash: it has proven nothing yet."""
        return CheckpointStore(self.layout, self.title, self.run_id)

    def put(self, data: bytes) -> StoredObject:
        with self.objects.writer() as writer:
            writer.write(data)
            return writer.commit()

    def draft(
        self,
        variables: Mapping[str, bytes] | None = None,
        artifacts: Mapping[str, bytes] | None = None,
        **changes: Any,
    ) -> ManifestDraft:
        sequence = changes.pop("sequence", None) or self.checkpoints.next_sequence()

        def stored(data: bytes) -> dict[str, Any]:
            one = self.put(data)
            return {
                "codec": "bytes",
                "codec_version": 1,
                "trust": "data",
                "sha256": one.sha256,
                "size_bytes": one.size_bytes,
            }

        fields: dict[str, Any] = {
            "checkpoint_id": ids.checkpoint_id(sequence),
            "research_session_id": "session",
            "report_title": self.title,
            "run_id": self.run_id,
            "stage_id": STAGE,
            "attempt": 1,
            "sequence": sequence,
            "parent": None,
            "created_at": "2026-03-01T10:00:00+00:00",
            "execution_count": 3,
            "status": "saved",
            "notebook": {"path": "reports/notebook.ipynb", "checkpoint_cell_id": "c"},
            "python_env": {
                "python_path": "/usr/bin/python3",
                "version": "3.11.7",
                "packages": {},
                "platform": "linux",
                "kernel_name": "python3",
            },
            "fingerprint": {"setup": "a", "params": "b", "stages": {STAGE: "c"}},
            "artifacts": tuple(
                {
                    "name": Path(name).name,
                    "stage_id": STAGE,
                    "relative_path": f"{STAGE}/{name}",
                    "media_type": "text/plain",
                    **stored(data),
                }
                for name, data in (artifacts or {}).items()
            ),
            "variables": tuple({"name": name, **stored(data)} for name, data in (variables or {}).items()),
            "rehydration": {"mode": "with_vars"},
        }
        return ManifestDraft.model_validate(fields | changes, strict=False)

    def save(
        self,
        variables: Mapping[str, bytes] | None = None,
        artifacts: Mapping[str, bytes] | None = None,
        **changes: Any,
    ) -> Manifest:
        return self.checkpoints.commit(self.draft(variables, artifacts, **changes))

    def incident(self, **changes: Any) -> Manifest:
        changes = {"status": "emergency", "reason": "watchdog_timeout"} | changes
        return self.checkpoints.write_emergency(self.draft(**changes))

    def manifest_path(self, checkpoint_id: str) -> Path:
        return self.layout.manifest(self.title, self.run_id, checkpoint_id)

    def object_path(self, data: bytes) -> Path:
        return self.layout.object(self.title, self.put(data).sha256)

    def visible(self, name: str) -> Path:
        return self.layout.artifact(self.title, self.run_id, f"{STAGE}/{name}")

    def leftovers(self) -> list[Path]:
        return list(self.layout.reports.rglob("*.gyoshu-tmp"))


@pytest.fixture
def research(tmp_path: Path) -> Research:
    return Research(tmp_path)


@pytest.fixture(scope="session")
def research_at() -> type[Research]:
    """For a store that lies somewhere else than in ``tmp_path``."""
    return Research
