"""Pruning a title: runs in use are left alone, and then nothing is swept."""

from __future__ import annotations

from typing import Any

import pytest

from gyoshu_ckpt.errors import NoSuchRun, UserMistake
from gyoshu_ckpt.storage.pruning import prune_title
from gyoshu_ckpt.storage.run_lock import create_run, holder_of


@pytest.fixture
def two_runs(research: Any, research_at: Any) -> tuple[Any, Any]:
    for run in (research, other := research_at(research.root, run_id="run-002")):
        create_run(run.layout, run.title, command="test").release()
        for n in range(3):
            run.save({"n": run.run_id.encode() + bytes([n]), "shared": b"shared"})
    return research, other


def objects_of(research: Any) -> int:
    return sum(path.is_file() for path in research.layout.objects_dir(research.title).rglob("*"))


def test_checkpoints_go_then_objects(two_runs: tuple[Any, Any]) -> None:
    research, other = two_runs
    abandoned = research.layout.run_dir(research.title, research.run_id) / ".1.gyoshu-tmp"
    abandoned.touch()
    dry = prune_title(research.layout, research.title, 1, dry_run=True)
    assert objects_of(research) == 7
    assert abandoned.exists()
    result = prune_title(research.layout, research.title, 1)
    assert result == dry  # a dry run tells exactly what a wet one does
    assert result.swept is not None
    assert result.swept.count == 4
    assert result.not_swept_because is None
    assert {run_id: pruned.removed for run_id, pruned in result.runs.items()} == dict.fromkeys(
        ("run-001", "run-002"), ("ckpt-001", "ckpt-002")
    )
    assert objects_of(research) == 3
    assert not abandoned.exists()
    for run in (research, other):
        assert run.checkpoints.newest_valid().manifest.checkpoint_id == "ckpt-003"
    assert holder_of(research.layout, research.title, "run-001") is None


def test_a_run_in_use_is_left_alone_and_nothing_is_swept(two_runs: tuple[Any, Any]) -> None:
    research, _ = two_runs
    with create_run(research.layout, research.title, command="gyoshu run") as lock:
        research.put(b"fresh, and named by no manifest yet")
        result = prune_title(research.layout, research.title, 1)
        assert lock.run_id == "run-003"
    assert list(result.runs) == ["run-001", "run-002"]
    assert "gyoshu run" in result.in_use["run-003"]
    assert result.swept is None
    assert result.not_swept_because is not None
    assert "run-003" in result.not_swept_because
    assert objects_of(research) == 8
    assert prune_title(research.layout, research.title, 1).swept is not None
    assert objects_of(research) == 3


def test_a_newer_format_holds_all_objects(two_runs: tuple[Any, Any]) -> None:
    research, other = two_runs
    path = other.manifest_path("ckpt-001")
    path.write_bytes(path.read_bytes().replace(b'"schemaVersion":1', b'"schemaVersion":2'))
    result = prune_title(research.layout, research.title, 1)
    assert result.swept is None
    assert "newer gyoshu" in (result.not_swept_because or "")
    assert path.exists()
    assert objects_of(research) == 7


def test_what_cannot_be_pruned(research: Any) -> None:
    with pytest.raises(NoSuchRun):
        prune_title(research.layout, research.title, 1)
    with pytest.raises(UserMistake):
        prune_title(research.layout, research.title, 0)


def test_a_run_without_a_folder_is_pruned_too(research: Any) -> None:
    research.save()
    research.save()
    assert prune_title(research.layout, research.title, 1).runs["run-001"].removed == ("ckpt-001",)
