"""Visible artifacts come back when missing, and are left alone when somebody edited them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.errors import ObjectDamaged, StoreUnavailable
from gyoshu_ckpt.storage.artifacts import publish_artifacts

STAGE = "S01_load_data"
X, Y = f"{STAGE}/x.csv", f"{STAGE}/model/y.bin"


@pytest.fixture
def manifest(research: Any) -> Any:
    return research.save(artifacts={"x.csv": b"1,2", "model/y.bin": b"weights"})


def test_missing_ones_are_made(research: Any, manifest: Any) -> None:
    assert publish_artifacts(research.layout, manifest).made == (X, Y)
    research.visible("x.csv").unlink()
    result = publish_artifacts(research.layout, manifest)
    assert (result.made, result.unchanged, result.left_alone) == ((X,), (Y,), ())
    assert research.visible("x.csv").read_bytes() == b"1,2"
    assert research.visible("model/y.bin").read_bytes() == b"weights"


def test_only_those_of_one_stage(research: Any, manifest: Any) -> None:
    assert publish_artifacts(research.layout, manifest, stage_id="S02_eda").made == ()
    assert publish_artifacts(research.layout, manifest, stage_id=STAGE).made == (X, Y)


def _replace(path: Path, make: Any) -> None:
    path.unlink()
    make()


EDITS = {
    "same size": lambda path: path.write_bytes(b"9,9"),
    "other size": lambda path: path.write_bytes(b"1,2,3"),
    "folder": lambda path: _replace(path, lambda: (path.mkdir(), (path / "f").touch())),
    "fifo": lambda path: _replace(path, lambda: os.mkfifo(path)),
    "link": lambda path: _replace(path, lambda: path.symlink_to(path.parent)),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("edit", EDITS)
def test_edited_ones_are_left_alone_unless_asked(research: Any, manifest: Any, edit: str) -> None:
    publish_artifacts(research.layout, manifest)
    path = research.visible("x.csv")
    EDITS[edit](path)
    before = os.lstat(path)
    result = publish_artifacts(research.layout, manifest)
    assert (result.made, result.left_alone) == ((), (X,))
    assert os.lstat(path) == before
    assert publish_artifacts(research.layout, manifest, overwrite=True).made == (X,)
    assert path.read_bytes() == b"1,2"
    assert not path.is_symlink()


def test_a_damaged_object_gets_no_friendly_name(research: Any, manifest: Any) -> None:
    path = research.object_path(b"1,2")
    path.unlink()
    path.write_bytes(b"9,9")
    with pytest.raises(ObjectDamaged):
        publish_artifacts(research.layout, manifest)
    assert not research.visible("x.csv").exists()


def test_nothing_is_written_through_a_linked_folder(research: Any, manifest: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    research.visible("x.csv").parent.parent.mkdir(parents=True)
    research.visible("x.csv").parent.symlink_to(tmp_path / "outside")
    assert publish_artifacts(research.layout, manifest).left_alone == (X, Y)
    with pytest.raises(StoreUnavailable, match="is a symbolic link"):
        publish_artifacts(research.layout, manifest, overwrite=True)
    assert list((tmp_path / "outside").iterdir()) == []
