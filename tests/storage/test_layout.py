"""Names are checked before they become paths; listings show what is ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gyoshu_ckpt.errors import BadName
from gyoshu_ckpt.storage.layout import StoreLayout

SHA = "ab" + "0" * 62


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout.at(tmp_path)


def test_the_paths_are_those_of_the_design(layout: StoreLayout) -> None:
    shown = layout.relative_to_root
    assert shown(layout.journal("t", "run-001")) == "reports/t/run-001/journal.jsonl"
    assert shown(layout.notebook("t", "run-001")) == "reports/t/run-001/notebook.ipynb"
    assert shown(layout.progress("t", "run-001")) == "reports/t/run-001/progress.md"
    assert shown(layout.source_copy("t", "run-001", ".py")) == "reports/t/run-001/source.py"
    assert shown(layout.artifact("t", "run-001", "S01_a/m/x.csv")) == "reports/t/run-001/S01_a/m/x.csv"
    assert shown(layout.staging_dir("t", "run-001", "S01_a", 2)) == "reports/t/run-001/.staging/S01_a.2"
    manifest = layout.manifest("t", "run-001", "ckpt-003")
    assert shown(manifest) == "reports/t/checkpoints/run-001/ckpt-003/checkpoint.json"
    assert shown(layout.object("t", SHA)) == f"reports/t/objects/ab/{SHA[2:]}"
    assert shown(layout.reports) == "reports"


ESCAPES = [
    "..",
    "../x",
    "/etc",
    "a/b",
    "a\0b",
    "",
    ".",
    ".hidden",
    "con",
    "NUL.txt",
    "x" * 300,
    "a\nb",
    "a\\b",
    "a:b",
]
ENTRANCES: dict[str, Callable[[StoreLayout, str], object]] = {
    "title": lambda layout, name: layout.title_dir(name),
    "title_lock": lambda layout, name: layout.title_lock(name),
    "objects": lambda layout, name: layout.objects_dir(name),
    "runs": lambda layout, name: layout.runs(name),
    "run": lambda layout, name: layout.run_dir("t", name),
    "run_lock": lambda layout, name: layout.run_lock("t", name),
    "holder": lambda layout, name: layout.lock_holder("t", name),
    "checkpoints_dir": lambda layout, name: layout.checkpoints_dir("t", name),
    "checkpoint": lambda layout, name: layout.checkpoint_dir("t", "run-001", name),
    "manifest": lambda layout, name: layout.manifest("t", "run-001", name),
    "object": lambda layout, name: layout.object("t", name),
    "stage": lambda layout, name: layout.staging_dir("t", "run-001", name, 1),
    "suffix": lambda layout, name: layout.source_copy("t", "run-001", name),
    "artifact": lambda layout, name: layout.artifact("t", "run-001", name),
    "artifact in its stage": lambda layout, name: layout.artifact("t", "run-001", f"S01_a/{name}/"),
}


@pytest.mark.parametrize("name", ESCAPES, ids=ascii)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_escapes_are_refused_at_every_entrance(layout: StoreLayout, entrance: str, name: str) -> None:
    with pytest.raises(BadName):
        ENTRANCES[entrance](layout, name)


@pytest.mark.parametrize("path", ["S01_a", "journal.jsonl", "run-001/x", "S01_a/", "S01_a//x", "S01_a/../x"])
def test_an_artifact_lies_in_a_stage(layout: StoreLayout, path: str) -> None:
    with pytest.raises(BadName):
        layout.artifact("t", "run-001", path)


def test_listings_are_in_order_and_hold_only_ours(layout: StoreLayout) -> None:
    folder = layout.title_dir("t")
    for name in ("run-002", "run-1000", "run-010", "run-x", "notes", "checkpoints/run-011"):
        (folder / name).mkdir(parents=True)
    (folder / "run-003").touch()
    (folder / "run-004").symlink_to(folder / "run-002")
    assert layout.runs("t") == ["run-002", "run-010", "run-011", "run-1000"]
    assert layout.next_run_id("t") == "run-1001"
    for name in ("ckpt-010", "ckpt-002", "ckpt-x", "run-001"):
        (layout.checkpoints_dir("t", "run-002") / name).mkdir(parents=True)
    assert layout.checkpoints("t", "run-002") == ["ckpt-002", "ckpt-010"]


def test_nothing_there_is_an_empty_listing(layout: StoreLayout) -> None:
    assert layout.titles() == []
    assert layout.runs("t") == []
    assert layout.checkpoints("t", "run-001") == []
    assert layout.next_run_id("t") == "run-001"


def test_titles_hold_runs(layout: StoreLayout) -> None:
    layout.run_dir("zeta", "run-001").mkdir(parents=True)
    layout.run_dir("alpha", "run-001").mkdir(parents=True)
    (layout.reports / "figures").mkdir()
    (layout.reports / "linked").symlink_to(layout.title_dir("zeta"))
    assert layout.titles() == ["alpha", "zeta"]


def test_a_linked_reports_folder_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "reports").symlink_to(tmp_path / "disk")
    assert StoreLayout.at(tmp_path / "root").reports == tmp_path / "disk"


def test_a_path_outside_has_no_relative_form(layout: StoreLayout, tmp_path: Path) -> None:
    with pytest.raises(BadName):
        layout.relative_to_root(tmp_path / "elsewhere")


def test_a_root_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadName):
        StoreLayout.at(Path("a\0b"))
