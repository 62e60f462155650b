"""Where supervisor and kernel meet: a private directory with their sockets, and the transport to use.

Rules:

- The directory is made new with mode 0700 and removed by `remove`. Everything that only the two may see
  lives in it: unix sockets, the connection file with its key, the flow-control counter. (Jupyter sets the
  sticky bit on it as well; that changes nothing.)
- Unix sockets are the transport wherever they work: no other user can reach them, no port can be stolen,
  and ipykernel does not warn. The path of one is limited to 107 bytes, so a long ``XDG_RUNTIME_DIR`` or
  ``TMPDIR`` is passed over.
- Otherwise tcp on the loopback, encrypted where the kernel says that it can.

Not handled: a directory left behind by a supervisor that was killed. It holds no secret of a living kernel,
since the kernel dies with its supervisor, and lies where the system cleans up.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.manager import KernelManager

_SOCKET_PATH_LIMIT = 107  # sizeof(sockaddr_un.sun_path) without its final zero byte
_TAIL_OF_A_SOCKET_PATH = len("/gyoshu-12345678/k-1")


def ipc_available() -> bool:
    """Whether this zmq can talk over unix sockets."""
    return bool(zmq.has("ipc"))


class MeetingPlace:
    """A private directory for one kernel."""

    def __init__(self) -> None:
        for parent in _short_enough(_candidates()):
            try:
                self.path = Path(tempfile.mkdtemp(prefix="gyoshu-", dir=parent))
            except OSError:
                continue  # not there, or not ours to write: the next one may do
            self._sockets = ipc_available()
            return
        self.path = Path(tempfile.mkdtemp(prefix="gyoshu-"))
        self._sockets = False

    def connection_options(self) -> dict[str, Any]:
        """The traits of a KernelManager that make it meet its kernel here."""
        options: dict[str, Any] = {"connection_file": str(self.path / "connection.json")}
        if self._sockets:
            return {**options, "transport": "ipc", "ip": str(self.path / "k")}  # sockets k-1 … k-5
        if hasattr(KernelManager, "transport_encryption") and zmq.has(
            "curve"
        ):  # not before jupyter_client 8.9
            options["transport_encryption"] = "auto"
        return {**options, "transport": "tcp"}

    def remove(self) -> None:
        """Remove the directory and all that is in it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)


def _candidates() -> Iterator[str]:
    runtime_directory = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime_directory:
        yield runtime_directory
    yield tempfile.gettempdir()
    yield "/tmp"  # noqa: S108  mkdtemp makes a private directory in it


def _short_enough(directories: Iterator[str]) -> Iterator[str]:
    for directory in directories:
        if len(os.fsencode(directory)) + _TAIL_OF_A_SOCKET_PATH <= _SOCKET_PATH_LIMIT:
            yield directory
