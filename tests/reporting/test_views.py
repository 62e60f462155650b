"""The three ways in which a session is watched, from the same events."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent.parent / "core"))
from plans import plan_of, stage

from gyoshu_ckpt.core.history import fold
from gyoshu_ckpt.core.sizes import count_of, format_bytes
from gyoshu_ckpt.reporting.event_stream import EventStream
from gyoshu_ckpt.reporting.live_view import LiveView
from gyoshu_ckpt.reporting.plain_lines import PlainLines
from gyoshu_ckpt.reporting.progress_page import progress_page
from gyoshu_ckpt.storage.journal import JournalRecord

PLAN = plan_of(stage("S01_a"), stage("S02_b"), stage("S03_c"))
EVENTS = [
    ("stage_started", {"stage": "S02_b", "attempt": 1, "maxDurationSec": 90.0}),
    ("marker", {"type": "STAGE", "subtype": "progress", "attributes": {"id": "S02_b", "pct": "40"}}),
    (
        "stage_completed",
        {"stage": "S02_b", "attempt": 1, "checkpoint": "ckpt-002", "sizeBytes": 1500, "durationSec": 61.25},
    ),
    ("stage_started", {"stage": "S03_c", "attempt": 1, "maxDurationSec": 90.0}),
    ("stopping", {"reason": "manual_abort", "message": "stopped by Ctrl+C"}),
    ("stage_interrupted", {"stage": "S03_c", "attempt": 1, "message": "stopped by Ctrl+C"}),
    ("run_ended", {"state": "ABORTED", "exitCode": 130, "message": "stopped by Ctrl+C"}),
]


def test_plain_lines_have_one_line_for_each_thing_and_no_colour() -> None:
    lines: list[str] = []
    watcher = PlainLines(lines.append)
    watcher.session_began(PLAN, "run-001", {"S01_a": 10})
    watcher.told("something")
    for event, fields in EVENTS:
        watcher.recorded(event, fields)
    watcher.printed("noise")
    watcher.session_ended()
    text = "\n".join(lines)
    assert text.splitlines() == [
        "study · run-001 · 3 stages",
        "  S01_a  stands",
        "  note: something",
        "  S02_b  runs       (limit 1m30s)",
        "  S02_b  completed  1m1.2s, ckpt-002, 1.5 kB",
        "  S03_c  runs       (limit 1m30s)",
        "  stopping: stopped by Ctrl+C",
        "  S03_c  interrupted",
    ]


def test_events_are_one_document_a_line() -> None:
    lines: list[str] = []
    watcher = EventStream(lines.append)
    watcher.session_began(PLAN, "run-001", {"S01_a": 10})
    watcher.told("something")
    for event, fields in EVENTS:
        watcher.recorded(event, fields)
    watcher.printed("noise")
    watcher.session_ended()
    documents = [json.loads(line) for line in lines]
    assert [one["event"] for one in documents] == ["session_began", "notice", *(event for event, _ in EVENTS)]
    assert documents[0]["stand"] == ["S01_a"]


def screen_of(watcher: LiveView, console: Console) -> str:
    with console.capture() as captured:
        console.print(watcher._draw())
    return "\n".join(Text.from_ansi(line).plain for line in captured.get().splitlines())


def test_the_live_view_shows_done_running_and_to_come() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, no_color=True)
    watcher = LiveView(console)
    assert screen_of(watcher, console).strip() == ""
    watcher.session_began(PLAN, "run-001", {"S01_a": 2_000_000})
    watcher.recorded(*EVENTS[0])
    watcher.recorded(*EVENTS[1])
    watcher.printed("first\n\x1b[31mlast line\x1b[0m\n\n")
    screen = screen_of(watcher, console)
    assert "S01_a  stands" in screen
    assert "2.0 MB" in screen
    assert "40 %" in screen
    assert "0s of 1m30s" in screen
    assert "S03_c  to come" in screen
    assert "last line" in screen
    for event, fields in EVENTS[2:]:
        watcher.recorded(event, fields)
    watcher.session_ended()
    screen = screen_of(watcher, console)
    assert "S02_b  done         1m1.2s  ckpt-002  1.5 kB" in screen
    assert "S03_c  interrupted" in screen
    assert "last line" not in screen


def test_the_progress_page_is_a_table_and_the_story() -> None:
    records = [
        JournalRecord(number, "2026-01-01T00:00:00Z", event, fields)
        for number, (event, fields) in enumerate(
            [("session_started", {"stages": ["S02_b", "S03_c"], "firstStage": 0}), *EVENTS]
        )
    ]
    page = progress_page("study", "run-001", fold(records), records)
    assert "State: **ABORTED**. stopped by Ctrl+C" in page
    assert "| S02_b | COMPLETED | 1 | 1m1.25s | ckpt-002 | 1.5 kB |" in page
    assert "stage_interrupted: S03_c, stopped by Ctrl+C" in page


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_499, "99.5 kB"),
        (123_456, "123 kB"),
        (999_999, "1.0 MB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_for_people(size: int, said: str) -> None:
    assert format_bytes(size) == said


def test_counts_for_people() -> None:
    assert [count_of(number, "stage") for number in (0, 1, 2)] == ["0 stages", "1 stage", "2 stages"]
