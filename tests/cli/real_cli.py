"""The real command in a subprocess, with a real kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

QUICKSTART = Path(__file__).resolve().parents[2] / "notebooks" / "quickstart.ipynb"
GYOSHU = str(Path(sys.executable).parent / "gyoshu")
PATIENCE_S = 90


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GYOSHU_")}
    return kept | {"NO_COLOR": "1", "MPLBACKEND": "agg"}


def gyoshu(*arguments: str | Path, root: Path, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run to the end. Whatever the exit code, no traceback reaches the user."""
    done = subprocess.run(
        [GYOSHU, arguments[0], "--root", str(root), *map(str, arguments[1:])],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    if expect is not None:
        assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def start(*arguments: str | Path, root: Path) -> subprocess.Popen[str]:
    """Start with ``--json`` and leave it running; read its events with :func:`wait_for`."""
    return subprocess.Popen(
        [GYOSHU, str(arguments[0]), "--root", str(root), "--json", *map(str, arguments[1:])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )


def wait_for(process: subprocess.Popen[str], event: str, **fields: Any) -> dict[str, Any]:
    """The first such event. pytest's own timeout ends a wait for one that never comes."""
    assert process.stdout is not None
    for line in process.stdout:
        document: dict[str, Any] = json.loads(line)
        if document["event"] == event and all(document.get(key) == value for key, value in fields.items()):
            return document
    raise AssertionError(
        f"{event} never came; exit {process.wait()}: {process.stderr and process.stderr.read()}"
    )


def write_notebook(path: Path, *cells: str, kernel: str = "python3", language: str = "python") -> Path:
    made = [new_code_cell(text) for text in cells]
    for place, cell in enumerate(made):
        cell["id"] = f"cell-{place}"
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": language}}
    nbformat.write(new_notebook(cells=made, metadata=metadata), path)
    return path
