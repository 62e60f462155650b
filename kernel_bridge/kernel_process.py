"""One kernel process: started by its kernelspec, watched by pidfd, signalled without hitting a stranger.

Rules:

- The kernel leads a session and process group of its own, so that Ctrl+C in the terminal does not reach it.
- It dies with us: the child asks Linux for SIGKILL when its parent goes (PR_SET_PDEATHSIG). "Parent" means
  the *thread* that called `launch`; a thread that starts a kernel has to live as long as it.
- Nobody but `end` waits for the process. Until then its pid and group id cannot be given to another
  process, so signals to the group go where they should. Whatever is left of the group when its leader
  has died is killed in `end`, the last moment at which this is safe.
- What the process writes to file descriptors 1 and 2 must be drained (`drain_output`), or it will block on
  a full pipe. Only the tail is kept.

Not handled: descendants that left the group with ``setsid``, and provisioners that start the kernel on
another machine.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

from kernel_bridge.interface import KernelNotAvailable

KEPT_OUTPUT_BYTES = 64 * 1024
_PIPE_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here: between fork and exec nothing may be imported

_T = TypeVar("_T")


class KernelProcess:
    """A started kernel. ``pidfd`` and ``output`` can be polled: readable means ended, or written to."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.pid = process.pid
        self.pidfd = os.pidfd_open(process.pid)
        self.output = output
        self._process = process
        self._kept = b""
        self._closed = False

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is stopped. Does not reap."""
        return not self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended within that time. Its output is drained meanwhile."""
        if self._process.returncode is not None:
            return True
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        poller.register(self.output, select.POLLIN)
        deadline = time.monotonic() + seconds
        while True:
            ready = [each for each, _ in poller.poll(max(0.0, deadline - time.monotonic()) * 1000)]
            if self.pidfd in ready or not ready:
                return self.pidfd in ready
            if not self.drain_output():
                poller.unregister(self.output)

    def signal_process(self, number: signal.Signals) -> None:
        """Send a signal to the kernel alone; nothing happens if it has ended."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the kernel and to what it started, unless the kernel has ended."""
        if self.is_alive:
            self._signal_group(number)

    def drain_output(self) -> bool:
        """Take what is there now, without waiting. False if there was nothing, or no writer is left."""
        try:
            chunk = os.read(self.output, _PIPE_BYTES)
        except BlockingIOError:
            return False
        self._kept = (self._kept + chunk)[-KEPT_OUTPUT_BYTES:]
        return bool(chunk)

    def last_words(self) -> str:
        """The tail of what the process wrote to stdout and stderr at the level of file descriptors."""
        for _ in range(16):  # more than a pipe holds; not for ever, since a stray child may go on writing
            if self._closed or not self.drain_output():
                break
        return self._kept.decode(errors="replace").strip()

    def end(self) -> int:
        """Kill what is left of the group, reap the leader, and say how it ended: negative is a signal."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGKILL)
        return self._process.wait()

    def close(self) -> None:
        """`end`, and close the descriptors. May be called twice."""
        self.end()
        if not self._closed:
            self._closed = True
            os.close(self.pidfd)
            os.close(self.output)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def launch(manager: AsyncKernelManager, *, cwd: Path, env: Mapping[str, str]) -> KernelProcess:
    """Start the manager's kernel; OSError if its command cannot be run.

    The manager's own `start_kernel` is not used: it needs an event loop of this thread, which a notebook
    cell that calls us already occupies, and it would open a control socket that we do not want.
    """
    output, output_of_kernel = os.pipe()
    try:
        os.set_blocking(output, False)
        command, options = _without_waiting(
            manager.pre_start_kernel(
                cwd=str(cwd),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output_of_kernel,
                stderr=output_of_kernel,
                preexec_fn=_die_with_parent(),
                # A run is no typing session: its cells do not belong in the user's history file, and writing
                # them there costs a disk sync each.
                extra_arguments=["--HistoryManager.hist_file=:memory:"] if manager.ipykernel else [],
            )
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of any preexec_fn once a thread exists. Ours makes two system calls.
            warnings.simplefilter("ignore", DeprecationWarning)
            provisioner = cast(KernelProvisionerBase, manager.provisioner)  # made by pre_start_kernel
            _without_waiting(provisioner.launch_kernel(command, **options))
        process = getattr(provisioner, "process", None)
        if not isinstance(process, subprocess.Popen):
            raise KernelNotAvailable(f"The kernel '{manager.kernel_name}' is not run as a local process.")
        return KernelProcess(process, output)
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(output_of_kernel)


def release(manager: AsyncKernelManager) -> None:
    """Give back what the manager holds for the kernel, such as its ports."""
    if manager.provisioner is not None:
        _without_waiting(manager.provisioner.cleanup())


def _without_waiting(work: Awaitable[_T]) -> _T:
    """Run a coroutine that never really waits, without an event loop. Local provisioners have only such."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return cast(_T, done.value)
    steps.close()
    raise KernelNotAvailable("The kernel's provisioner waits for something: only local kernels can be run.")


def _die_with_parent() -> Callable[[], None]:
    parent = os.getpid()

    def ask_for_the_signal() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request was in place
            os._exit(1)

    return ask_for_the_signal
