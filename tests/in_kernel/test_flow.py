"""Flow control, in real kernels: nothing is lost, memory stays, and user code never hangs on its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gyoshu_ckpt.in_kernel import flow
from kernel_bridge.interface import ExecutionFinished, KernelMessage, StreamText
from kernel_bridge.jupyter_session import JupyterSession

CLIENT = Path(__file__).with_name("printing_client.py")
MEMORY_LIMIT = 64  # megabytes that either side may grow by
SIZES = {"lines": 50, "stderr": 120, "flushed": 30, "giant": 150, "wide": 150, "child": 100}
INSTALL = "import os, sys, time; from gyoshu_ckpt.in_kernel import flow; assert flow.install()"


def check_passage(style: str, megabytes: int, seconds: float) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    command = [sys.executable, str(CLIENT), style, str(megabytes)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
    assert output.returncode == 0, output.stderr[-2000:]
    result = json.loads(output.stdout)
    count = {"giant": 2, "wide": megabytes // 4}.get(style, megabytes)
    assert result["markers"] == list(range(count))
    assert result["kernel_growth"] < MEMORY_LIMIT
    assert result["client_growth"] < MEMORY_LIMIT


@pytest.mark.parametrize("style", SIZES)
def test_much_output_is_received_whole_in_little_memory(style):
    check_passage(style, SIZES[style], seconds=100)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("style", ["giant", "child"])  # lines: through the command, in tests/cli
def test_a_gigabyte_is_received_whole_in_little_memory(style):
    check_passage(style, 1000, seconds=550)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JupyterSession]:
    with JupyterSession("python3", cwd=tmp_path) as session:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PYTEST_CURRENT_TEST")  # ipykernel does not watch file descriptors when it sees that
            session.start()
        run(session, INSTALL)
        yield session


def finish(session: JupyterSession) -> tuple[str, ExecutionFinished]:
    """Take everything up to the end of the execution: its text, and how it ended."""
    text = ""
    message: KernelMessage | None = None
    while not isinstance(message, ExecutionFinished):
        message = session.receive(20)
        assert message is not None, f"nothing came after {text[-200:]!r}"
        text += message.text if isinstance(message, StreamText) else ""
    return text, message


def run(session: JupyterSession, code: str) -> str:
    session.execute(code)
    text, end = finish(session)
    assert end.status == "ok", (text[-1000:], end.traceback)
    return text


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_supervisor_that_takes_nothing_does_not_hang_user_code(session, tmp_path):
    session.execute(
        "flow.PATIENCE = 1\n"
        "for n in range(20_000): print(f'{n:999}')\n"
        "gave_up = flow._gate._gave_up_at is not None\nopen('printed', 'w').close()"
    )
    wait_for(tmp_path / "printed")  # and nothing is taken meanwhile: ten windows, one wait
    text, _ = finish(session)
    assert text.split() == [str(number) for number in range(20_000)]
    assert run(session, "print(gave_up)") == "True\n"


TELL_WHEN_HELD = """
import threading
main = threading.get_ident()
def watch():
    while sys._current_frames()[main].f_code.co_name != '_wait_for': time.sleep(0.001)
    open('held', 'w').close()
