"""What the rest of the world may ask of a kernel, and what a kernel says. Knows nothing of checkpoints.

A `KernelSession` is driven by one thread: `execute` sends, `receive` waits for the next thing that happened.
Everything that happens arrives through `receive`, in order, as one of the message values below; death is a
message too, not an exception. Two implementations: `jupyter_session` (real) and `scripted_session` (plays a
script in memory; for tests).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


class KernelNotAvailable(Exception):
    """The kernel is not installed, or did not come up. ``detail`` is what it wrote to stderr, shortened."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What the kernel said of itself when it came up."""

    kernel_name: str
    language: str
    language_version: str
    pid: int
    supports_subshells: bool = False


@dataclass(frozen=True, slots=True)
class StreamText:
    """Text on stdout or stderr. ``request`` is the id that `execute` returned, or None for stray output."""

    request: str | None
    name: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class RichOutput:
    """display_data, update_display_data, execute_result or error, with the Jupyter message's content."""

    request: str | None
    kind: Literal["display_data", "update_display_data", "execute_result", "error"]
    content: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ClearOutput:
    """The cell asked that its output be cleared, at once or when the next output comes."""

    request: str | None
    wait: bool


@dataclass(frozen=True, slots=True)
class ExecutionFinished:
    """A request is over and all of its output has been received."""

    request: str
    status: Literal["ok", "error", "aborted"]
    execution_count: int | None = None
    error_name: str = ""
    error_value: str = ""
    traceback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelEnded:
    """The kernel process is gone. ``signal`` is set when one ended it, else ``exit_code``.

    ``last_words`` is the tail of what it wrote to file descriptors 1 and 2, below Jupyter's streams.
    """

    exit_code: int | None
    signal: int | None
    last_words: str = ""


KernelMessage = StreamText | RichOutput | ClearOutput | ExecutionFinished | KernelEnded


class KernelSession(Protocol):
    """One kernel process and the conversation with it."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. A stopped (SIGSTOP) process counts as alive."""

    def start(self) -> KernelInfo:
        """Start the kernel and wait until it answers; :class:`KernelNotAvailable` if it does not."""

    def execute(self, code: str, *, silent: bool = False) -> str:
        """Send code and return the id of the request. Input is refused. Silent: no counter, no history."""

    def receive(self, timeout: float | None) -> KernelMessage | None:
        """The next message, or None after ``timeout`` seconds without one (at once after KernelEnded)."""

    def interrupt(self) -> None:
        """SIGINT, or an interrupt_request where the kernel's spec asks for one."""

    def terminate(self) -> None:
        """SIGTERM to the kernel's process."""

    def kill(self) -> None:
        """SIGKILL to the kernel's process group."""

    def close(self) -> None:
        """End the kernel if it still runs, reap it, and remove the sockets. May be called twice."""
