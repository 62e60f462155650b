"""Jupyter messages in, message values out: the part of a session that needs no socket.

Rules:

- iopub gives the order. A request is finished when its reply *and* its idle status have been seen: then all
  of its output has been handed on before it.
- A kernel that never sends the idle status is not waited for: once iopub has been quiet for `IDLE_GRACE`
  seconds after the reply, the request is finished without it.
- Consecutive text on the same stream is joined, up to `JOINED_CHARACTERS`; it is never held back for that.
- What is not output (status, execute_input, comm messages …) yields nothing. What is malformed yields
  nothing either: a kernel cannot make its supervisor fall over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, cast

from kernel_bridge.interface import (
    ClearOutput,
    ExecutionFinished,
    KernelInfo,
    KernelMessage,
    RichOutput,
    StreamText,
)

IDLE_GRACE = 3.0
JOINED_CHARACTERS = 1024 * 1024

_RICH = frozenset({"display_data", "update_display_data", "execute_result", "error"})


@dataclass(slots=True)
class _Open:
    """A request that is not over: what has been seen of its end."""

    reply: dict[str, Any] | None = None
    is_idle: bool = False


class Conversation:
    """What has been said and not yet handed on, and which requests are open."""

    def __init__(self) -> None:
        self._ready: deque[KernelMessage] = deque()
        self._open: dict[str, _Open] = {}
        self._last_heard = 0.0

    @property
    def open_requests(self) -> int:
        """How many requests have been sent and are not over."""
        return len(self._open)

    def opened(self, request: str) -> None:
        """A request was sent."""
        self._open[request] = _Open()

    def add(self, message: KernelMessage) -> None:
        """Hand on a message that did not come over a channel."""
        self._ready.append(message)

    def next(self) -> KernelMessage | None:
        """The next message; neighbouring pieces of one stream come as one."""
        if not self._ready:
            return None
        first = self._ready.popleft()
        if not isinstance(first, StreamText):
            return first
        pieces, size = [first.text], len(first.text)
        while self._ready and isinstance(piece := self._ready[0], StreamText):
            size += len(piece.text)
            if (piece.request, piece.name) != (first.request, first.name) or size > JOINED_CHARACTERS:
                break
            pieces.append(piece.text)
            self._ready.popleft()
        return first if len(pieces) == 1 else StreamText(first.request, first.name, "".join(pieces))

    def heard_iopub(self, message: dict[str, Any], now: float) -> int:
        """Take a message from iopub; returns the number of characters of stream text in it."""
        self._last_heard = now
        kind, content, request = message["msg_type"], message["content"], _request_of(message)
        match kind, content:
            case "stream", {"name": "stdout" | "stderr" as name, "text": str(text)}:
                self._ready.append(StreamText(request, cast(Literal["stdout", "stderr"], name), text))
                return len(text)
            case "clear_output", dict():
                self._ready.append(ClearOutput(request, bool(content.get("wait", False))))
            case "status", {"execution_state": "idle"} if request in self._open:
                self._open[request].is_idle = True
                self._finish_if_over(request)
            case str(), dict() if kind in _RICH:
                self._ready.append(RichOutput(request, cast(Any, kind), content))
        return 0

    def heard_shell(self, message: dict[str, Any], now: float) -> None:
        """Take a message from the shell channel."""
        request = _request_of(message)
        if message["msg_type"] == "execute_reply" and request in self._open:
            self._last_heard = now
            self._open[request].reply = message["content"]
            self._finish_if_over(request)

    def grace_ends(self) -> float | None:
        """When a request that was answered but not followed by an idle status is to be given up on."""
        answered = any(each.reply is not None for each in self._open.values())
        return self._last_heard + IDLE_GRACE if answered else None

    def grace_is_over(self) -> None:
        """Finish what has been answered, although its idle status never came."""
        for request, each in list(self._open.items()):
            each.is_idle = each.is_idle or each.reply is not None
            self._finish_if_over(request)

    def _finish_if_over(self, request: str) -> None:
        each = self._open[request]
        if each.reply is not None and each.is_idle:
            del self._open[request]
            self._ready.append(_finished(request, each.reply))


def _request_of(message: dict[str, Any]) -> str | None:
    parent = message["parent_header"].get("msg_id")
    return parent if isinstance(parent, str) else None


def _finished(request: str, reply: dict[str, Any]) -> ExecutionFinished:
    status = reply.get("status", "error")
    count, traceback = reply.get("execution_count"), reply.get("traceback")
    return ExecutionFinished(
        request,
        # "abort" is what kernels before protocol 5.1 said
        "ok" if status == "ok" else "aborted" if status in ("abort", "aborted") else "error",
        execution_count=count if isinstance(count, int) else None,
        error_name=str(reply.get("ename", "")),
        error_value=str(reply.get("evalue", "")),
        traceback=tuple(map(str, traceback)) if isinstance(traceback, list) else (),
    )


def described(answer: dict[str, Any], kernel_name: str, pid: int) -> KernelInfo:
    """What a kernel_info_reply says of its kernel."""
    language = answer.get("language_info") or {}
    return KernelInfo(
        kernel_name=kernel_name,
        language=str(language.get("name", "")),
        language_version=str(language.get("version", "")),
        pid=pid,
        supports_subshells="kernel subshells" in (answer.get("supported_features") or ()),
    )
