"""What supervision costs: a notebook of trivial cells under ``gyoshu run`` and under nbclient, in turn.

Both are measured as whole processes, from the start of Python to its end, in the same run of this script and
alternating, so that what the machine does meanwhile falls on both. Reported are medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import psutil
from nbformat.v4 import new_code_cell, new_notebook

CELLS, STAGES = 200, 20
WITH_NBCLIENT = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""
TARGET_RATIO = 1.5
TARGET_START_S = 0.150


def trivial_notebook(path: Path, *, with_stages: bool) -> None:
    """200 cells that each add one; in 20 stages where asked for."""
    cells = []
    for number in range(CELLS):
        per_stage = CELLS // STAGES
        stage = number // per_stage
        head = (
            f"%%stage S{stage:02d}_count_up --out x{stage}\n"
            if with_stages and number % per_stage == 0
            else ""
        )
        cells.append(new_code_cell(f"{head}x{stage} = {number} + 1\nprint(x{stage})"))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)


def seconds(command: list[str], folder: Path) -> float:
    """The wall time of a command that has to succeed."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.perf_counter() - began


def program(name: str) -> str:
    """A console script beside this Python."""
    return str(Path(sys.executable).parent / name)


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, one entry a round."""
    figures: dict[str, list[float]] = {"nbclient": [], "gyoshu": [], "python": [], "version": [], "help": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trivial_notebook(folder / "plain.ipynb", with_stages=False)
        trivial_notebook(folder / "staged.ipynb", with_stages=True)
        ways = {
            "nbclient": [sys.executable, "-c", WITH_NBCLIENT, "plain.ipynb", "executed.ipynb"],
            "gyoshu": [program("gyoshu"), "run", "staged.ipynb"],
            "python": [sys.executable, "-c", "pass"],
            "version": [program("gyoshu"), "--version"],
            "help": [program("gyoshu"), "--help"],
        }
        for command in ways.values():  # once unmeasured: caches, byte code
            seconds(command, folder)
        for _ in range(rounds):
            for way, command in ways.items():
                figures[way].append(seconds(command, folder))
        runs = sorted((folder / "reports" / "staged").glob("run-*"))
        kept = list((folder / "reports" / "staged" / "checkpoints" / runs[-1].name).iterdir())
        if len(kept) != STAGES:
            raise SystemExit(f"{len(kept)} checkpoints instead of {STAGES}: nothing was measured")
    return figures


def page(figures: dict[str, list[float]], rounds: int) -> str:
    """The benchmark page."""
    median = {way: statistics.median(values) for way, values in figures.items()}
    ratio = median["gyoshu"] / median["nbclient"]
    spread = {way: f"{min(values):.2f}–{max(values):.2f}" for way, values in figures.items()}
    version = median["version"] - median["python"]
    usage = median["help"] - median["python"]
    memory = psutil.virtual_memory().total / 2**30
    return f"""# Benchmarks

Written by `nox -s bench`. Times are of this machine: {os.cpu_count()} cores, {memory:.0f} GiB,
{platform.system()}, Python {platform.python_version()}. Ratios travel better than seconds. Each figure is the median of
{rounds} rounds, in which the ways take turns.

## Overhead of a run

A notebook of {CELLS} trivial cells, in {STAGES} stages for gyoshu: whole processes, from the start of Python to its
end. gyoshu's time includes {STAGES} committed and read-back checkpoints and an executed notebook that is valid on disk
at every moment, saved at every checkpoint and, between them, as often as a tenth of the time allows; nbclient writes
its notebook once, at the end.

| | median | range |
|---|---|---|
| nbclient | {median["nbclient"]:.2f} s | {spread["nbclient"]} s |
| `gyoshu run` | {median["gyoshu"]:.2f} s | {spread["gyoshu"]} s |
| **ratio** | **{ratio:.2f}** (target: at most {TARGET_RATIO}) | |

## Starting the command

| | beyond `python -c pass` ({median["python"] * 1000:.0f} ms) |
|---|---|
| `gyoshu --version` | {version * 1000:.0f} ms (target: under {TARGET_START_S * 1000:.0f} ms) |
| `gyoshu --help` | {usage * 1000:.0f} ms (target: under {TARGET_START_S * 1000:.0f} ms) |
"""


def main() -> None:
    """Measure, print, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    figures = measure(options.rounds)
    print(json.dumps({way: [round(value, 3) for value in values] for way, values in figures.items()}))
    text = page(figures, options.rounds)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
