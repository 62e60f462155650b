"""The scripted kernel behaves as its module says: supervisor tests rest on it."""

from __future__ import annotations

import doctest

import pytest

from kernel_bridge import scripted_session
from kernel_bridge.interface import (
    ClearOutput,
    ExecutionFinished,
    KernelEnded,
    KernelNotAvailable,
    KernelSession,
    RichOutput,
    StreamText,
)
from kernel_bridge.scripted_session import (
    Advance,
    Clear,
    Die,
    Finish,
    Hang,
    ManualClock,
    Rich,
    ScriptedSession,
    Text,
)


def started(script) -> ScriptedSession:
    session = ScriptedSession(script, ManualClock(100.0))
    session.start()
    return session


def test_the_example_in_its_docstring():
    assert doctest.testmod(scripted_session).failed == 0


def test_it_is_a_kernel_session():
    session: KernelSession = ScriptedSession([], ManualClock())
    assert not session.is_alive


def test_steps_become_messages_and_executions_are_counted():
    content = {"data": {"text/plain": "1"}}
    session = started(
        [[Text("a", "stderr"), Clear(True), Rich("display_data", content)], [Finish("error", "E")]]
    )
    first, second = session.execute("one"), session.execute("two")
    assert [session.receive(None) for _ in range(5)] == [
        StreamText(first, "stderr", "a"),
        ClearOutput(first, True),
        RichOutput(first, "display_data", content),
        ExecutionFinished(first, "ok", 1),
        ExecutionFinished(second, "error", 2, "E"),
    ]
    assert session.codes == ["one", "two"]


def test_a_function_as_script_runs_step_by_step():
    done = []

    def script(code):
        yield Text(code)
        done.append(code)

    session = started(script)
    session.execute("x", silent=True)
    assert session.receive(0).text == "x"
    assert not done
    assert session.receive(0) == ExecutionFinished("request-1", "ok", None)
    assert done == ["x"]


def test_work_takes_time_but_never_more_than_the_timeout():
    session = started([[Advance(5), Text("done")]])
    session.execute("")
    assert session.receive(2) is None
    assert session.clock.now() == 102
    assert session.receive(10).text == "done"
    assert session.clock.now() == 105


def test_an_idle_kernel_lets_the_timeout_pass_and_ignores_an_interrupt():
    session = started([])
    session.interrupt()
    assert session.receive(3) is None
    assert session.clock.now() == 103
    session.terminate()
    assert session.receive(3) == KernelEnded(None, 15)


def test_waiting_for_ever_for_nothing_is_an_error_of_the_test():
    with pytest.raises(RuntimeError, match="for ever"):
        started([]).receive(None)
    session = started([[Hang()]])
    session.execute("")
    with pytest.raises(RuntimeError, match="for ever"):
        session.receive(None)


def test_only_the_signals_that_a_hang_obeys_end_it():
    session = started([[Hang(obeys=["kill"])]])
    session.execute("")
    assert session.receive(0) is None
    for attempt in (session.interrupt, session.terminate):
        attempt()
        assert session.receive(1) is None
    session.kill()
    assert session.receive(1) == KernelEnded(None, 9)
    assert not session.is_alive
    assert session.receive(1) is None
    assert session.clock.now() == 102


def test_a_slow_reaction_to_an_interrupt_can_be_overtaken():
    def interrupted() -> ScriptedSession:
        session = started([[Hang(reaction=3)]])
        session.execute("")
        assert session.receive(1) is None
        session.interrupt()
        assert session.receive(2) is None
        return session

    session = interrupted()
    assert session.receive(2).content["ename"] == "KeyboardInterrupt"
    assert session.clock.now() == 104
    assert session.receive(2).status == "error"
    assert session.receive(0) is None
    assert session.is_alive

    session = interrupted()
    session.kill()
    assert session.receive(2) == KernelEnded(None, 9)


def test_after_an_error_the_queue_is_aborted():
    session = started([[Finish("error", "E")], [Text("never")]])
    session.execute("")
    queued = session.execute("")
    assert session.receive(0).status == "error"
    assert session.receive(0) == ExecutionFinished(queued, "aborted")
    assert session.receive(0) is None


def test_death_in_the_middle():
    session = started([[Die(None, 3, "boom"), Text("never")]])
    session.execute("")
    assert session.receive(0) == KernelEnded(3, None, "boom")
    session.execute("")
    assert session.receive(5) is None
    assert session.clock.now() == 100


def test_a_kernel_that_does_not_start():
    session = ScriptedSession([], ManualClock(), fails_to_start=KernelNotAvailable("no", "detail"))
    with pytest.raises(KernelNotAvailable, match="no"):
        session.start()
    session.close()
    assert session.calls == ["start", "close"]
