"""Every command through the real executable: words, JSON, exit codes, and one clear sentence for bad input."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_cli import GYOSHU, gyoshu, start, wait_for, write_notebook

TWO = ("%%stage S01_first --out a\na = 1", "%%stage S02_second --out b\nb = a + 1")
BROKEN = (TWO[0], "%%stage S02_second --out b\nraise RuntimeError('no luck')\nb = 0")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished")
    write_notebook(root / "study.ipynb", *TWO)
    gyoshu("run", root / "study.ipynb", root=root)
    return root


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    write_notebook(tmp_path / "study.ipynb", *BROKEN)
    done = gyoshu("run", tmp_path / "study.ipynb", root=tmp_path, expect=1)
    assert "S02_second failed: RuntimeError: no luck" in done.stderr
    assert "next: mend the cell, then gyoshu continue" in done.stderr
    return tmp_path


def test_run_says_what_it_does_in_plain_lines(finished: Path) -> None:
    done = gyoshu("run", finished / "study.ipynb", root=finished)
    assert "study · run-002 · 2 stages" in done.stdout
    assert "\x1b" not in done.stdout
    assert "all stages are complete" in done.stdout


def test_status_list_show_and_check_in_words_and_json(finished: Path) -> None:
    assert "COMPLETED" in gyoshu("status", "run-001", root=finished).stdout
    status = json.loads(gyoshu("status", "--json", "study/run-001", root=finished).stdout)
    assert status["state"] == "COMPLETED"
    assert [stage["state"] for stage in status["stages"]] == ["COMPLETED", "COMPLETED"]
    assert status["lastCheckpoint"]["stageId"] == "S02_second"
    assert status["heldBy"] is None
    runs = json.loads(gyoshu("list", "--json", root=finished).stdout)["runs"]
    assert runs[0]["run"] == "run-001"
    assert "study/run-001" in gyoshu("list", root=finished).stdout
    assert "ckpt-002  saved  S02_second" in gyoshu("show", "run-001", root=finished).stdout
    words = gyoshu("show", "run-001/ckpt-002", root=finished).stdout
    assert "S02_second/b.json" in words
    manifest = json.loads(gyoshu("show", "--json", "study/run-001/ckpt-002", root=finished).stdout)
    assert manifest["schemaVersion"] == 1
    assert "all whole" in gyoshu("check", root=finished).stdout
    assert json.loads(gyoshu("validate", "--json", "run-001", root=finished).stdout)["damaged"] == 0


def test_schema(finished: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "gyoshu"), "schema", "manifest"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["title"] == "gyoshu manifest"


def test_dry_runs_start_nothing(failed: Path) -> None:
    plan = json.loads(gyoshu("run", "--dry-run", "--json", failed / "study.ipynb", root=failed).stdout)
    assert [stage["stageId"] for stage in plan["stages"]] == ["S01_first", "S02_second"]
    assert plan["stages"][0]["maxDurationSec"] == 240
    assert "S01_first  at most 4m  → a" in gyoshu("run", "-n", failed / "study.ipynb", root=failed).stdout
    resume = json.loads(gyoshu("continue", "-n", "--json", root=failed).stdout)
    assert [stage["verdict"] for stage in resume["stages"]] == ["reuse", "run"]
    assert resume["next"] == "S02_second"
    assert "going on at S02_second, from ckpt-001" in gyoshu("continue", "-n", root=failed).stdout
    assert len(json.loads(gyoshu("list", "--json", root=failed).stdout)["runs"]) == 1


def test_a_mended_stage_goes_on(failed: Path) -> None:
    write_notebook(failed / "study.ipynb", *TWO)
    done = gyoshu("continue", root=failed)
    assert "going on at S02_second, from ckpt-001 (S01_first)" in done.stdout
    again = gyoshu("continue", root=failed)
    assert "already complete" in again.stdout


def test_json_of_a_run_is_one_document_a_line_and_ends_with_the_outcome(failed: Path) -> None:
    done = gyoshu("continue", "--json", root=failed, expect=1)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert documents[-1]["event"] == "closed"
    assert documents[-1]["exitCode"] == 1
    assert {"session_began", "stage_started", "stage_failed", "run_ended"} <= {
        one["event"] for one in documents
    }


def test_a_damaged_checkpoint_is_exit_65_and_continue_uses_the_one_before(
    finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "reports", tmp_path / "reports")
    shutil.copy(finished / "study.ipynb", tmp_path)
    manifest = json.loads(gyoshu("show", "--json", "run-001/ckpt-002", root=tmp_path).stdout)
    sha = next(one["sha256"] for one in manifest["variables"] if one["name"] == "b")
    path = tmp_path / "reports/study/objects" / sha[:2] / sha[2:]
    path.chmod(0o600)
    path.write_bytes(b"?" * path.stat().st_size)
    assert "1 of " in gyoshu("check", "run-001", root=tmp_path, expect=65).stderr
    done = gyoshu("continue", "run-001", root=tmp_path)
    assert "ckpt-002 is passed over" in done.stdout
    gyoshu("check", root=tmp_path, expect=0)  # the same value again: the damaged object was replaced


def test_prune_keeps_the_newest_and_sweeps(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "reports", tmp_path / "reports")
    shutil.copy(finished / "study.ipynb", tmp_path)
    would = json.loads(gyoshu("prune", "--keep-last", "1", "-n", "--json", root=tmp_path).stdout)
    assert "run-001/ckpt-001" in would["titles"][0]["removed"]
    gyoshu("check", "run-001", root=tmp_path)
    gyoshu("prune", "--keep-last", "1", "--title", "study", root=tmp_path)
    kept = json.loads(gyoshu("show", "--json", "run-001", root=tmp_path).stdout)["checkpoints"]
    assert [one["checkpointId"] for one in kept] == ["ckpt-002"]
    assert (tmp_path / "reports/study/run-001/S01_first/a.json").exists()  # what people look at stays
    assert "already complete" in gyoshu("continue", "run-001", root=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "missing.ipynb"), 2, "missing.ipynb"),
        (("run", "."), 2, "."),
        (("run",), 2, "NOTEBOOK"),
        (("continue", "run-009"), 66, "no run run-009"),
        (("continue", "../etc"), 2, "cannot be used as report title"),
        (("continue", "nothing"), 66, "no run nothing"),
        (("status", "study/run-1"), 2, "not a run id"),
        (("show", "run-001/ckpt-077"), 66, "ckpt-077"),
        (("prune", "--keep-last", "0"), 2, "keep"),
        (("prune", "--title", "no/such"), 2, "cannot be used"),
        (("list", "--title", "\x1b[31m"), 2, "control character"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_bad_input_is_one_sentence_and_the_right_exit_code(
    finished: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = gyoshu(*arguments, root=finished, expect=None)
    if arguments[0] == "frobnicate":
        assert done.returncode == 2
        return
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "\x1b" not in done.stderr


def test_faults_are_json_too(finished: Path) -> None:
    done = gyoshu("status", "--json", "run-009", root=finished, expect=66)
    assert json.loads(done.stdout)["exitCode"] == 66


def test_bad_settings_are_exit_78(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "gyoshu.toml").write_text("[limits]\nstage = 'soon'\n")
    assert "not a duration" in gyoshu("list", root=tmp_path, expect=78).stderr


def test_no_runs_at_all_is_exit_66(tmp_path: Path) -> None:
    assert "gyoshu run NOTEBOOK" in gyoshu("continue", root=tmp_path, expect=66).stderr


def test_an_unknown_kernel_is_exit_69(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "study.ipynb", *TWO)
    done = gyoshu("run", "--kernel", "no-such-kernel", notebook, root=tmp_path, expect=69)
    assert "no-such-kernel" in done.stderr
    assert "--kernel" in done.stderr


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A run that sits in its second stage."""
    write_notebook(
        tmp_path / "study.ipynb",
        TWO[0],
        "%%stage S02_wait\nimport time\nprint('[STEP] here')\ntime.sleep(600)",
    )
    process = start("run", tmp_path / "study.ipynb", root=tmp_path)
    wait_for(process, "marker", type="STEP")
    yield tmp_path, process
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def test_two_at_once_one_runs_and_the_other_names_it(waiting: tuple[Path, subprocess.Popen[str]]) -> None:
    root, process = waiting
    done = gyoshu("continue", root=root, expect=75)
    assert f"process {process.pid}" in done.stderr
    status = json.loads(gyoshu("status", "--json", root=root).stdout)
    assert status["heldBy"]["pid"] == process.pid
    assert status["state"] == "IN_PROGRESS"


