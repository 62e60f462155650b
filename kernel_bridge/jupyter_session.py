"""A real kernel, driven over jupyter_client by one thread that waits in one place.

Everything that can happen is in one poller: the iopub, shell, stdin and control channels, the pidfd that
tells of the kernel's death, and the pipe of what it writes below Python. `receive` waits there; nothing runs
in the background except zmq's own input thread.

Rules:

- Nothing is dropped on our side: the receive queue has no limit. What keeps it short is `receive` being
  called, and flow control in kernels that take part in it (`flow_ack`).
- Death is announced after what the kernel still got out: iopub must have been quiet for a moment.
- Input is refused (``allow_stdin`` is false). A kernel that asks nevertheless is told "end of file".
- SIGINT and SIGKILL go to the kernel's process group, so that its children are stopped with it; SIGTERM to
  the kernel alone. `kernel_process` says why that is safe.

The thread that calls `start` must live as long as the kernel, which is killed when that thread ends.

Not handled: restarting (make a new session), remote kernels, the heartbeat channel (a stopped process is
seen better from outside), and descendants that leave the kernel's process group.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from traitlets import TraitError

from kernel_bridge.channels import Channel, Channels
from kernel_bridge.conversation import Conversation, described
from kernel_bridge.flow_ack import FLOW_ACK_VARIABLE, StreamAcknowledger
from kernel_bridge.interface import KernelEnded, KernelInfo, KernelMessage, KernelNotAvailable, StreamText
from kernel_bridge.kernel_process import launch, release
from kernel_bridge.meeting_place import MeetingPlace

_QUIET_AFTER_DEATH = 0.2
_ASK_AGAIN = 0.25  # for kernels without iopub_welcome, whose first status message we may have missed
_SHUTDOWN_GRACE = 1.0
_TERMINATE_GRACE = 0.5
_BATCH_CHARACTERS = 1024 * 1024
_BATCH_MESSAGES = 256
_DETAIL_LINES = 20


def require_installed(kernel_name: str) -> None:
    """:class:`KernelNotAvailable`, with the names of those that are, if no kernel has this name."""
    try:
        KernelSpecManager().get_kernel_spec(kernel_name)
    except NoSuchKernel:
        raise KernelNotAvailable(_no_such_kernel(kernel_name)) from None


class JupyterSession:
    """One kernel of any installed kernelspec. ``env`` is added to our own environment."""

    def __init__(
        self,
        kernel_name: str,
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        startup_timeout: float = 60,
    ) -> None:
        self._kernel_name = kernel_name
        self._cwd = cwd
        self._env = dict(env or {})
        self._startup_timeout = startup_timeout
        self._resources = ExitStack()
        self._conversation = Conversation()
        self._interrupts_by_message = False
        self._is_ready = False
        self._death_due: float | None = None  # when to announce it, unless more output comes
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return hasattr(self, "_process") and self._process.is_alive

    def start(self) -> KernelInfo:
        """Start the kernel and wait until it answers and its output reaches us."""
        deadline = time.monotonic() + self._startup_timeout
        try:
            self._launch()
            info = self._wait_until_ready(deadline)
        except BaseException:
            self.close()
            raise
        self._is_ready = True
        return info

    def execute(self, code: str, *, silent: bool = False) -> str:
        """Send code; to a kernel that has ended too, of whose end `receive` tells."""
        request = self._channels.ask_to_execute(code, silent=silent)
        self._conversation.opened(request)
        return request

    def receive(self, timeout: float | None) -> KernelMessage | None:
        """The next message. Text counts as taken, for flow control, when it is returned from here."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (message := self._conversation.next()) is None and not self._is_over:
            last_look = deadline is not None and time.monotonic() >= deadline
            self._listen(deadline)
            if last_look:
                message = self._conversation.next()
                break
        if isinstance(message, StreamText):
            self._acknowledger.add(len(message.text))
        return message

    def interrupt(self) -> None:
        """SIGINT to the process group, or an interrupt_request where the kernelspec asks for one."""
        if self._interrupts_by_message:
            self._channels.ask_to_interrupt()
        else:
            self._process.signal_group(signal.SIGINT)

    def terminate(self) -> None:
        """SIGTERM to the kernel's process."""
        self._process.signal_process(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the kernel's process group."""
        self._process.signal_group(signal.SIGKILL)

    def close(self) -> None:
        """Ask an idle kernel to leave, make a busy one leave, reap it, and remove every trace."""
        with self._resources:  # what was acquired goes, also when the waiting here is interrupted
            if self._is_ready and self.is_alive:
                if not self._conversation.open_requests:
                    self._channels.ask_to_shut_down()
                    self._process.wait(_SHUTDOWN_GRACE)
                self._process.signal_process(signal.SIGTERM)
                self._process.wait(_TERMINATE_GRACE)
            self._is_over = True

    def _launch(self) -> None:
        place = MeetingPlace()
        self._resources.callback(place.remove)
        acknowledgements = place.path / "taken"
        self._acknowledger = StreamAcknowledger(acknowledgements)
        self._resources.callback(self._acknowledger.close)
        environment = {
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else every ipykernel greets with four lines on stderr
            **os.environ,
            **self._env,
            FLOW_ACK_VARIABLE: str(acknowledgements),
        }
        manager = AsyncKernelManager(kernel_name=self._kernel_name, **place.connection_options())
        try:
            spec = KernelSpecManager().get_kernel_spec(self._kernel_name)
            self._interrupts_by_message = spec.interrupt_mode == "message"
            self._process = launch(manager, cwd=self._cwd, env=environment)
        except NoSuchKernel:
            raise KernelNotAvailable(_no_such_kernel(self._kernel_name)) from None
        except (OSError, ValueError, TraitError) as error:
            message = f"The kernel '{self._kernel_name}' cannot be started: {error}"
            raise KernelNotAvailable(message) from error
        self._resources.callback(release, manager)
        self._resources.callback(self._process.close)
        self._channels = Channels(manager)
        self._resources.callback(self._channels.close)
        self._channels.watch(self._process.pidfd)
        self._channels.watch(self._process.output)

    def _wait_until_ready(self, deadline: float) -> KernelInfo:
        self._channels.ask_for_kernel_info()
        answer: dict[str, Any] | None = None
        is_subscribed = False
        while answer is None or not is_subscribed:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._not_started(f"did not answer within {self._startup_timeout:g} s")
            ready = self._channels.poll(left if answer is None else min(left, _ASK_AGAIN))
            self._drain_output(ready)
            if self._process.pidfd in ready:
                raise self._not_started("ended while it was starting")
            is_subscribed = self._read_iopub() or is_subscribed
            while message := self._channels.read("shell"):
                if message["msg_type"] == "kernel_info_reply":
                    answer = message["content"]
            if answer is not None and not ready:
                self._channels.ask_for_kernel_info()
        return described(answer, self._kernel_name, self._process.pid)

    def _not_started(self, what_happened: str) -> KernelNotAvailable:
        self._process.end()
        lines = self._process.last_words().splitlines()
        reason = f": {lines[-1]}" if lines else "."
        message = f"The kernel '{self._kernel_name}' {what_happened}{reason}"
        return KernelNotAvailable(message, detail="\n".join(lines[-_DETAIL_LINES:]))

    def _listen(self, deadline: float | None) -> None:
        """Wait once, until something happens or one of the times has come, and take it in."""
        times = (deadline, self._conversation.grace_ends(), self._death_due)
        due = min((each for each in times if each is not None), default=None)
        ready = self._channels.poll(None if due is None else due - time.monotonic())
        self._drain_output(ready)
        if self._process.pidfd in ready:
            self._channels.unwatch(self._process.pidfd)
            self._death_due = time.monotonic() + _QUIET_AFTER_DEATH
        if "iopub" in ready and self._read_iopub() and self._death_due is not None:
            self._death_due = time.monotonic() + _QUIET_AFTER_DEATH
        while message := self._channels.read("shell"):
            self._conversation.heard_shell(message, time.monotonic())
        while message := self._channels.read("stdin"):
            if message["msg_type"] == "input_request":
                self._channels.refuse_input()
        while self._channels.read("control"):
            pass
        self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        grace_ends = self._conversation.grace_ends()
        if grace_ends is not None and now >= grace_ends:
            self._conversation.grace_is_over()
        if self._death_due is not None and now >= self._death_due:
            code = self._process.end()
            ended = KernelEnded(
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                last_words=self._process.last_words(),
            )
            self._conversation.add(ended)
            self._death_due = None
            self._is_over = True

    def _read_iopub(self) -> bool:
        """Take what is there, up to a batch, so that neighbouring texts can be joined. Whether any was."""
        characters = 0
        for count in range(_BATCH_MESSAGES):
            message = self._channels.read("iopub")
            if message is None:
                return count > 0
            characters += self._conversation.heard_iopub(message, time.monotonic())
            if characters >= _BATCH_CHARACTERS:
                break
        return True

    def _drain_output(self, ready: set[Channel | int]) -> None:
        output = self._process.output
        if output in ready and not self._process.drain_output():
            self._channels.unwatch(output)


def _no_such_kernel(name: str) -> str:
    installed = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
    return f"There is no kernel named '{name}'. Installed: {installed}."
