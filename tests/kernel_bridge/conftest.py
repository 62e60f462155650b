"""Real kernels that are closed whatever happens, and kernelspecs made for one test."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernel_bridge.interface import ExecutionFinished, KernelEnded, KernelInfo, KernelMessage, StreamText
from kernel_bridge.jupyter_session import JupyterSession

DEADLINE = 20.0


class Kernel:
    """A session and what a test likes to ask of it."""

    def __init__(self, session: JupyterSession, info: KernelInfo) -> None:
        self.session = session
        self.info = info

    def run(self, code: str, *, silent: bool = False) -> list[KernelMessage]:
        """Everything that comes from executing code, its end included."""
        request = self.session.execute(code, silent=silent)
        return self.until(
            lambda message: isinstance(message, ExecutionFinished) and message.request == request
        )

    def until(self, is_it: Callable[[KernelMessage], bool]) -> list[KernelMessage]:
        """Messages up to the one that was waited for."""
        messages: list[KernelMessage] = []
        deadline = time.monotonic() + DEADLINE
        while (left := deadline - time.monotonic()) > 0:
            message = self.session.receive(left)
            if message is not None:
                messages.append(message)
                if is_it(message):
                    return messages
                assert not isinstance(message, KernelEnded), message
        raise AssertionError(
            f"not received within {DEADLINE} s; at last there was {str(messages[-2:])[-500:]}"
        )

    @staticmethod
    def text(messages: list[KernelMessage], name: str = "stdout") -> str:
        """What was written to one stream."""
        return "".join(each.text for each in messages if isinstance(each, StreamText) and each.name == name)

    def until_death(self) -> tuple[list[KernelMessage], KernelEnded]:
        *before, ended = self.until(lambda message: isinstance(message, KernelEnded))
        assert isinstance(ended, KernelEnded)
        return before, ended


@pytest.fixture
def has_ended() -> Callable[[int], bool]:
    """Whether a process is gone, or goes within the deadline."""

    def has_ended(pid: int) -> bool:
        try:
            psutil.Process(pid).wait(DEADLINE)
        except psutil.NoSuchProcess:
            return True
        except psutil.TimeoutExpired:
            return False
        return True

    return has_ended


@pytest.fixture
def start_kernel(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    sessions: list[JupyterSession] = []

    def start(name: str = "python3", **options: Any) -> Kernel:
        session = JupyterSession(name, cwd=tmp_path, **options)
        sessions.append(session)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PYTEST_CURRENT_TEST")  # ipykernel does not watch file descriptors when it sees that
            return Kernel(session, session.start())

    yield start
    for session in sessions:
        session.close()


@pytest.fixture
def kernel(start_kernel: Callable[..., Kernel]) -> Kernel:
    return start_kernel()


@pytest.fixture
def make_kernelspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Install a kernelspec for this test; by default one around ipykernel. Returns its name."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))

    def make(name: str, *argv: str, **fields: Any) -> str:
        directory = tmp_path / "jupyter" / "kernels" / name
        directory.mkdir(parents=True)
        command = argv or (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        spec = {"argv": command, "display_name": name, "language": "python", **fields}
        (directory / "kernel.json").write_text(json.dumps(spec))
        return name

    return make
