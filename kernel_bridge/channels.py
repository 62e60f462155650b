"""The four channels to a kernel and one poller over them and over file descriptors of the caller's choice.

Rules:

- Requests are sent without waiting for the kernel to listen: zmq keeps them until the kernel has bound its
  sockets, and looks for that every few milliseconds.
- The receive queues have no limit, because a full one would make the kernel drop output silently.
- What cannot be verified or parsed is passed over, whatever the reason: the bytes come from user code.

Not handled: the heartbeat channel, which would need a thread.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

Channel = Literal["iopub", "shell", "stdin", "control"]

_RECONNECT_MILLISECONDS = 10
_REMEMBERED_SIGNATURES = 1024  # against replay; Jupyter's default of 65536 would cost 15 MB
_END_OF_FILE = "\x04"  # what Jupyter clients send for Ctrl+D; ipykernel turns it into EOFError


class Channels:
    """Connected sockets, sending and receiving Jupyter messages."""

    def __init__(self, manager: KernelManager) -> None:
        self._context = zmq.Context()
        self._context.linger = 0
        self._context.rcvhwm = 0
        self._context.reconnect_ivl = _RECONNECT_MILLISECONDS
        self._client = BlockingKernelClient(context=self._context)
        self._client.load_connection_info(manager.get_connection_info())
        self._client.session.digest_history_size = _REMEMBERED_SIGNATURES
        self._client.start_channels(hb=False)
        self._sockets: dict[Channel, zmq.Socket[bytes]] = {
            "iopub": self._client.iopub_channel.socket,
            "shell": self._client.shell_channel.socket,
            "stdin": self._client.stdin_channel.socket,
            "control": self._client.control_channel.socket,
        }
        self._names: dict[Any, Channel] = {socket: name for name, socket in self._sockets.items()}
        self._poller = zmq.Poller()
        for socket in self._sockets.values():
            self._poller.register(socket, zmq.POLLIN)

    def watch(self, descriptor: int) -> None:
        """Let `poll` tell when a file descriptor becomes readable."""
        self._poller.register(descriptor, zmq.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """The opposite of `watch`."""
        self._poller.unregister(descriptor)

    def poll(self, seconds: float | None) -> set[Channel | int]:
        """Wait, at most so long, until something can be read; what it is: channels and descriptors."""
        milliseconds = None if seconds is None else math.ceil(max(0.0, seconds) * 1000)
        return {self._names.get(ready, ready) for ready, _ in self._poller.poll(milliseconds)}

    def read(self, channel: Channel) -> dict[str, Any] | None:
        """The next sound message of a channel; None if there is none now."""
        session = self._client.session
        while True:
            try:
                frames = self._sockets[channel].recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return None
            try:
                message: dict[str, Any] = session.deserialize(session.feed_identities(frames)[1])
            except Exception:  # noqa: S112  there is no telling what damaged bytes raise
                continue
            if isinstance(message["content"], dict) and isinstance(message["parent_header"], dict):
                return message

    def ask_for_kernel_info(self) -> None:
        """Send a kernel_info_request."""
        self._client.kernel_info()

    def ask_to_execute(self, code: str, *, silent: bool) -> str:
        """Send an execute_request and return its id."""
        return str(
            self._client.execute(
                code, silent=silent, store_history=not silent, allow_stdin=False, stop_on_error=True
            )
        )

    def ask_to_interrupt(self) -> None:
        """Send an interrupt_request, for kernels that want one in place of a signal."""
        self._client.control_channel.send(self._client.session.msg("interrupt_request", {}))

    def ask_to_shut_down(self) -> None:
        """Send a shutdown_request."""
        self._client.shutdown()

    def refuse_input(self) -> None:
        """Answer an input_request as if the user had closed the input."""
        self._client.input(_END_OF_FILE)

    def close(self) -> None:
        """Close the sockets without waiting for what was not sent. May be called twice."""
        self._client.stop_channels()
        self._context.destroy(linger=0)