threading.Thread(target=watch).start()
"""


def test_after_giving_up_it_holds_back_again(session, tmp_path):
    run(session, "flow.PATIENCE = 0.1\nflow._gate._written += 10**9\nprint('x' * 9_000_000)")
    assert run(session, "print(flow._gate._written < 10**8)") == "True\n"
    session.execute(f"{TELL_WHEN_HELD}flow.PATIENCE = 60\nprint('x' * 9_000_000)")
    wait_for(tmp_path / "held")  # nothing is taken meanwhile
    assert len(finish(session)[0]) == 9_000_001


def test_the_wait_can_be_interrupted(session, tmp_path):
    session.execute(f"{TELL_WHEN_HELD}flow.PATIENCE = 60\nprint('x' * 50_000_000)")
    wait_for(tmp_path / "held")
    session.interrupt()
    text, end = finish(session)
    assert end.error_name == "KeyboardInterrupt"
    assert len(text) < 20_000_000
    assert run(session, "print('fine')") == "fine\n"


def test_the_publishing_thread_does_not_wait_for_itself(session):
    text = run(
        session,
        "import threading\nflow.PATIENCE = 60\ndone = threading.Event()\n"
        "def on_that_thread():\n    print('x' * 10_000_000)\n    done.set()\n"
        "sys.stdout.pub_thread.schedule(on_that_thread)\nassert done.wait(10)",
    )
    assert text.count("x") == 10_000_000


def test_redirected_output_is_left_alone(session):
    text = run(
        session,
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()) as buffer: print('x' * 5_000_000)\n"
        "with contextlib.redirect_stdout(sys.stderr): print('y' * 5_000_000)\n"
        "print(len(buffer.getvalue()))",
    )
    assert text.count("y") == 5_000_000
    assert "5000001" in text


def test_forked_children_print_without_counting(session):
    text = run(
        session,
        "import warnings\nwarnings.simplefilter('ignore')  # of forking with threads\n"
        "before = flow._gate._written\nchild = os.fork()\n"
        "if child == 0:\n    print('from the child', flush=True)\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nassert flow._gate._written == before",
    )
    while "from the child" not in text:  # it goes round by another socket
        message = session.receive(10)
        assert isinstance(message, StreamText)
        text += message.text


def test_the_last_lines_of_a_child_process_come_before_the_end_of_its_cell(session):
    # The thread that reads the pipe is made as slow as on a busy machine: the child has long gone.
    slow = "def slow(text):\n    time.sleep(0.001)\n    return quick(text)\nquick = sys.stdout.write\n"
    code = f"{slow}sys.stdout.write = slow\nos.system('seq 12000')"
    assert run(session, code).splitlines()[-1:] == ["12000"]


def test_a_child_process_that_never_stops_printing_does_not_keep_its_cell_from_ending(session):
    code = "import subprocess\nchild = subprocess.Popen(['yes'])\nflow.PATIENCE = 1"
    run(session, code)
    session.execute("child.kill(); child.wait()")
    finish(session)


def test_half_a_surrogate_pair_takes_nothing_with_it(session):
    assert run(session, r"print('before'); print('\ud800é'); print('after')") == "before\n\\ud800é\nafter\n"


def test_printed_strings_are_not_kept(session):
    run(session, "print('kept?')")
    assert "kept?" not in run(session, "print(len(get_ipython().history_manager.outputs), flush=True)")
    kept = run(
        session, "print(any('kept?' in str(each) for each in get_ipython().history_manager.outputs.values()))"
    )
    assert kept == "False\n"


def test_wrappers_of_the_user_stay_on_top(session):
    run(session, "own = sys.stdout.write\nsys.stdout.write = lambda text: own(text.upper())")
    before = int(run(session, "print(flow._gate._written)"))
    assert run(session, "print('loud')") == "LOUD\n"
    after = int(run(session, "print(flow._gate._written)"))
    assert after - before == len(f"{before}\nLOUD\n")


def test_installing_twice_and_taking_it_away(session):
    assert run(session, "w = sys.stdout.write; flow.install(); print(sys.stdout.write is w)") == "True\n"
    run(session, "flow.uninstall(); flow.uninstall()")
    assert (
        run(session, "print('flow' in sys.stdout.write.__module__, 'flush' in vars(sys.stdout))")
        == "False False\n"
    )
    assert run(session, "flow.install(); print('again')") == "again\n"
    assert run(session, "print('flow' in sys.stdout.write.__module__)") == "True\n"


def test_wrong_types_are_refused_as_before(session):
    session.execute("sys.stdout.write(b'bytes')")
    assert finish(session)[1].error_name == "TypeError"


def test_outside_a_supervised_kernel_nothing_is_done(monkeypatch, tmp_path):
    monkeypatch.delenv("GYOSHU_FLOW_ACK", raising=False)
    assert not flow.install()
    (tmp_path / "taken").write_bytes(bytes(8))
    assert not flow.install(str(tmp_path / "taken"))  # this stdout is no kernel's
    flow.uninstall()


@pytest.mark.parametrize("content", [None, b"", b"123"])
def test_a_counter_that_cannot_be_read_is_done_without(session, content, tmp_path):
    if content is not None:
        (tmp_path / "taken").write_bytes(content)
    assert run(session, "flow.uninstall(); print(flow.install('taken'))") == "False\n"
