"""Back pressure: code that prints faster than the supervisor takes waits for it, and no output is lost.

ipykernel buffers all that is printed between two flushes and hands it to a socket that queues without regard
to memory or, above a limit, drops silently. The supervisor shares a counter of the characters it has taken
(`kernel_bridge.flow_ack`; the path is in ``GYOSHU_FLOW_ACK``). `install` wraps ``write`` and ``flush`` of the
kernel's two output streams; from then on, after every `WINDOW` bytes or `FLUSHES` flushes, the printing
thread flushes and waits until the supervisor has taken all that was written up to the wait before this one.
So never more than two windows are on the way, and the two sides work at the same time.

Rules:

- Output never hangs user code. After `PATIENCE` seconds without any movement of the counter the wait is given
  up and what is outstanding is forgotten; nobody waits again until the counter moves.
- The wait is a sleep in Python: KeyboardInterrupt passes through, other threads go on.
- The thread that publishes the output never waits: it would wait for itself.
- The wrappers are attributes of the stream objects, not streams put in their place, so that output of child
  processes, which ipykernel reads from file descriptors 1 and 2 in a thread of its own, is held back too.
- A cell ends when that thread has read what is in its pipes, or after `SETTLING` seconds in which it was not
  held back: else the last lines of a child process would come after the end of its stage.
- IPython 9 keeps every printed string of a session in memory, for the sake of ``%notebook``. That is switched
  off: it is a gigabyte after a gigabyte was printed, and the supervisor writes the executed notebook.
- A long text is written in pieces: the stream's buffer takes four bytes for every character.
- Half a surrogate pair is written as its escape, since ipykernel loses the whole buffer that has one in it.
- A forked child neither counts nor waits: its memory is a copy and its output goes through its parent.

Not handled: output of forked children (``multiprocessing``) is counted by the supervisor alone, so while they
print their parent waits less than it should; rich output is not held back, but no longer dropped either.
Text that never arrives (swallowed by a hook on the stream) makes the count drift and costs one wait of
`PATIENCE`, after which the count is right again.
"""

from __future__ import annotations

import mmap
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

__all__ = ["install", "uninstall"]

WINDOW = 2 * 1024 * 1024
FLUSHES = 200  # well below the 1000 messages that a zmq socket queues by default
PIECE = 256 * 1024
PATIENCE = 5.0
SETTLING = 0.25
_NAP = 0.001
_VARIABLE = "GYOSHU_FLOW_ACK"


class _Guarded(NamedTuple):
    """A stream, the gate's method that stands before its own, and its own."""

    stream: Any
    counted_write: Callable[[str], int | None]
    write: Callable[[str], int | None]
    flush: Callable[[], None]