def test_two_continues_at_once_one_runs_and_the_other_is_exit_75(
    waiting: tuple[Path, subprocess.Popen[str]],
) -> None:
    root, process = waiting
    process.kill()
    process.communicate(timeout=30)
    first, second = start("continue", root=root), start("continue", root=root)
    try:
        done = _first_to_end(first, second)
        other = second if done is first else first
        _, complaint = done.communicate(timeout=60)
        assert done.returncode == 75, complaint
        assert f"process {other.pid}" in complaint
        assert other.poll() is None
    finally:
        for process in (first, second):
            process.kill()
            process.communicate(timeout=30)


def _first_to_end(*processes: subprocess.Popen[str]) -> subprocess.Popen[str]:
    while True:  # pytest's timeout is the deadline
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
                return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_order_and_continue_goes_on(
    waiting: tuple[Path, subprocess.Popen[str]], number: signal.Signals, code: int
) -> None:
    root, process = waiting
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == code
    status = json.loads(gyoshu("status", "--json", root=root).stdout)
    assert status["state"] == "ABORTED"
    executed = nbformat.read(root / "reports/study/run-001/notebook.ipynb", as_version=4)
    assert any("KeyboardInterrupt" in str(cell.get("outputs")) for cell in executed.cells)
    write_notebook(root / "study.ipynb", *TWO)
    gyoshu("continue", root=root)


