"""The program that `test_crash_points` kills: one save, one prune or one resume in a store that exists.

Deterministic, so that the n-th system call of one run is the n-th of every other. Not a test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gyoshu_ckpt.core.manifest import ManifestDraft
from gyoshu_ckpt.storage import durable_files
from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.journal import JournalWriter
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore
from gyoshu_ckpt.storage.pruning import prune_title
from gyoshu_ckpt.storage.run_lock import lock_run

TITLE, RUN, STAGE = "crash", "run-001", "S01_load_data"


def content(sequence: int) -> dict[str, bytes]:
    """The artifacts of a checkpoint: one small enough to copy, one that becomes a hard link."""
    return {"small.csv": b"small %d" % sequence, "large.bin": b"large %d" % sequence * 1000}


def draft(layout: StoreLayout, sequence: int, status: str = "saved") -> ManifestDraft:
    objects = ObjectStore(layout, TITLE)
    artifacts = []
    for name, data in content(sequence).items() if status == "saved" else ():
        with objects.writer() as writer:
            writer.write(data)
            stored = writer.commit()
        artifacts.append(
            {
                "name": name,
                "stageId": STAGE,
                "relativePath": f"{STAGE}/{name}",
                "mediaType": "text/plain",
                "codec": "bytes",
                "codecVersion": 1,
                "trust": "data",
                "sha256": stored.sha256,
                "sizeBytes": stored.size_bytes,
            }
        )
    document = {
        "checkpointId": f"ckpt-{sequence:03d}",
        "researchSessionID": "crash",
        "reportTitle": TITLE,
        "runId": RUN,
        "stageId": STAGE,
        "attempt": 1,
        "sequence": sequence,
        "parent": None,
        "createdAt": "2026-03-01T10:00:00+00:00",
        "executionCount": sequence,
        "status": status,
        "reason": None if status == "saved" else "kernel_died",
        "notebook": {"path": "reports/notebook.ipynb", "checkpointCellId": "c"},
        "pythonEnv": {
            "pythonPath": "p",
            "version": "3",
            "packages": {},
            "platform": "l",
            "kernelName": "python3",
        },
        "fingerprint": {"setup": "a", "params": "b", "stages": {STAGE: "c"}},
        "artifacts": artifacts,
        "rehydration": {"mode": "artifacts_only"},
    }
    return ManifestDraft.model_validate(document, strict=False)


def save(layout: StoreLayout) -> None:
    """What the supervisor does when a stage has ended."""
    store = CheckpointStore(layout, TITLE, RUN)
    manifest = store.commit(draft(layout, store.next_sequence()))
    publish_artifacts(layout, manifest, overwrite=True)
    journal(layout, "checkpoint_saved")


def prune(layout: StoreLayout) -> None:
    """What ``gyoshu prune --keep-last 1`` does."""
    prune_title(layout, TITLE, 1)


def resume(layout: StoreLayout) -> None:
    """What ``gyoshu continue`` does in the store: find, restore what is visible, tell, record an incident."""
    with lock_run(layout, TITLE, RUN, command="gyoshu continue"):
        store = CheckpointStore(layout, TITLE, RUN)
        found = store.newest_valid()
        assert found.manifest is not None
        publish_artifacts(layout, found.manifest)
        journal(layout, "resumed")
        store.write_emergency(draft(layout, store.next_sequence(), "emergency"))
        durable_files.replace_quickly(layout.progress(TITLE, RUN), b"# progress\n", below=layout.reports)


def journal(layout: StoreLayout, event: str) -> None:
    with JournalWriter(layout.journal(TITLE, RUN), layout.reports) as writer:
        writer.append(event, {})


if __name__ == "__main__":
    durable_files.SMALL_ENOUGH_TO_COPY = 1000  # so that both ways of publishing are met
    {"save": save, "prune": prune, "resume": resume}[sys.argv[1]](StoreLayout.at(Path(sys.argv[2])))
