"""Saving on request and loading again, in one process: receipts tell what happened, and only objects are written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gyoshu_ckpt.core.save_protocol import Receipt, SaveRequest, WantedOutput
from gyoshu_ckpt.errors import ObjectDamaged, StoreUnavailable, UserMistake
from gyoshu_ckpt.in_kernel import environment, restoring
from gyoshu_ckpt.in_kernel.exchange import VARIABLE, Exchange, RunPlace
from gyoshu_ckpt.in_kernel.recorder import Recorder, answer_save_request
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout.at(tmp_path)


@pytest.fixture
def kernel(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> Exchange:
    folder = layout.exchange_dir("study", "run-001")
    folder.mkdir(parents=True)
    exchange = Exchange(folder)
    exchange.write_run(RunPlace(str(layout.reports), "study", "run-001"))
    monkeypatch.setenv(VARIABLE, str(folder))
    return exchange


def request(
    *outputs: WantedOutput, variables: tuple[str, ...] = (), optional: tuple[str, ...] = ()
) -> SaveRequest:
    return SaveRequest("S01_a", 1, outputs, variables, optional, frozenset())


def save(layout: StoreLayout, wanted: SaveRequest, namespace: dict[str, Any]) -> Receipt:
    staging = layout.staging_dir("study", "run-001", "S01_a", 1)
    return Recorder(ObjectStore(layout, "study"), staging, namespace).save(wanted)


def load(saved: Any) -> Any:
    return restoring.load(
        saved.name,
        codec=saved.codec,
        version=saved.codec_version,
        sha256=saved.sha256,
        size_bytes=saved.size_bytes,
    )


def test_an_output_that_is_a_variable_too_is_stored_once(layout: StoreLayout, kernel: Exchange) -> None:
    receipt = save(layout, request(WantedOutput("x", "variable"), variables=("x",)), {"x": [1, 2]})
    assert receipt.artifacts[0].sha256 == receipt.variables[0].sha256
    assert receipt.artifacts[0].file_name == "x.json"
    assert load(receipt.variables[0]) == [1, 2]


def test_receipts_and_requests_survive_the_journey(layout: StoreLayout, kernel: Exchange) -> None:
    wanted = request(WantedOutput("x", "variable", "x.npy"), variables=("y",))
    assert SaveRequest.from_json(wanted.to_json()) == wanted
    receipt = save(layout, wanted, {"x": np.arange(3), "y": "text"})
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_what_cannot_be_saved_is_told_where_it_is_needed_and_passed_over_where_not(
    layout: StoreLayout, kernel: Exchange
) -> None:
    namespace = {"lazy": (n for n in []), "gone": 1}
    receipt = save(layout, request(variables=("lazy", "deleted")), namespace)
    assert [missed.name for missed in receipt.not_saved] == ["lazy"]
    assert "generator" in receipt.not_saved[0].type_name
    assert receipt.not_saved[0].way_out
    receipt = save(layout, request(optional=("lazy", "gone")), namespace)
    assert receipt.not_saved == ()
    assert [one.name for one in receipt.variables] == ["gone"]


def test_a_store_that_refuses_is_told_in_the_receipt(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(ObjectStore, "writer", refuse)
    assert save(layout, request(variables=("x",)), {"x": 1}).fault == "the disk is full"
    files = Recorder(ObjectStore(layout, "study"), layout.staging_dir("study", "run-001", "S01_a", 1), {})
    path = layout.staging_dir("study", "run-001", "S01_a", 1)
    path.mkdir(parents=True)
    (path / "a.txt").write_text("x")
    assert files.save_files(request(WantedOutput("a.txt", "file"))).fault == "the disk is full"


def test_the_random_state_comes_back(layout: StoreLayout, kernel: Exchange) -> None:
    random.seed(5)
    np.random.seed(5)
    receipt = save(layout, request(), {})
    expected = (random.random(), np.random.random())
    random.seed(0)
    np.random.seed(0)
    state = receipt.random_state
    assert state is not None
    restoring.restore_random_state(
        codec=state.codec, version=state.codec_version, sha256=state.sha256, size_bytes=state.size_bytes
    )
    assert (random.random(), np.random.random()) == expected


def test_a_damaged_object_is_never_decoded(layout: StoreLayout, kernel: Exchange) -> None:
    saved = save(layout, request(variables=("x",)), {"x": [1]}).variables[0]
    path = layout.object("study", saved.sha256)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ObjectDamaged, match="other content"):
        load(saved)


def test_the_one_call_of_the_supervisor(
    layout: StoreLayout, kernel: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    monkeypatch.setattr(__main__, "in_the_notebook", 42, raising=False)
    kernel.write_request(request(variables=("in_the_notebook",)).to_json())
    answer_save_request()
    receipt = Receipt.from_json(kernel.read_receipt())
    assert load(receipt.variables[0]) == 42
    assert receipt.packages["numpy"] == np.__version__
    assert receipt.python_version.startswith("3.")


def test_outside_a_supervised_kernel_both_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UserMistake, match="not started by gyoshu"):
        answer_save_request()
    with pytest.raises(UserMistake, match="gyoshu runs"):
        restoring.load("x", codec="json", version=1, sha256="0" * 64, size_bytes=1)


def test_packages_in_use_are_top_level_and_versioned() -> None:
    versions = environment.packages_in_use()
    assert versions["numpy"] == np.__version__
    assert not any("." in name or name.startswith("_") for name in versions)
