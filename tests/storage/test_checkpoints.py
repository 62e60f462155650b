"""Commit, load, find the newest valid one, prune."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.core.manifest import seal
from gyoshu_ckpt.core.resume import Skipped
from gyoshu_ckpt.errors import (
    BadName,
    Damaged,
    InternalBug,
    ManifestDamaged,
    NewerFormat,
    NoSuchRun,
    ObjectDamaged,
    StoreUnavailable,
)
from gyoshu_ckpt.storage import checkpoints as checkpoints_module
from gyoshu_ckpt.storage.checkpoints import CheckpointStore, referenced_objects
from gyoshu_ckpt.storage.layout import StoreLayout


def found(research: Any) -> str | None:
    manifest = research.checkpoints.newest_valid().manifest
    return manifest.checkpoint_id if manifest else None


def test_a_commit_can_be_loaded(research: Any) -> None:
    manifest = research.save({"df": b"frame"}, {"scores.csv": b"a,b"})
    assert research.checkpoints.load("ckpt-001") == manifest
    assert research.checkpoints.newest_valid().manifest == manifest
    assert research.checkpoints.newest_valid().skipped == ()
    assert research.checkpoints.verify("ckpt-001") == []
    assert research.manifest_path("ckpt-001").stat().st_mode & 0o777 == 0o600


def test_nothing_saved_yet(research: Any) -> None:
    assert found(research) is None
    assert research.checkpoints.next_sequence() == 1
    assert research.checkpoints.next_sequence(after=7) == 8
    assert research.checkpoints.entries() == []
    with pytest.raises(NoSuchRun):
        research.checkpoints.load("ckpt-001")
    with pytest.raises(NoSuchRun):
        research.checkpoints.verify("ckpt-001")


def test_numbers_go_on_after_what_is_there(research: Any) -> None:
    research.save()
    research.layout.checkpoint_dir(research.title, research.run_id, "ckpt-041").mkdir()
    assert research.checkpoints.next_sequence() == 42


@pytest.mark.parametrize("how", ["missing", "altered", "shorter"])
def test_save_refuses_objects_that_it_cannot_read_back(research: Any, how: str) -> None:
    research.save({"df": b"old"})
    draft = research.draft({"df": b"new frame"})
    path = research.object_path(b"new frame")
    path.unlink()
    if how != "missing":
        path.write_bytes({"altered": b"NEW FRAME", "shorter": b"new"}[how])
    with pytest.raises(ObjectDamaged, match="ckpt-002 was not saved: object"):
        research.checkpoints.commit(draft)
    assert research.layout.checkpoints(research.title, research.run_id) == ["ckpt-001"]


def test_one_object_with_two_sizes_is_refused(research: Any) -> None:
    draft = research.draft({"a": b"same", "b": b"same"})
    first = draft.variables[0].model_copy(update={"size_bytes": 99})
    with pytest.raises(ObjectDamaged, match="is 4 bytes, not 99"):
        research.checkpoints.commit(draft.model_copy(update={"variables": (first, draft.variables[1])}))


def test_save_refuses_a_manifest_that_reads_back_as_something_else(
    research: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    research.save()
    other = seal(research.draft(sequence=2, execution_count=99))[1]
    real = checkpoints_module.write_durably
    draft = research.draft(sequence=2)
    for data, error in ((other, ManifestDamaged), (other[:-1], ManifestDamaged)):
        monkeypatch.setattr(
            checkpoints_module,
            "write_durably",
            lambda path, _, below, data=data: real(path, data, below=below),
        )
        with pytest.raises(error):
            research.checkpoints.commit(draft)
        assert research.layout.checkpoints(research.title, research.run_id) == ["ckpt-001"]


def test_objects_are_read_back_once_per_instance(research: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = research.checkpoints
    drafts = [research.draft({"df": b"frame", "n": bytes([n])}, sequence=n) for n in (1, 2)]
    read: list[str] = []
    real = checkpoints_module.ObjectStore.verify
    monkeypatch.setattr(
        checkpoints_module.ObjectStore,
        "verify",
        lambda self, sha, size: (read.append(sha), real(self, sha, size))[1],
    )
    for draft in drafts:
        store.commit(draft)
    assert len(read) == 3
    assert store.verify("ckpt-002") == []
    assert len(read) == 5  # a person who asks gets a real answer


def test_a_number_is_never_used_twice(research: Any) -> None:
    research.save()
    with pytest.raises(InternalBug, match="never used twice"):
        research.save(sequence=1)
    assert research.checkpoints.verify("ckpt-001") == []


def test_a_draft_of_another_run_is_our_bug(research: Any) -> None:
    with pytest.raises(InternalBug):
        research.save(run_id="run-002")
    with pytest.raises(InternalBug):
        research.save(report_title="other")


def test_an_incident_is_no_place_to_resume_from(research: Any) -> None:
    research.save()
    research.incident()
    research.incident(status="interrupted", reason="manual_abort")
    result = research.checkpoints.newest_valid()
    assert result.manifest.checkpoint_id == "ckpt-001"
    assert result.skipped == ()
    with pytest.raises(InternalBug):
        research.checkpoints.write_emergency(research.draft())


def test_an_incident_needs_no_objects(research: Any) -> None:
    draft = research.draft({"df": b"lost"}, status="emergency", reason="kernel_died")
    research.object_path(b"lost").unlink()
    research.checkpoints.write_emergency(draft)
    assert len(research.checkpoints.verify("ckpt-001")) == 1


def test_the_caller_may_know_why_one_does_not_stand(research: Any) -> None:
    research.save()
    research.save()
    result = research.checkpoints.newest_valid(lambda m: "S01 was edited" if m.sequence == 2 else None)
    assert result.manifest.checkpoint_id == "ckpt-001"
    assert result.skipped == (Skipped("ckpt-002", "S01 was edited"),)


def test_a_manifest_is_believed_only_where_it_lies(research: Any) -> None:
    research.save()
    folder = research.layout.checkpoint_dir(research.title, research.run_id, "ckpt-001")
    for other in (
        research.layout.checkpoint_dir(research.title, research.run_id, "ckpt-002"),
        research.layout.checkpoint_dir(research.title, "run-002", "ckpt-001"),
        research.layout.checkpoint_dir("other", research.run_id, "ckpt-001"),
    ):
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder, other)
    for title, run_id, checkpoint_id in (
        (research.title, research.run_id, "ckpt-002"),
        (research.title, "run-002", "ckpt-001"),
        ("other", research.run_id, "ckpt-001"),
    ):
        with pytest.raises(ManifestDamaged, match="belongs to quickstart run-001 ckpt-001"):
            CheckpointStore(research.layout, title, run_id).load(checkpoint_id)
    assert found(research) == "ckpt-001"


def test_a_save_that_was_cut_short_is_passed_over(research: Any) -> None:
    research.save()
    research.layout.checkpoint_dir(research.title, research.run_id, "ckpt-002").mkdir()
    assert found(research) == "ckpt-001"
    entries = research.checkpoints.entries()
    assert [(entry.checkpoint_id, entry.manifest is None) for entry in entries] == [
        ("ckpt-001", False),
        ("ckpt-002", True),
    ]
    assert entries[1].problem == "the manifest of ckpt-002 is missing"
    assert research.save().checkpoint_id == "ckpt-003"


def test_an_oversized_manifest_is_refused_without_reading_it_all(
    research: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    research.save()
    monkeypatch.setattr(checkpoints_module, "LARGEST_MANIFEST", 100)
    with pytest.raises(ManifestDamaged, match="larger than 100 bytes"):
        research.checkpoints.load("ckpt-001")


def failing_open(code: int, name: str) -> Any:
    real = os.open

    def fail(path: Any, *args: Any, **options: Any) -> int:
        if path == name and options.get("dir_fd") is not None:
            raise OSError(code, os.strerror(code))
        return real(path, *args, **options)

    return fail


def test_a_bad_sector_is_passed_over_but_a_missing_right_stops(
    research: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    research.save({"df": b"old"})
    research.save({"df": b"new"})
    name = research.object_path(b"new").name
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_open(errno.EIO, name))
        assert found(research) == "ckpt-001"
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_open(errno.EACCES, name))
        with pytest.raises(StoreUnavailable, match="permission"):
            research.checkpoints.newest_valid()


def newer(research: Any, checkpoint_id: str) -> None:
    path = research.manifest_path(checkpoint_id)
    data = path.read_bytes().replace(b'"schemaVersion":1', b'"schemaVersion":2')
    path.write_bytes(data)


def test_a_newer_format_is_passed_over_kept_and_holds_the_sweep(research: Any) -> None:
    research.save({"a": b"1"})
    research.save({"a": b"2"})
    research.save({"a": b"3"})
    newer(research, "ckpt-002")
    with pytest.raises(NewerFormat, match="newer gyoshu"):
        research.checkpoints.load("ckpt-002")
    assert research.checkpoints.prune(1).removed == ("ckpt-001",)
    with pytest.raises(StoreUnavailable, match=r"run-001: .* newer gyoshu"):
        referenced_objects(research.layout, research.title)


def test_prune_keeps_what_can_be_resumed_from(research: Any) -> None:
    for n in range(4):
        research.save({"n": bytes([n])})
    research.incident()
    research.object_path(bytes([3])).unlink()  # the newest saved one is damaged
    dry = research.checkpoints.prune(1, dry_run=True)
    assert dry.removed == ("ckpt-001", "ckpt-002", "ckpt-004")
    assert len(research.checkpoints.entries()) == 5
    assert research.checkpoints.prune(1) == dry
    assert (
        research.layout.checkpoints(research.title, research.run_id)
        == list(dry.kept)
        == ["ckpt-003", "ckpt-005"]
    )
    assert found(research) == "ckpt-003"


def test_references_are_those_of_all_runs(research: Any, research_at: Any) -> None:
    other = research_at(research.root, run_id="run-002")
    shas = {research.save({"a": b"1"}).variables[0].sha256, other.save({"a": b"2"}).variables[0].sha256}
    damaged = research.save({"a": b"3"})
    research.manifest_path(damaged.checkpoint_id).write_bytes(b"{}")
    assert referenced_objects(research.layout, research.title) == shas
    assert referenced_objects(research.layout, research.title, {"run-002": ("ckpt-001",)}) < shas


def test_a_manifest_out_of_reach_stops_the_sweep(research: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    research.save({"a": b"1"})
    monkeypatch.setattr(os, "open", failing_open(errno.EACCES, "checkpoint.json"))
    with pytest.raises(StoreUnavailable):
        referenced_objects(research.layout, research.title)


def test_names_are_checked(research: Any) -> None:
    with pytest.raises(BadName):
        CheckpointStore(research.layout, "..", "run-001")
    with pytest.raises(BadName):
        CheckpointStore(research.layout, "t", "../run-001")
    with pytest.raises(BadName):
        research.checkpoints.load("../ckpt-001")
    with pytest.raises(BadName):
        research.checkpoints.verify("/etc")


def test_readers_do_not_mind_a_prune_at_the_same_time(research: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    research.save()
    monkeypatch.setattr(StoreLayout, "checkpoints", lambda self, title, run_id: ["ckpt-001", "ckpt-002"])
    assert [entry.checkpoint_id for entry in research.checkpoints.entries()] == ["ckpt-001"]
    assert found(research) == "ckpt-001"
    assert research.checkpoints.newest_valid().skipped == ()


def test_the_random_state_is_an_object_too(research: Any) -> None:
    draft = research.draft({"a": b"state"})
    env = draft.python_env.model_copy(update={"random_state": draft.variables[0]})
    draft = research.draft().model_copy(update={"python_env": env})
    research.checkpoints.commit(draft)
    research.object_path(b"state").unlink()
    assert found(research) is None
    assert research.checkpoints.verify("ckpt-001")[0].endswith("is missing")


def test_a_failure_after_the_rename_takes_the_checkpoint_back(
    research: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    research.save()
    draft = research.draft()
    monkeypatch.setattr(
        CheckpointStore, "load", lambda self, checkpoint_id: (_ for _ in ()).throw(Damaged("no"))
    )
    with pytest.raises(Damaged):
        research.checkpoints.commit(draft)
    assert research.layout.checkpoints(research.title, research.run_id) == ["ckpt-001"]


def test_a_linked_checkpoint_folder_is_not_part_of_the_store(research: Any, tmp_path: Path) -> None:
    research.save()
    research.save()
    folder = research.layout.checkpoint_dir(research.title, research.run_id, "ckpt-002")
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert found(research) == "ckpt-001"
    with pytest.raises(NoSuchRun):
        research.checkpoints.load("ckpt-002")
