"""An in-memory kernel that plays a script, with a clock that moves only when it is told.

The script says what each executed code does, as steps. It is a function from the code to its steps, which may
be a generator and do things between them (write a file as the real kernel would), or a list with the steps of
the first execution, the second, and so on; past its end every execution succeeds without output.

    >>> session = ScriptedSession([[Text("half"), Hang()]], ManualClock())
    >>> info, request = session.start(), session.execute("while True: pass")
    >>> session.receive(1).text
    'half'
    >>> session.receive(2) is None and session.clock.now()  # a hang takes the whole timeout, at once
    2.0
    >>> session.interrupt()
    >>> session.receive(1).content["ename"], session.receive(1).status
    ('KeyboardInterrupt', 'error')
    >>> session.calls
    ['start', 'execute', 'interrupt']

Rules: time passes only in `Advance` and `Hang` steps and while an idle kernel is waited for, never longer
than the timeout of `receive`. A signal ends the step it meets if that step obeys it; between steps it is
always obeyed. An idle kernel obeys SIGTERM and SIGKILL and ignores SIGINT, as ipykernel does. After an error,
what was queued is aborted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kernel_bridge.interface import (
    ClearOutput,
    ExecutionFinished,
    KernelEnded,
    KernelInfo,
    KernelMessage,
    KernelNotAvailable,
    RichOutput,
    StreamText,
)
from kernel_bridge.script import (
    ALL_SIGNALS,
    Advance,
    Clear,
    Die,
    Finish,
    Hang,
    ManualClock,
    Rich,
    SignalCall,
    Step,
    Text,
)

__all__ = [
    "Advance",
    "Clear",
    "Die",
    "Finish",
    "Hang",
    "ManualClock",
    "Rich",
    "ScriptedSession",
    "Step",
    "Text",
]

_INTERRUPTED = Rich("error", {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []})
_OUTCOMES: dict[SignalCall, tuple[Step, ...]] = {
    "interrupt": (_INTERRUPTED, Finish("error", "KeyboardInterrupt")),
    "terminate": (Die(15),),
    "kill": (Die(9),),
}


class ScriptedSession:
    """A `KernelSession` that plays a script. ``calls`` names the calls made, ``codes`` what was executed."""

    def __init__(
        self,
        script: Callable[[str], Iterable[Step]] | Iterable[Iterable[Step]],
        clock: ManualClock,
        *,
        fails_to_start: KernelNotAvailable | None = None,
    ) -> None:
        self.clock = clock
        self.calls: list[str] = []
        self.codes: list[str] = []
        self.is_alive = False
        listed = iter(()) if callable(script) else iter(script)
        self._steps_of = script if callable(script) else lambda code: next(listed, ())
        self._fails_to_start = fails_to_start
        self._waiting: deque[tuple[str, str, bool]] = deque()  # request, code, silent
        self._aborted: deque[str] = deque()
        self._request = ""
        self._count: int | None = None
        self._counter = 0
        self._steps: Iterator[Step] | None = None  # of the request that runs; None when idle
        self._busy = Advance(0)

    def start(self) -> KernelInfo:
        """Come up, or fail as told."""
        self.calls.append("start")
        if self._fails_to_start is not None:
            raise self._fails_to_start
        self.is_alive = True
        return KernelInfo("python3", "python", "3.11", pid=0)

    def execute(self, code: str, *, silent: bool = False) -> str:
        """Queue code."""
        self.calls.append("execute")
        self.codes.append(code)
        request = f"request-{len(self.codes)}"
        self._waiting.append((request, code, silent))
        return request

    def receive(self, timeout: float | None) -> KernelMessage | None:
        """Play on to the next message, or to the end of the timeout."""
        left = math.inf if timeout is None else timeout
        while self.is_alive:
            if self._aborted:
                return ExecutionFinished(self._aborted.popleft(), "aborted")
            if (steps := self._running_steps()) is None:
                self._let_pass(left)
                return None
            spent = min(self._busy.seconds, left)
            self._let_pass(spent)
            left -= spent
            if spent < self._busy.seconds:
                self._busy = replace(self._busy, seconds=self._busy.seconds - spent)
                return None
            message = self._play(next(steps, Finish()))
            if message is not None:
                return message
        return None

    def interrupt(self) -> None:
        """As if SIGINT were sent."""
        self._signal("interrupt")

    def terminate(self) -> None:
        """As if SIGTERM were sent."""
        self._signal("terminate")

    def kill(self) -> None:
        """As if SIGKILL were sent."""
        self._signal("kill")

    def close(self) -> None:
        """End; the rest of the script is not played."""
        self.calls.append("close")
        self.is_alive = False

    def _signal(self, name: SignalCall) -> None:
        self.calls.append(name)
        is_idle = self._running_steps() is None
        obeys = ALL_SIGNALS - {"interrupt"} if is_idle else self._busy.obeys
        if name in obeys:
            self._busy = Advance(self._busy.reaction, obeys - {name})
            self._steps = iter(_OUTCOMES[name])

    def _running_steps(self) -> Iterator[Step] | None:
        if self._steps is None and self._waiting:
            self._request, code, silent = self._waiting.popleft()
            self._counter += not silent
            self._count = None if silent else self._counter
            self._steps = iter(self._steps_of(code))
        return self._steps

    def _let_pass(self, seconds: float) -> None:
        if math.isinf(seconds):
            raise RuntimeError("receive(None) would wait for ever: the script does nothing more")
        self.clock.advance(seconds)

    def _play(self, step: Step) -> KernelMessage | None:
        self._busy = Advance(0)
        match step:
            case Text(text, name):
                return StreamText(self._request, name, text)
            case Rich(kind, content):
                return RichOutput(self._request, kind, content)
            case Clear(wait):
                return ClearOutput(self._request, wait)
            case Advance():
                self._busy = step
                return None
            case Finish(status, error_name, error_value):
                self._steps = None
                if status == "error":
                    self._aborted.extend(request for request, _, _ in self._waiting)
                    self._waiting.clear()
                return ExecutionFinished(self._request, status, self._count, error_name, error_value)
            case Die(signal, exit_code, last_words):
                self.is_alive = False
                return KernelEnded(exit_code, signal, last_words)