class _Gate:
    """Counts what is written to a set of streams and waits for the supervisor's counter."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:  # noqa: PTH123  pathlib would cost the kernel an import
            self._memory = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
        self._words = memoryview(self._memory).cast("Q")
        self._process = os.getpid()
        self._lock = threading.RLock()  # re-entrant: a signal handler may print while we hold it
        self._written = self._last_point = self._words[0]  # characters, in all and up to the last wait
        self._weight = 0  # bytes, about, since the last wait
        self._flushes = 0
        self._gave_up_at: int | None = None  # where the counter stood when the wait was given up
        self._held_threads: set[int] = set()
        self._guarded: list[_Guarded] = []
        self._children_before = _children_reaped()

    def guard(self, stream: Any) -> None:
        """Put this gate before a stream's ``write`` and ``flush``."""
        # The class's own: at this moment ``stream.write`` may be IPython's, for the length of a cell.
        write, flush = type(stream).write.__get__(stream), type(stream).flush.__get__(stream)

        def counted_write(string: str) -> int | None:
            if not isinstance(string, str) or not string or os.getpid() != self._process:
                return write(string)  # type: ignore[no-any-return]  # the stream is untyped
            for start in range(0, len(string), PIECE):
                piece = string if len(string) <= PIECE else string[start : start + PIECE]
                weight = 1
                if not piece.isascii():
                    piece, weight = _encodable(piece), 4  # Python may store one character in four bytes
                write(piece)
                with self._lock:
                    self._written += len(piece)
                    self._weight += weight * len(piece)
                if self._weight >= WINDOW:
                    self._synchronise(stream)
            return len(string)

        def counted_flush() -> None:
            flush()
            self._flushes += 1
            if self._flushes >= FLUSHES and os.getpid() == self._process:
                self._synchronise(stream)

        stream.write, stream.flush = counted_write, counted_flush
        self._guarded.append(_Guarded(stream, counted_write, write, flush))
        stream.pub_thread.schedule(lambda: _lift_limit(stream.pub_thread))

    def begin_cell(self) -> None:
        """Come back where a stream was given its own ``write`` back, as IPython does after each cell."""
        self._children_before = _children_reaped()
        for each in self._guarded:
            if each.stream.write == each.write:
                each.stream.write = each.counted_write

    def settle(self) -> None:
        """Let the end of a child process's output through before the cell is called finished."""
        no_child = self._children_before == _children_reaped()
        if no_child and not any(_has_unread_output(each.stream) for each in self._guarded):
            return  # as good as every cell: two naps here would be a quarter of what a short cell takes
        begun = last_held = time.monotonic()
        quiet = 0
        while quiet < 2:  # twice: a piece may be between pipe and stream
            time.sleep(_NAP / 2)
            now = time.monotonic()
            if self._held_threads:
                last_held = now
            if now - last_held > SETTLING or now - begun > PATIENCE:
                break
            quiet = 0 if any(_has_unread_output(each.stream) for each in self._guarded) else quiet + 1

    def open(self) -> None:
        """Take the gate away again."""
        for each in self._guarded:
            del each.stream.write, each.stream.flush
        self._guarded.clear()
        self._words.release()
        self._memory.close()

    def _synchronise(self, stream: Any) -> None:
        if threading.current_thread() is stream.pub_thread.thread:
            return
        for each in self._guarded:
            each.flush()
        with self._lock:
            self._weight = self._flushes = 0
            goal, self._last_point = self._last_point, self._written
        if self._words[0] == self._gave_up_at:
            return
        self._gave_up_at = None
        taken = self._wait_for(goal)
        with self._lock:
            if self._gave_up_at is not None or taken > self._written:
                self._written = self._last_point = taken

    def _wait_for(self, goal: int) -> int:
        """Wait until so much has been taken, or nothing more is; how much has been."""
        thread = threading.get_ident()
        self._held_threads.add(thread)
        try:
            taken, deadline = self._words[0], time.monotonic() + PATIENCE
            while taken < goal:
                time.sleep(_NAP)
                before, taken = taken, self._words[0]
                if taken != before:
                    deadline = time.monotonic() + PATIENCE
                elif time.monotonic() >= deadline:
                    self._gave_up_at = taken
                    break
            return taken
        finally:
            self._held_threads.discard(thread)


_gate: _Gate | None = None


def install(ack_path: str | None = None) -> bool:
    """Start to hold back output; whether it is now. Does nothing without a counter or an ipykernel stream."""
    global _gate
    if _gate is not None:
        return True
    path = ack_path or os.environ.get(_VARIABLE)
    streams = [each for each in (sys.stdout, sys.stderr) if hasattr(each, "pub_thread")]
    if not path or not streams:
        return False
    try:
        gate = _Gate(path)
    except (OSError, ValueError):  # no such file, or too short: output flows as it did before
        return False
    for stream in streams:
        gate.guard(stream)
    if shell := _shell():
        shell.events.register("pre_execute", gate.begin_cell)
        shell.events.register("post_execute", gate.settle)
        shell._tee = lambda channel: nullcontext()
    _gate = gate
    return True


def uninstall() -> None:
    """Give the streams their own methods back."""
    global _gate
    if _gate is None:
        return
    if shell := _shell():
        shell.events.unregister("pre_execute", _gate.begin_cell)
        shell.events.unregister("post_execute", _gate.settle)
        del shell._tee
    _gate.open()
    _gate = None


def _shell() -> Any:
    """The IPython shell of this kernel; None if it has none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _children_reaped() -> tuple[int, int]:
    """A pair that changes whenever a child process has ended and been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_minflt, usage.ru_nvcsw


def _has_unread_output(stream: Any) -> bool:
    """Whether something written to the file descriptor has not been read by ipykernel's thread for it."""
    descriptor = getattr(stream, "_fid", None)
    if descriptor is None:
        return False
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def _lift_limit(pub_thread: Any) -> None:
    """Let the publishing socket queue what it would drop; the gate keeps the queue short. On its thread."""
    with suppress(Exception):  # another kernel's kind of socket keeps its limit
        pub_thread.socket.sndhwm = 0
