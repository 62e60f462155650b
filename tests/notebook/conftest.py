"""Notebooks to slice, written down as lists of cells."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteNotebook = Callable[..., Path]


def code(source: str, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def as_cell(cell: str | dict[str, Any]) -> dict[str, Any]:
    """A text is a code cell; one that begins with ``md:`` is markdown."""
    if isinstance(cell, dict):
        return cell
    if cell.startswith("md:"):
        return {"cell_type": "markdown", "metadata": {}, "source": cell.removeprefix("md:")}
    return code(cell)


@pytest.fixture
def write_notebook(tmp_path: Path) -> WriteNotebook:
    def write(*cells: str | dict[str, Any], name: str = "analysis.ipynb", **metadata: Any) -> Path:
        document = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        document["cells"] = [{"id": f"c{n}", **as_cell(cell)} for n, cell in enumerate(cells, 1)]
        path = tmp_path / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write


@pytest.fixture
def code_cell() -> Callable[..., dict[str, Any]]:
    return code
