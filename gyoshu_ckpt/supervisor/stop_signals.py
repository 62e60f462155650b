"""Ctrl+C, SIGTERM and SIGHUP become a request to stop, which the loop picks up between two messages.

A handler only writes down what came: everything else happens in the loop, where the state is. A third signal
of any kind ends the process at once, for whoever thinks that the loop itself hangs.
"""

from __future__ import annotations

import signal
from collections import deque
from types import FrameType, TracebackType
from typing import Any

from gyoshu_ckpt.core.events import StopCause

_CAUSES = {
    signal.SIGINT: StopCause.CTRL_C,
    signal.SIGTERM: StopCause.SIGTERM,
    signal.SIGHUP: StopCause.SIGHUP,
}
_PATIENCE = 2


class StopSignals:
    """Listens while the block runs; puts the handlers back afterwards."""

    def __init__(self) -> None:
        self._waiting: deque[StopCause] = deque()
        self._seen = 0
        self._before: dict[signal.Signals, Any] = {}

    def next(self) -> StopCause | None:
        """The oldest request that nobody has taken yet."""
        return self._waiting.popleft() if self._waiting else None

    def __enter__(self) -> StopSignals:
        for number in _CAUSES:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        if self._seen > _PATIENCE:
            raise KeyboardInterrupt
        self._waiting.append(_CAUSES[signal.Signals(number)])
