"""``kill -9`` of the kernel, of the supervisor and of both, at a random moment of every stage of the quickstart.

After ``gyoshu continue`` the artifacts are those of a run that nobody disturbed: byte for byte, or value for
value where a codec's bytes are not deterministic.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_cli import QUICKSTART, gyoshu, start, wait_for

STAGES = [
    "S01_make_data",
    "S02_clean_data",
    "S03_build_features",
    "S04_fit_model",
    "S05_evaluate_model",
    "S06_plot_result",
]
VICTIMS = ["kernel", "supervisor", "both"]
PACE = ("-p", "pace", "0.4")
NOT_DETERMINISTIC = {"S06_plot_result/result.figure.pkl"}


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("undisturbed")
    gyoshu("run", QUICKSTART, *PACE, root=root)
    return root


def artifacts(root: Path) -> dict[str, bytes]:
    run = root / "reports/quickstart/run-001"
    found = {
        path.relative_to(run).as_posix(): path.read_bytes() for path in run.glob("S*/**/*") if path.is_file()
    }
    assert len({name.split("/")[0] for name in found}) == len(STAGES)
    return found


def variables(root: Path) -> dict[str, Any]:
    """What the last checkpoint would bring back: by hash, and the model, a pickle, by what is in it."""
    shown = json.loads(gyoshu("show", "--json", root=root).stdout)
    saved = [one["checkpointId"] for one in shown["checkpoints"] if one["status"] == "saved"]
    manifest = json.loads(gyoshu("show", "--json", saved[-1], root=root).stdout)
    stored = {one["name"]: one["sha256"] for one in manifest["variables"]}
    assert set(stored) >= {"raw", "clean", "features", "target", "scores", "report", "model"}
    sha = stored["model"]
    model = attributes_of(root / "reports/quickstart/objects" / sha[:2] / sha[2:])
    return {name: sha for name, sha in stored.items() if name != "figure"} | {"model": model}


def attributes_of(path: Path) -> dict[str, Any]:
    """The attributes of the quickstart's model, whose class lives in the notebook only."""
    code = (
        "import json, sys, joblib, numpy\n"
        "class Ridge: pass\n"
        "model = joblib.load(sys.argv[1])\n"
        "print(json.dumps({k: numpy.asarray(v).tolist() for k, v in sorted(vars(model).items())}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def drawn(figure_pickle: bytes) -> bytes:
    """The picture that a pickled figure draws."""
    import matplotlib as mpl

    mpl.use("agg")
    figure = pickle.loads(figure_pickle)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="rgba")
    return buffer.getvalue()


def same(name: str, ours: bytes, theirs: bytes) -> bool:
    return ours == theirs or (name in NOT_DETERMINISTIC and drawn(ours) == drawn(theirs))


def cases() -> list[Any]:
    """One of each victim in the quick form; all eighteen in the long one."""
    quick = {("S04_fit_model", "kernel"), ("S02_clean_data", "supervisor"), ("S05_evaluate_model", "both")}
    return [
        pytest.param(stage, victim, marks=() if (stage, victim) in quick else pytest.mark.slow)
        for stage in STAGES
        for victim in VICTIMS
    ]


@pytest.mark.parametrize(("stage", "victim"), cases())
def test_killed_at_a_random_moment(stage: str, victim: str, undisturbed: Path, tmp_path: Path) -> None:
    moment = random.uniform(0.0, 0.5)
    process = start("run", QUICKSTART, *PACE, root=tmp_path)
    kernel = psutil.Process(wait_for(process, "kernel_started")["pid"])
    wait_for(process, "stage_started", stage=stage)
    time.sleep(moment)  # not a wait for anything: this is the random moment
    pids = {"kernel": [kernel.pid], "supervisor": [process.pid], "both": [process.pid, kernel.pid]}[victim]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kernel.wait(timeout=20)  # it dies with its supervisor

    said = gyoshu("continue", root=tmp_path, expect=0)
    print(f"{victim} killed {moment:.3f} s into {stage}: {said.stdout}")
    ours, theirs = artifacts(tmp_path), artifacts(undisturbed)
    assert set(ours) == set(theirs)
    assert [name for name in ours if not same(name, ours[name], theirs[name])] == []
    assert variables(tmp_path) == variables(undisturbed)
    assert json.loads(gyoshu("check", "--json", root=tmp_path).stdout)["damaged"] == 0
    notebook = nbformat.read(tmp_path / "reports/quickstart/run-001/notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_the_quickstart_shows_what_it_promises(undisturbed: Path) -> None:
    found = artifacts(undisturbed)
    assert found["S06_plot_result/result.png"].startswith(b"\x89PNG")
    report = json.loads(found["S05_evaluate_model/report.json"])
    assert 1.5 < report["rmse"] < 4
    assert 1.9 < report["mwh per degree of cold"] < 2.3
    assert "already complete" in gyoshu("continue", root=undisturbed).stdout
