"""The executed notebook is valid nbformat 4.5 after every step, whatever the cells do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from gyoshu_ckpt.notebook.executed import CHECKPOINT_TAG, REHYDRATION_TAG, ExecutedNotebook, read_executed


def source(*ids: str) -> dict[str, Any]:
    cells = [
        {
            "cell_type": "code",
            "id": one,
            "metadata": {},
            "source": one,
            "outputs": [],
            "execution_count": None,
        }
        for one in ids
    ]
    head = {"cell_type": "markdown", "id": "head", "metadata": {}, "source": '# "cells": [] in a title'}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"note": '"cells": []'},
        "cells": [head, *cells],
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


def make(store: Path, *ids: str, clock: Any = None) -> ExecutedNotebook:
    keywords = {"clock": clock} if clock else {}
    return ExecutedNotebook(
        source(*ids), store / "notebook.ipynb", below=store, outputs_dir=store / "outputs", **keywords
    )


def on_disk(store: Path) -> Any:
    notebook = nbformat.read(store / "notebook.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    return notebook


def test_valid_after_every_step_with_outputs_counts_and_tags(store: Path) -> None:
    notebook = make(store, "a", "b")
    notebook.save()
    on_disk(store)
    notebook.begin("a")
    notebook.stream("stdout", "hello\n")
    notebook.rich("execute_result", {"data": {"text/plain": "1"}, "metadata": {}, "execution_count": 1})
    notebook.save()
    assert on_disk(store).cells[1].outputs[0].text == "hello\n"
    notebook.finish(1)
    notebook.add_checkpoint("a", "gyoshu-ckpt-001", ["**ckpt-001**", "", "`[CHECKPOINT:saved:id=ckpt-001]`"])
    notebook.begin("b")
    notebook.rich("error", {"ename": "E", "evalue": "v", "traceback": ["t"]})
    notebook.stream("stderr", "lone \ud800 surrogate \x1b[31m")
    notebook.finish(2)
    notebook.save()
    cells = on_disk(store).cells
    assert [cell.id for cell in cells] == ["head", "a", "gyoshu-ckpt-001", "b"]
    assert cells[2].metadata.tags == [CHECKPOINT_TAG]
    assert [cells[1].execution_count, cells[3].execution_count] == [1, 2]
    assert cells[3].outputs[0].ename == "E"


def test_a_display_updated_from_a_later_cell(store: Path) -> None:
    notebook = make(store, "a", "b")
    notebook.begin("a")
    content = {"data": {"text/plain": "1"}, "metadata": {}, "transient": {"display_id": "x"}}
    notebook.rich("display_data", content)
    notebook.finish(1)
    notebook.begin("b")
    notebook.rich("update_display_data", content | {"data": {"text/plain": "2"}})
    notebook.finish(2)
    notebook.save()
    assert on_disk(store).cells[1].outputs[0].data["text/plain"] == "2"


def test_a_resume_takes_over_finished_cells_and_shows_the_rehydration(store: Path) -> None:
    first = make(store, "a", "b")
    for number, cell_id in enumerate(("a", "b"), 1):
        first.begin(cell_id)
        first.stream("stdout", cell_id * 3)
        first.finish(number)
        first.add_checkpoint(cell_id, f"gyoshu-ckpt-00{number}", ["x"])
    first.save()
    earlier = read_executed(store / "notebook.ipynb", below=store)
    assert earlier is not None
    second = make(store, "a", "b")
    second.take_over(earlier, "b")
    second.add_rehydration("b", "gyoshu-rehydrate-1", "x = 1")
    second.save()
    cells = on_disk(store).cells
    assert [cell.id for cell in cells] == ["head", "a", "gyoshu-ckpt-001", "gyoshu-rehydrate-1", "b"]
    assert cells[1].outputs[0].text == "aaa"
    assert cells[3].metadata.tags == [REHYDRATION_TAG]
    assert cells[4].outputs == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [{"id": 1}]}'])
def test_an_unreadable_notebook_is_none_not_a_crash(store: Path, text: str) -> None:
    (store / "notebook.ipynb").write_text(text)
    assert read_executed(store / "notebook.ipynb", below=store) is None
    (store / "notebook.ipynb").unlink()
    assert read_executed(store / "notebook.ipynb", below=store) is None


def test_saves_between_checkpoints_are_spaced_by_what_they_cost(store: Path) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0  # every look at the clock costs a second, so a save takes one
        return now[0]

    notebook = make(store, "a", clock=clock)
    notebook.save()
    written = (store / "notebook.ipynb").stat().st_mtime_ns
    notebook.begin("a")
    notebook.stream("stdout", "x")
    notebook.save_if_cheap()
    assert (store / "notebook.ipynb").stat().st_mtime_ns == written
    now[0] += 20.0
    notebook.save_if_cheap()
    assert json.loads((store / "notebook.ipynb").read_text())["cells"][1]["outputs"]
    now[0] += 20.0
    written = (store / "notebook.ipynb").stat().st_mtime_ns
    notebook.save_if_cheap()  # nothing is new
    assert (store / "notebook.ipynb").stat().st_mtime_ns == written
