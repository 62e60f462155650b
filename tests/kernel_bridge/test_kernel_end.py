"""How real kernels fail to start, die and are made to leave; and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from kernel_bridge.interface import ExecutionFinished, KernelNotAvailable, StreamText
from kernel_bridge.jupyter_session import JupyterSession

SEGFAULT = "import ctypes; ctypes.string_at(0)"


@pytest.mark.parametrize(
    ("code", "exit_code", "number"),
    [
        ("os.kill(os.getpid(), 9)", None, signal.SIGKILL),
        ("os._exit(3)", 3, None),
        (SEGFAULT, None, signal.SIGSEGV),
    ],
    ids=["SIGKILL", "exit", "segfault"],
)
def test_death_is_told_once_and_after_the_last_output(kernel, code, exit_code, number):
    # The kernel waits until its last message has left it; from then on losing it would be our fault.
    kernel.session.execute(
        "import os, sys, time\nfor n in range(2000): print(n)\nprint('last', flush=True)\n"
        f"os.write(sys.stderr.fileno(), b'a word below Jupyter')\ntime.sleep(0.3)\n{code}"
    )
    before, ended = kernel.until_death()
    assert (ended.exit_code, ended.signal) == (exit_code, number)
    assert kernel.text(before).split() == [*map(str, range(2000)), "last"]
    assert "a word below Jupyter" in ended.last_words
    assert not kernel.session.is_alive
    assert kernel.session.receive(5) is None
    assert kernel.session.receive(None) is None


def test_output_that_was_waiting_when_death_came_is_received_before_it(kernel):
    kernel.session.execute(
        "import os, time\nfor n in range(900): print(n, flush=True)\ntime.sleep(0.3)\nos._exit(0)"
    )
    deadline = time.monotonic() + 20
    while kernel.session.is_alive:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    before, _ = kernel.until_death()
    assert kernel.text(before).split() == [str(number) for number in range(900)]


def test_calls_after_death_do_nothing(kernel):
    kernel.session.kill()
    kernel.until_death()
    kernel.session.interrupt()
    kernel.session.terminate()
    kernel.session.kill()
    kernel.session.execute("1")
    assert kernel.session.receive(0) is None


def test_only_the_tail_of_what_is_written_below_jupyter_is_kept(kernel):
    kernel.session.execute(
        "import os, sys\n"
        "for n in range(40): os.write(sys.stderr.fileno(), b'x' * 9999 + b'%d ' % n)\n"
        "os._exit(0)"
    )
    _, ended = kernel.until_death()
    assert 60_000 < len(ended.last_words) <= 64 * 1024
    assert ended.last_words.endswith("39")


@pytest.mark.parametrize(("method", "number"), [("terminate", 15), ("kill", 9)])
def test_signals_on_request(kernel, method, number):
    kernel.session.execute("print('begun', flush=True)\nwhile True: pass")
    kernel.until(lambda each: isinstance(each, StreamText))
    getattr(kernel.session, method)()
    _, ended = kernel.until_death()
    assert ended.signal == number


def test_a_stopped_kernel_is_alive_and_can_be_killed(kernel):
    psutil.Process(kernel.info.pid).suspend()
    assert kernel.session.is_alive
    kernel.session.kill()
    assert kernel.until_death()[1].signal == signal.SIGKILL


def test_children_in_the_group_do_not_outlive_a_dead_kernel(kernel, has_ended):
    messages = kernel.run("import os, subprocess; c = subprocess.Popen(['sleep', '600']); print(c.pid)")
    child = int(kernel.text(messages))
    kernel.session.execute("os._exit(1)")
    kernel.until_death()
    assert has_ended(child)


def test_an_unknown_kernel_is_refused_with_the_names_of_the_installed(tmp_path):
    session = JupyterSession("no-such-kernel", cwd=tmp_path)
    with pytest.raises(KernelNotAvailable, match=r"no kernel named 'no-such-kernel'. Installed: .*python3"):
        session.start()
    session.close()


def test_a_kernel_that_ends_while_starting_is_reported_at_once_in_its_own_words(
    start_kernel, make_kernelspec
):
    name = make_kernelspec("broken", sys.executable, "-c", "import sys; sys.exit('first\\nboom')")
    with pytest.raises(KernelNotAvailable) as caught:
        start_kernel(name)
    assert caught.value.message == "The kernel 'broken' ended while it was starting: boom"
    assert caught.value.detail == "first\nboom"


def test_a_kernel_that_never_answers_is_killed(start_kernel, make_kernelspec, tmp_path, has_ended):
    program = (
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    name = make_kernelspec("mute", sys.executable, "-c", program)
    with pytest.raises(KernelNotAvailable, match="did not answer within 1 s"):
        start_kernel(name, startup_timeout=1)
    assert has_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("fault", ["command", "directory", "spec"])
def test_a_kernel_whose_command_cannot_be_run(start_kernel, make_kernelspec, tmp_path, fault):
    name = make_kernelspec("odd", *(["/no/such/program"] if fault == "command" else []))
    if fault == "spec":
        (tmp_path / "jupyter/kernels/odd/kernel.json").write_text("{")
    where = tmp_path / "missing" if fault == "directory" else tmp_path
    with JupyterSession(name, cwd=where) as session, pytest.raises(KernelNotAvailable, match="odd"):
        session.start()


def test_the_directory_is_private_and_goes_with_the_session(kernel, has_ended):
    messages = kernel.run("import os; print(os.environ['GYOSHU_FLOW_ACK'])")
    directory = Path(kernel.text(messages).strip()).parent
    assert stat.S_IMODE(directory.stat().st_mode) & 0o777 == 0o700
    assert any(stat.S_ISSOCK(each.stat().st_mode) for each in directory.iterdir())
    kernel.session.close()
    assert not directory.exists()
    assert has_ended(kernel.info.pid)
    kernel.session.close()


def test_an_idle_kernel_is_asked_to_leave(kernel, tmp_path):
    kernel.run("import atexit, pathlib; atexit.register(pathlib.Path('goodbye').touch)")
    kernel.session.close()
    assert (tmp_path / "goodbye").exists()


def test_closing_does_not_wait_for_busy_or_stubborn_code(kernel, has_ended):
    kernel.session.execute(
        "import signal; signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "print(1, flush=True)\nwhile True: pass"
    )
    kernel.until(lambda each: isinstance(each, StreamText))
    kernel.session.close()
    assert has_ended(kernel.info.pid)


def test_closing_leaves_no_descriptor_and_no_thread_behind(tmp_path):
    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    def one() -> None:
        with JupyterSession("python3", cwd=tmp_path) as session:
            session.start()

    one()  # what is opened once for all
    before = held()
    one()
    assert held() == before


def test_the_kernel_dies_with_a_killed_client(tmp_path, has_ended):
    program = (
        "import pathlib, signal\n"
        "from kernel_bridge.jupyter_session import JupyterSession\n"
        f"session = JupyterSession('python3', cwd=pathlib.Path({str(tmp_path)!r}))\n"
        "print(session.start().pid, flush=True)\n"
        # Code that never lets go of the GIL: ipykernel's own watch over its parent cannot run.
        # It sleeps first, so that what it printed gets out.
        "code = 'import itertools, time; print(1, flush=True); time.sleep(0.3); sum(itertools.repeat(0))'\n"
        "session.execute(code)\n"
        "print(session.receive(20).text, flush=True)\n"
        "signal.pause()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}  # it cannot clean up
    command = [sys.executable, "-c", program]
    client = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None
        kernel = int(client.stdout.readline())
        assert client.stdout.readline() == "1\n"
        assert psutil.pid_exists(kernel)
    finally:
        client.kill()
        client.communicate()
    assert has_ended(kernel)


def test_ctrl_c_in_the_terminal_does_not_reach_the_kernel(kernel):
    assert os.getpgid(kernel.info.pid) == kernel.info.pid != os.getpgid(0)
    assert os.getsid(kernel.info.pid) == kernel.info.pid


def test_a_long_runtime_directory_is_passed_over(start_kernel, tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    kernel = start_kernel()
    assert not list(long.iterdir())
    assert isinstance(kernel.run("1")[-1], ExecutionFinished)