@pytest.mark.parametrize(
    "stuck",
    [
        "time.sleep(600)",
        "while True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass",
    ],
)
def test_a_stage_that_passes_its_limit_is_stopped_and_continue_goes_on(tmp_path: Path, stuck: str) -> None:
    path = write_notebook(
        tmp_path / "study.ipynb", TWO[0], f"%%stage S02_second --max 1s\nimport time\n{stuck}"
    )
    done = gyoshu("run", path, root=tmp_path, expect=124)
    assert "S02_second passed its limit after 1s" in done.stderr
    shown = json.loads(gyoshu("show", "--json", root=tmp_path).stdout)["checkpoints"]
    assert [(one["status"], one["reason"]) for one in shown] == [
        ("saved", None),
        ("interrupted", "watchdog_timeout"),
    ]
    write_notebook(path, *TWO)
    assert "going on at S02_second, from ckpt-001" in gyoshu("continue", root=tmp_path).stdout


def test_the_executed_notebook_is_valid_at_every_moment(tmp_path: Path) -> None:
    cells = [
        f"%%stage S{n:02d}_step --out x{n}\nx{n} = {n}" if n % 4 == 0 else f"print({n})" for n in range(40)
    ]
    process = start("run", write_notebook(tmp_path / "study.ipynb", *cells), root=tmp_path)
    path = tmp_path / "reports/study/run-001/notebook.ipynb"
    seen: set[int] = set()
    while process.poll() is None:
        if path.exists():
            notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
            nbformat.validate(notebook)
            assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
            seen.add(sum(bool(cell.get("execution_count")) for cell in notebook.cells))
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert len(seen) > 3, "the notebook was not looked at while it grew"


def test_a_closed_or_full_stdout_does_not_end_a_run(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "study.ipynb", *TWO)
    command = f"{GYOSHU} run --root {tmp_path} {notebook}"
    for number, way in enumerate((">&-", "> /dev/full", "| head -n 1"), 1):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} {way}"], capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, (way, done.stderr)
        status = json.loads(gyoshu("status", "--json", f"run-{number:03}", root=tmp_path).stdout)
        assert status["state"] == "COMPLETED", way


def test_an_unknown_kernel_leaves_no_run_behind(failed: Path) -> None:
    gyoshu("run", "--kernel", "no-such-kernel", failed / "study.ipynb", root=failed, expect=69)
    assert len(json.loads(gyoshu("list", "--json", root=failed).stdout)["runs"]) == 1


def test_a_run_that_was_killed_in_its_first_moments_does_not_stand_in_the_way(failed: Path) -> None:
    (failed / "reports/study/run-002").mkdir()
    write_notebook(failed / "study.ipynb", *TWO)
    assert "going on at S02_second" in gyoshu("continue", root=failed).stdout
    done = gyoshu("continue", "run-002", root=failed, expect=65)
    assert "which notebook and parameters" in done.stderr


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", 'ä"\\', "12345678901234567890", "None"])
def test_any_parameter_survives_a_crash(tmp_path: Path, value: str) -> None:
    path = write_notebook(
        tmp_path / "study.ipynb", "x = 1", "%%stage S01_use --out r\nr = repr(x)\nimport os; os._exit(1)"
    )
    document = nbformat.read(path, as_version=4)
    document.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(document, path)
    gyoshu("run", path, "-p", "x", value, root=tmp_path, expect=1)
    document.cells[1].source = document.cells[1].source.replace("os._exit(1)", "")
    nbformat.write(document, path)
    gyoshu("continue", root=tmp_path)
    from gyoshu_ckpt.notebook.parameters import parse_parameter

    assert (tmp_path / "reports/study/run-001/S01_use/r.txt").read_text() == repr(parse_parameter(value))


def test_the_working_directory_and_module_path_come_back(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/data.txt").write_text("here")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/mylib.py").write_text("class Thing:\n    value = 3\n")
    first = (
        "%%stage S01_go --out thing\nimport os, sys\nsys.path.insert(0, 'lib')\n"
        "import mylib\nthing = mylib.Thing()\nos.chdir('sub')"
    )
    second = "%%stage S02_read --out text\ntext = open('data.txt').read() + str(thing.value)"
    path = write_notebook(tmp_path / "study.ipynb", first, f"{second}\nos._exit(1)")
    gyoshu("run", path, root=tmp_path, expect=1)
    write_notebook(path, first, second)
    gyoshu("continue", root=tmp_path)
    assert (tmp_path / "reports/study/run-001/S02_read/text.txt").read_text() == "here3"


def test_version_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['gyoshu', sys.argv[1]]\n"
        "from gyoshu_ckpt.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'pyarrow', 'numpy', 'pydantic', 'nbformat', 'jupyter_client', 'rich', 'zmq'}\n"
        "print('HEAVY', *(heavy & set(sys.modules)))"
    )
    for flag in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-c", code, flag], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "HEAVY"
