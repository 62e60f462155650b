"""The sentences for a value that cannot be saved: what it is, why not, and the way out that fits its kind."""

from __future__ import annotations

import io
import re
import socket
import threading
import types
from typing import Any

from gyoshu_ckpt.codecs.interface import CannotEncode, instance_of, type_name
from gyoshu_ckpt.errors import ValueNotSavable

_MAKE_AGAIN = "make it again in a setup cell, or in the stage that uses it"

_LIVE_TYPES: tuple[type, ...] = (
    io.IOBase,
    socket.socket,
    threading.Thread,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    types.TracebackType,
)
# Module and class of what is alive only in this process; looked up, never imported.
_LIVE_ELSEWHERE = (
    ("sqlite3", "Connection"),
    ("sqlite3", "Cursor"),
    ("subprocess", "Popen"),
    ("multiprocessing.process", "BaseProcess"),
    ("multiprocessing.pool", "Pool"),
    ("concurrent.futures", "Executor"),
    ("asyncio", "AbstractEventLoop"),
    ("psycopg", "Connection"),
    ("psycopg2.extensions", "connection"),
    ("duckdb", "DuckDBPyConnection"),
    ("sqlalchemy.engine", "Engine"),
    ("sqlalchemy.engine", "Connection"),
    ("requests", "Session"),
    ("h5py", "File"),
)
# What the reason names when the live thing is somewhere inside: pickle refused it, or it is a file that came
# back as a copy of its content.
_LIVE_INSIDE = re.compile(
    r"cannot pickle '(?P<kind>[\w.]*(?:lock|Lock|socket|generator|coroutine|Connection|Cursor|SimpleQueue|"
    r"frame|traceback|_ThreadHandle|weakref[\w.]*|_io\.\w+|Buffered\w+|TextIOWrapper))' (?:object|instances)"
    r"|Cannot pickle files|of type _io\."
)


def reason_of(problem: Exception) -> str:
    """Why a codec failed, as the end of a sentence."""
    if isinstance(problem, CannotEncode):
        return str(problem)
    if isinstance(problem, MemoryError):
        return "there is not enough memory for the copy of it that proves the save"
    if isinstance(problem, RecursionError) or "recursion" in str(problem):
        return "it is nested too deeply"
    text = " ".join(str(problem).split())[:300]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def not_savable(value: Any, name: str, reasons: list[str]) -> ValueNotSavable:
    """No codec is left."""
    reason = reasons[-1] if reasons else "no codec takes it"
    inside = _LIVE_INSIDE.search(reason)
    if _is_live(value):
        reason, way_out = f"it is alive only in this kernel ({reason})", _MAKE_AGAIN
    elif inside is not None:
        reason = f"something inside it is alive only in this kernel ({reason})"
        kind = inside["kind"] or "open file"
        way_out = f"{_MAKE_AGAIN}; or keep the {kind} out of what is pickled with __getstate__"
    elif "not enough memory" in reason:
        way_out = f"make {name} smaller or delete what is no longer needed before the stage ends"
    else:
        way_out = f"save what you need of it to gy.artifact_path('{name}.…') and declare that file with --out"
    return ValueNotSavable(f"{name} ({type_name(value)}) cannot be saved: {reason}", next_step=way_out)


def not_as_asked(value: Any, name: str, file_name: str, suffix: str, reasons: list[str]) -> ValueNotSavable:
    """The codec of the suffix that the user gave is not for this value, or not exact for it."""
    reason = "; ".join(dict.fromkeys(reasons)) or f"{suffix} is not for values of this type"
    return ValueNotSavable(
        f"{name} ({type_name(value)}) cannot be kept exactly as {file_name}: {reason}",
        next_step=f"leave out '={file_name}' and gyoshu chooses a format that keeps it exactly",
    )


def _is_live(value: Any) -> bool:
    return isinstance(value, _LIVE_TYPES) or any(
        instance_of(value, module, kind, exactly=False) for module, kind in _LIVE_ELSEWHERE
    )
