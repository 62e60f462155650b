"""What a supervisor sees of a real kernel while it works."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import time
from pathlib import Path

import pytest
import zmq

from kernel_bridge import meeting_place
from kernel_bridge.interface import ClearOutput, ExecutionFinished, KernelSession, RichOutput, StreamText
from kernel_bridge.jupyter_session import JupyterSession


def test_it_is_a_kernel_session(tmp_path):
    session: KernelSession = JupyterSession("python3", cwd=tmp_path)
    assert not session.is_alive
    session.close()


def test_what_the_kernel_says_of_itself(kernel):
    assert kernel.info.language == "python"
    assert kernel.info.language_version == sys.version.split()[0]
    assert kernel.info.supports_subshells
    assert kernel.session.is_alive
    [value, _] = kernel.run("import os; os.getpid()")
    assert value.content["data"]["text/plain"] == str(kernel.info.pid)


def test_output_comes_in_order_and_the_end_comes_last(kernel):
    messages = kernel.run(
        "import sys\n"
        "from IPython.display import display, clear_output\n"
        "print('one'); sys.stdout.flush()\n"
        "print('two', file=sys.stderr); sys.stderr.flush()\n"
        "handle = display({'text/plain': 'three'}, raw=True, display_id='d')\n"
        "handle.update({'text/plain': 'four'}, raw=True)\n"
        "clear_output(wait=True)\n"
        "print('five')\n"
        "'six'\n"
    )
    request = messages[-1].request
    assert {each.request for each in messages} == {request}
    kinds = [each.kind if isinstance(each, RichOutput) else type(each) for each in messages]
    assert kinds == [
        StreamText,
        StreamText,
        "display_data",
        "update_display_data",
        ClearOutput,
        StreamText,
        "execute_result",
        ExecutionFinished,
    ]
    assert [(each.name, each.text) for each in messages if isinstance(each, StreamText)] == [
        ("stdout", "one\n"),
        ("stderr", "two\n"),
        ("stdout", "five\n"),
    ]
    assert messages[4].wait
    assert messages[6].content["data"]["text/plain"] == "'six'"
    assert messages[-1] == ExecutionFinished(request, "ok", execution_count=1)


def test_an_error_is_an_output_and_an_end(kernel):
    error, end = kernel.run("1 / 0")
    assert (error.kind, error.content["ename"]) == ("error", "ZeroDivisionError")
    assert (end.status, end.error_name, end.error_value) == ("error", "ZeroDivisionError", "division by zero")
    assert "ZeroDivisionError" in end.traceback[-1]


def test_silent_execution_neither_counts_nor_shows(kernel):
    assert kernel.run("1")[-1].execution_count == 1
    assert [type(each) for each in kernel.run("x = 2; x", silent=True)] == [ExecutionFinished]
    assert kernel.run("assert x == 2")[-1].execution_count == 2


def test_what_was_queued_behind_an_error_is_aborted(kernel):
    kernel.session.execute("import time; time.sleep(0.2); 1 / 0")
    queued = kernel.session.execute("print('never')")
    messages = kernel.until(lambda each: getattr(each, "request", None) == queued)
    assert messages[-1].status == "aborted"


def test_input_is_refused_with_an_error(kernel):
    end = kernel.run("input('your name? ')")[-1]
    assert (end.status, end.error_name) == ("error", "StdinNotImplementedError")


def test_input_asked_for_against_the_rules_gets_an_end_of_file(kernel):
    end = kernel.run("get_ipython().kernel._allow_stdin = True\ninput()")[-1]
    assert (end.status, end.error_name) == ("error", "EOFError")


def test_text_is_joined_but_never_held_back(kernel):
    request = kernel.session.execute(
        "import time\nfor n in range(300):\n    print(n, flush=True)\n"
        "open('printed', 'w').close()\nwhile not __import__('os').path.exists('seen'): time.sleep(0.01)"
    )
    seen = ""
    while not seen.endswith("299\n"):
        message = kernel.session.receive(10)
        assert isinstance(message, StreamText)
        seen += message.text
    assert seen.splitlines() == [str(number) for number in range(300)]
    Path(kernel.session._cwd, "seen").touch()
    assert kernel.session.receive(10) == ExecutionFinished(request, "ok", 1)


def test_a_burst_is_received_whole_although_nobody_was_listening(kernel):
    kernel.session.execute("for n in range(900):\n    print(n, flush=True)\nopen('printed', 'w').close()")
    deadline = time.monotonic() + 20
    while not Path(kernel.session._cwd, "printed").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    messages = kernel.until(lambda each: isinstance(each, ExecutionFinished))
    assert kernel.text(messages).split() == [str(number) for number in range(900)]
    assert len(messages) < 900


def test_waiting_ends_with_the_timeout(kernel):
    started = time.monotonic()
    assert kernel.session.receive(0) is None
    assert kernel.session.receive(0.3) is None
    assert time.monotonic() - started >= 0.3  # that long it was to wait: no time-out, but a promise


def test_output_after_the_end_of_a_request_is_not_lost(kernel):
    messages = kernel.run(
        "import os, threading, time\n"
        "def late():\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    print('late', flush=True)\n"
        "threading.Thread(target=late).start()"
    )
    Path(kernel.session._cwd, "go").touch()
    [late] = kernel.until(lambda each: isinstance(each, StreamText))
    assert late == StreamText(messages[-1].request, "stdout", "late\n")


@pytest.mark.parametrize(
    "frames",
    [
        [b"no delimiter"],
        [b"<IDS|MSG>"],
        [b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"],
        [b"<IDS|MSG>", b"0" * 64, b"{}", b"{}", b"{}", b"{}"],
        [b"\xff\xfe", b"<IDS|MSG>", b"\xff"],
    ],
    ids=["no delimiter", "nothing", "unsigned", "wrongly signed", "no text"],
)
def test_damaged_messages_are_passed_over(kernel, frames):
    send = f"get_ipython().kernel.iopub_thread.send_multipart({frames!r})\nprint('still here')"
    messages = kernel.run(send)
    assert kernel.text(messages) == "still here\n"
    assert messages[-1].status == "ok"


def test_a_signed_message_without_sense_is_passed_over(kernel):
    messages = kernel.run(
        "kernel = get_ipython().kernel\n"
        "nonsense = ('stream', {}), ('stream', {'name': 7, 'text': []}), ('status', {}), ('?', {})\n"
        "for kind, content in nonsense:\n"
        "    kernel.session.send(kernel.iopub_thread, kind, content)\n"
        "print('still here')"
    )
    assert kernel.text(messages) == "still here\n"
    assert messages[-1].status == "ok"


def test_a_request_without_idle_status_ends_all_the_same(kernel, monkeypatch):
    monkeypatch.setattr("kernel_bridge.conversation.IDLE_GRACE", 0.3)
    kernel.run("get_ipython().kernel._publish_status = lambda *args, **kwargs: None")
    messages = kernel.run("print('done')")
    assert kernel.text(messages) == "done\n"
    assert messages[-1].status == "ok"


def test_interrupted_code_leaves_the_kernel_and_its_variables(kernel):
    kernel.run("kept = 42")
    kernel.session.execute("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
    kernel.until(lambda each: isinstance(each, StreamText))
    kernel.session.interrupt()
    *_, end = kernel.until(lambda each: isinstance(each, ExecutionFinished))
    assert (end.status, end.error_name) == ("error", "KeyboardInterrupt")
    assert kernel.run("kept")[0].content["data"]["text/plain"] == "42"


def test_interrupting_reaches_the_children_of_the_kernel(kernel):
    kernel.session.execute(
        "import subprocess, sys\n"
        "program = 'import time; print(1, flush=True); time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', program],"
        " stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "child.stdout.readline()\n"
        "try:\n    print('begun', flush=True)\n    child.wait()\n"
        "finally:\n    child.wait(10); print('child gone')"
    )
    kernel.until(lambda each: isinstance(each, StreamText))
    kernel.session.interrupt()
    messages = kernel.until(lambda each: isinstance(each, ExecutionFinished))
    assert "child gone\n" in kernel.text(messages)


def test_a_kernel_that_wants_messages_is_interrupted_by_one(start_kernel, make_kernelspec):
    # It would not notice the signal: it ignores it from the start.
    kernel = start_kernel(make_kernelspec("by-message", interrupt_mode="message"))
    kernel.session.execute("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
    kernel.until(lambda each: isinstance(each, StreamText))
    kernel.session._process.signal_group = lambda number: pytest.fail("a signal was sent")
    kernel.session.interrupt()
    *_, end = kernel.until(lambda each: isinstance(each, ExecutionFinished))
    assert end.error_name == "KeyboardInterrupt"


def test_environment_and_working_directory(start_kernel, tmp_path):
    kernel = start_kernel(env={"MINE": "yes"})
    messages = kernel.run("import os; print(os.getcwd(), os.environ['MINE'], 'PATH' in os.environ)")
    assert kernel.text(messages).split() == [os.path.realpath(tmp_path), "yes", "True"]


def test_inside_a_running_event_loop(start_kernel):
    async def as_a_notebook_cell_would() -> str:
        kernel = start_kernel()
        return kernel.text(kernel.run("print('fine')"))

    assert asyncio.run(as_a_notebook_cell_would()) == "fine\n"


def test_without_unix_sockets_the_traffic_is_encrypted(start_kernel, monkeypatch):
    monkeypatch.setattr(meeting_place, "ipc_available", lambda: False)
    kernel = start_kernel()
    messages = kernel.run("print(get_ipython().kernel.iopub_thread.socket.last_endpoint.decode())")
    assert kernel.text(messages).startswith("tcp://127.0.0.1:")
    assert kernel.session._channels._sockets["iopub"].mechanism == zmq.CURVE
    kernel.session.close()


@pytest.mark.skipif(
    importlib.util.find_spec("bash_kernel") is None,
    reason="NO OTHER LANGUAGE IS TESTED: pip install bash_kernel",
)
def test_a_kernel_of_another_language(start_kernel, make_kernelspec):
    name = make_kernelspec(
        "bash", sys.executable, "-m", "bash_kernel", "-f", "{connection_file}", language="bash"
    )
    kernel = start_kernel(name)
    assert kernel.info.language == "bash"
    messages = kernel.run("x=5; echo $((x * 2))")
    assert (kernel.text(messages), messages[-1].status) == ("10\n", "ok")
    assert kernel.run("false")[-1].status == "error"
    kernel.session.execute("echo begun; sleep 600")
    kernel.until(lambda each: isinstance(each, StreamText))
    kernel.session.interrupt()
    kernel.until(lambda each: isinstance(each, ExecutionFinished))
    assert kernel.text(kernel.run("echo $x")) == "5\n"
