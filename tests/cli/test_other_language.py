"""A stage in another language is sliced, supervised and checkpointed by the files that it declares."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_cli import gyoshu, write_notebook

FIRST = (
    "%%stage S01_count --out numbers.txt --out parts/\n"
    "seq 3 > $GYOSHU_ARTIFACTS/numbers.txt; echo a > $GYOSHU_ARTIFACTS/parts/a"
)


@pytest.fixture
def bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if importlib.util.find_spec("bash_kernel") is None:
        pytest.skip("NO OTHER LANGUAGE IS TESTED: pip install bash_kernel")
    spec = tmp_path / "jupyter" / "kernels" / "test-bash"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Bash", "language": "bash"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    return "test-bash"


def test_bash_runs_fails_and_continues_by_its_files(tmp_path: Path, bash: str) -> None:
    path = tmp_path / "study.ipynb"
    write_notebook(path, FIRST, "%%stage S02_sum --out sum.txt\ntrue", kernel=bash, language="bash")
    done = gyoshu("run", path, root=tmp_path, expect=1)
    assert "sum.txt" in done.stderr
    first = tmp_path / "reports/study/run-001/S01_count"
    assert (first / "numbers.txt").read_text().split() == ["1", "2", "3"]
    assert (first / "parts/a").read_text() == "a\n"
    mended = f"%%stage S02_sum --out sum.txt\nwc -l < {first}/numbers.txt > $GYOSHU_ARTIFACTS/sum.txt"
    write_notebook(path, FIRST, mended, kernel=bash, language="bash")
    assert "going on at S02_sum, from ckpt-001" in gyoshu("continue", root=tmp_path).stdout
    assert (tmp_path / "reports/study/run-001/S02_sum/sum.txt").read_text().strip() == "3"


def test_a_variable_cannot_be_declared_there(tmp_path: Path, bash: str) -> None:
    path = write_notebook(
        tmp_path / "study.ipynb", "%%stage S01_x --out x\nx=1", kernel=bash, language="bash"
    )
    assert "bash" in gyoshu("run", path, root=tmp_path, expect=2).stderr
