"""The journal: an append-only record of all that happened in a run, one checksummed line per event.

::

    {"seq":7,"at":"2026-03-01T10:32:00+01:00","event":"stage_ended",…fields…,"sum":"16 hex digits"}

Rules
1. ``sum`` is the start of the SHA-256 over the line's canonical JSON (sorted keys, no blanks, ASCII) without
   ``sum``. What does not match is counted, never believed and never repaired.
2. Lines are only ever appended. After a torn line a newline is appended, so that the damage stands alone.
3. ``seq`` grows along the file; a line that breaks this (pasted, replayed) counts as damaged.
4. The journal is the story, not the truth: reading never fails for what the file holds.

Not handled here: what the events mean (`core.events`), and two writers at once (`run_lock`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from gyoshu_ckpt.errors import Damaged, InternalBug
from gyoshu_ckpt.storage.durable_files import (
    append_durably,
    make_directories,
    open_for_append,
    translate_os_errors,
)
from gyoshu_ckpt.storage.no_follow import Refused, open_or_refuse

LONGEST_LINE = 8 * 2**20  # bytes; longer ones are damage, and are skipped without being held in memory
_OWN_KEYS = frozenset({"seq", "at", "event", "sum"})


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One event, as it was written. ``at`` is for people; order is ``seq``."""

    seq: int
    at: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalReading:
    """What a journal holds. ``torn_tail``: the last line was cut short; it is not among ``damaged_lines``."""

    records: tuple[JournalRecord, ...]
    damaged_lines: int
    torn_tail: bool


def wall_clock() -> str:
    """The time for people, with its offset."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def read_journal(path: Path, below: Path) -> JournalReading:
    """All whole records of a journal. A missing one is empty; :class:`Damaged` if it is no file at all."""
    return _read(path, below)[0]


class JournalWriter:
    """Appends to one journal, continuing its sequence. Hold the run lock. Close it, or use it in ``with``."""

    def __init__(self, path: Path, below: Path, *, clock: Callable[[], str] = wall_clock) -> None:
        make_directories(path.parent, below)
        reading, ends_with_newline = _read(path, below)
        self._path = path
        self._clock = clock
        self._last_seq = reading.records[-1].seq if reading.records else 0
        self._in_line = not ends_with_newline
        self._fd = open_for_append(path, below=below)

    def append(self, event: str, fields: Mapping[str, Any], *, sync: bool = True) -> JournalRecord:
        """Add one line. ``sync=False`` is for events whose loss with the power is no loss."""
        record = JournalRecord(self._last_seq + 1, self._clock(), event, dict(fields))
        line = _line_of(record)
        with translate_os_errors(f"write {self._path}", self._path):
            data = b"\n" + line if self._in_line else line
            self._in_line = True  # until the whole line is known to be there
            append_durably(self._fd, data, sync=False)
            self._in_line = False
            self._last_seq = record.seq
            if sync:
                append_durably(self._fd, b"", sync=True)
        return record

    def close(self) -> None:
        """Let go of the file. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(path: Path, below: Path) -> tuple[JournalReading, bool]:
    """The reading, and whether the next line can begin where the file ends."""
    records: list[JournalRecord] = []
    damaged = 0
    torn = ends_with_newline = False
    with translate_os_errors(f"read {path}", path, safe="nothing was changed"):
        try:
            file = open_or_refuse(path, below=below)
        except Refused as problem:
            if problem.missing:
                return JournalReading((), 0, False), True
            raise Damaged(f"{path} {problem.reason}", next_step="move it away, then try again") from None
        with file:
            ends_with_newline = True
            for line, ends_with_newline in _lines(file):
                if line == b"":
                    continue  # a writer could append no more than the newline that sets a torn line apart
                record = _record_of(line) if line is not None else None
                if record is not None and record.seq > (records[-1].seq if records else 0):
                    records.append(record)
                elif ends_with_newline:
                    damaged += 1
                else:
                    torn = True
    return JournalReading(tuple(records), damaged, torn), ends_with_newline


def _lines(file: BinaryIO) -> Iterator[tuple[bytes | None, bool]]:
    """Each line without its newline (None: too long to be ours), and whether it had one."""
    while piece := file.readline(LONGEST_LINE + 1):
        too_long = not piece.endswith(b"\n") and len(piece) > LONGEST_LINE
        while too_long and not piece.endswith(b"\n") and (more := file.readline(LONGEST_LINE)):
            piece = more
        yield None if too_long else piece.removesuffix(b"\n"), piece.endswith(b"\n")


def _line_of(record: JournalRecord) -> bytes:
    if clash := _OWN_KEYS & record.fields.keys():
        raise InternalBug(f"event {record.event} has fields of the journal's own: {sorted(clash)}")
    document = {"seq": record.seq, "at": record.at, "event": record.event, **record.fields}
    try:
        document["sum"] = _sum_of(document)
        line = json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as problem:
        raise InternalBug(f"event {record.event} cannot be written as JSON: {problem}") from None
    if len(line) > LONGEST_LINE:
        raise InternalBug(f"event {record.event} makes a line of {len(line)} bytes; cap its fields")
    return line


def _record_of(line: bytes) -> JournalRecord | None:
    try:
        document = json.loads(line)
        expected = document.pop("sum")
        if _sum_of(document) != expected:
            return None
        record = JournalRecord(document.pop("seq"), document.pop("at"), document.pop("event"), document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # not JSON, no object, a field missing, nested without end
    is_typed = type(record.seq) is int and isinstance(record.at, str) and isinstance(record.event, str)
    return record if is_typed else None


def _sum_of(document: Mapping[str, Any]) -> str:
    # ASCII escapes keep lone surrogates, which kernels do print, writable and exact.
    canonical = json.dumps(document, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]
