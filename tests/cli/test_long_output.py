"""A stage that prints a gigabyte: neither side grows by more than 64 MB, and no marker is lost."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import nbformat
import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_cli import start, wait_for, write_notebook

LIMIT = 64 * 2**20
LINE = "x" * 99


@pytest.mark.parametrize("megabytes", [60, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
def test_memory_stays_and_markers_come_through(tmp_path: Path, megabytes: int) -> None:
    lines = megabytes * 10_000
    cell = (
        "%%stage S02_print\n"
        f"for n in range({lines}):\n"
        f"    print('{LINE}')\n"
        f"    if n % {lines // 10} == 0: print(f'[STEP] {{n}}')\n"
        "print('[STEP] last')"
    )
    notebook = write_notebook(tmp_path / "study.ipynb", "%%stage S01_start\nimport numpy, json", cell)
    process = start("run", notebook, root=tmp_path)
    kernel = psutil.Process(wait_for(process, "kernel_started")["pid"])
    wait_for(process, "stage_started", stage="S02_print")
    watched = {"supervisor": psutil.Process(process.pid), "kernel": kernel}
    before = {name: one.memory_info().rss for name, one in watched.items()}
    peak = dict(before)
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.02):
            for name, one in watched.items():
                try:
                    peak[name] = max(peak[name], one.memory_info().rss)
                except psutil.NoSuchProcess:
                    return

    sampler = threading.Thread(target=sample)
    sampler.start()
    output, complaint = process.communicate(timeout=280)
    over.set()
    sampler.join()
    assert process.returncode == 0, complaint
    steps = [one["content"] for one in map(json.loads, output.splitlines()) if one.get("type") == "STEP"]
    assert steps == [str(n) for n in range(0, lines, lines // 10)] + ["last"]
    grown = {name: (peak[name] - before[name]) / 2**20 for name in watched}
    print(f"{megabytes} MB printed; grown by {grown}")
    assert max(grown.values()) * 2**20 < LIMIT, grown
    executed = nbformat.read(tmp_path / "reports/study/run-001/notebook.ipynb", as_version=4)
    shown = next(cell for cell in executed.cells if "S02_print" in cell.source)
    assert len(shown.outputs[0].text) < 2**20
    (spooled,) = (tmp_path / "reports/study/run-001/outputs").iterdir()
    assert spooled.stat().st_size > megabytes * 1_000_000
