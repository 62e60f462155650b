"""The vocabulary of `scripted_session`: the steps of a script, and a clock that moves when it is told."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

SignalCall = Literal["interrupt", "terminate", "kill"]
ALL_SIGNALS: frozenset[SignalCall] = frozenset({"interrupt", "terminate", "kill"})


class ManualClock:
    """A monotonic clock that stands still until it is advanced."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """The time in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


@dataclass(frozen=True, slots=True)
class Text:
    """Print something."""

    text: str
    name: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class Rich:
    """Publish rich output."""

    kind: Literal["display_data", "update_display_data", "execute_result", "error"]
    content: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Clear:
    """Clear the output."""

    wait: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """Work for so many seconds. A signal in ``obeys`` ends that, ``reaction`` seconds after it came."""

    seconds: float
    obeys: frozenset[SignalCall] = ALL_SIGNALS
    reaction: float = 0.0


def Hang(obeys: Iterable[SignalCall] = ALL_SIGNALS, reaction: float = 0.0) -> Advance:  # noqa: N802  a step
    """Work for ever, or until a signal that is obeyed."""
    return Advance(math.inf, frozenset(obeys), reaction)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the execution. A script that runs out of steps ends with ``Finish("ok")``."""

    status: Literal["ok", "error", "aborted"] = "ok"
    error_name: str = ""
    error_value: str = ""


@dataclass(frozen=True, slots=True)
class Die:
    """End the kernel: by a signal, or with an exit code if ``signal`` is None."""

    signal: int | None = 9
    exit_code: int | None = None
    last_words: str = ""


Step = Text | Rich | Clear | Advance | Finish | Die
