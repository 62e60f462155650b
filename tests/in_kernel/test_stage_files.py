"""``gy.artifact_path``: the right folder, under a supervisor and without one; nothing that escapes."""

from __future__ import annotations

from pathlib import Path

import pytest

import gyoshu_ckpt as gy
from gyoshu_ckpt.errors import BadName, UserMistake
from gyoshu_ckpt.in_kernel.exchange import VARIABLE, Exchange, RunPlace, StagePlace
from gyoshu_ckpt.storage.layout import StoreLayout


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Exchange, StoreLayout]:
    layout = StoreLayout.at(tmp_path)
    folder = layout.exchange_dir("study", "run-001")
    folder.mkdir(parents=True)
    exchange = Exchange(folder)
    exchange.write_run(RunPlace(str(layout.reports), "study", "run-001"))
    monkeypatch.setenv(VARIABLE, str(folder))
    return exchange, layout


def test_without_a_supervisor_the_notebook_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    gy.artifact_path("a.csv").write_text("x")
    assert (tmp_path / "gyoshu-artifacts" / "a.csv").read_text() == "x"
    assert gy.artifact_path("a.csv", stage="S01_a").read_text() == "x"
    (gy.artifact_path("plots/") / "one.txt").write_text("1")


def test_under_a_supervisor_it_is_the_staging_folder_of_the_attempt(
    supervised: tuple[Exchange, StoreLayout],
) -> None:
    exchange, layout = supervised
    with pytest.raises(UserMistake, match="a setup cell has no artifacts"):
        gy.artifact_path("a.csv")
    staging = layout.staging_dir("study", "run-001", "S01_a", 2)
    staging.mkdir(parents=True)
    exchange.write_stage(StagePlace("S01_a", 2), staging)
    assert gy.artifact_path("a.csv") == staging / "a.csv"
    assert gy.artifact_path("plots/") == staging / "plots"
    assert (staging / "plots").is_dir()
    assert exchange.artifacts.readlink() == staging
    exchange.write_stage(StagePlace("S02_b", 1), layout.staging_dir("study", "run-001", "S02_b", 1))
    assert gy.artifact_path("a.csv", stage="S01_a") == layout.run_dir("study", "run-001") / "S01_a" / "a.csv"


@pytest.mark.parametrize(
    "name", ["../a", "/etc/passwd", "a/../../b", "", ".", "..", "a\0b", "nul", "x" * 200, "a:b"]
)
def test_names_that_escape_are_refused(supervised: tuple[Exchange, StoreLayout], name: str) -> None:
    exchange, layout = supervised
    exchange.write_stage(StagePlace("S01_a", 1), layout.staging_dir("study", "run-001", "S01_a", 1))
    with pytest.raises(BadName):
        gy.artifact_path(name)
    with pytest.raises(BadName):
        gy.artifact_path("a", stage=name)


def test_a_receipt_of_an_earlier_request_is_never_mistaken(supervised: tuple[Exchange, StoreLayout]) -> None:
    exchange, _ = supervised
    exchange.write_request("first")
    exchange.write_receipt("answer to the first")
    exchange.write_request("second")
    with pytest.raises(FileNotFoundError):
        exchange.read_receipt()
