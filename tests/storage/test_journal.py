"""Append-only, checksummed, and readable whatever happened to it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.errors import Damaged, InternalBug, StoreUnavailable
from gyoshu_ckpt.storage import journal as journal_module
from gyoshu_ckpt.storage.journal import JournalReading, JournalWriter, read_journal


def clock() -> str:
    return "2026-03-01T10:00:00+00:00"


def append(path: Path, *events: str, **fields: Any) -> None:
    with JournalWriter(path, path.parent, clock=clock) as writer:
        for event in events:
            writer.append(event, fields)


def read(path: Path) -> JournalReading:
    return read_journal(path, path.parent)


def story(path: Path) -> list[tuple[int, str]]:
    return [(record.seq, record.event) for record in read(path).records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_a_missing_journal_is_empty(path: Path) -> None:
    assert read(path) == JournalReading((), 0, False)


def test_the_sequence_goes_on(path: Path) -> None:
    append(path, "run_started", "stage_began", stage="S01_a")
    append(path, "resumed")
    assert story(path) == [(1, "run_started"), (2, "stage_began"), (3, "resumed")]
    first = json.loads(path.read_bytes().splitlines()[0])
    assert list(first) == ["seq", "at", "event", "stage", "sum"]
    assert len(first["sum"]) == 16


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    fields=st.dictionaries(
        st.text(max_size=8).filter(lambda k: k not in {"seq", "at", "event", "sum"}), json_values
    )
)
def test_fields_come_back(tmp_path_factory: Any, fields: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    append(path, "event", **{})
    with JournalWriter(path, path.parent) as writer:
        written = writer.append("told", fields)
    assert read(path).records[1] == written
    assert dict(written.fields) == fields


def test_lone_surrogates_are_kept(path: Path) -> None:
    append(path, "printed", text="\ud800 and \u2028")
    assert read(path).records[0].fields["text"] == "\ud800 and \u2028"


def test_every_truncation_keeps_the_whole_records(path: Path) -> None:
    append(path, "one", "two", "three")
    whole = path.read_bytes()
    ends = [index for index, byte in enumerate(whole) if byte == 10]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        complete = sum(end <= size for end in ends)  # a record that lacks its newline only is whole
        reading = read(path)
        assert len(reading.records) == complete
        assert reading.damaged_lines == 0
        assert reading.torn_tail == (size not in {0, *ends, *(end + 1 for end in ends)})
        append(path, "after")
        after = read(path)
        assert [record.event for record in after.records] == [*["one", "two", "three"][:complete], "after"]
        assert after.records[-1].seq == complete + 1
        assert after.damaged_lines == int(reading.torn_tail)
        assert path.read_bytes().startswith(whole[:size])  # never rewritten


def test_every_flipped_byte_is_noticed(path: Path) -> None:
    append(path, "one", "two", "three")
    whole = path.read_bytes()
    good = read(path).records
    for index in range(len(whole)):
        for mask in (0xFF, 1 << index % 8):
            damaged = bytearray(whole)
            damaged[index] ^= mask
            path.write_bytes(damaged)
            reading = read(path)
            if (
                reading.records == good
            ):  # only a blank that means nothing, or the last newline, may go unnoticed
                assert index == len(whole) - 1
                continue
            assert set(map(repr, reading.records)) <= set(map(repr, good))
            assert reading.damaged_lines + reading.torn_tail >= 1


@pytest.mark.parametrize(
    "junk",
    [
        b"[]\n",
        b"1\n",
        b"null\n",
        b"{}\n",
        b'{"sum":"x"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"\0" * 99 + b"\n",
    ],
)
def test_junk_is_counted_not_raised(path: Path, junk: bytes) -> None:
    append(path, "one")
    with path.open("ab") as file:
        file.write(junk)
    append(path, "two")
    reading = read(path)
    assert [record.event for record in reading.records] == ["one", "two"]
    assert (reading.damaged_lines, reading.torn_tail) == (1, False)


def test_a_record_of_the_wrong_types_is_damage(path: Path) -> None:
    document = {"seq": "1", "at": "now", "event": "e"}
    document["sum"] = journal_module._sum_of(document)
    path.write_text(json.dumps(document) + "\n")
    assert read(path).damaged_lines == 1


def test_a_pasted_line_is_damage(path: Path) -> None:
    append(path, "one", "two")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[0]]))
    assert story(path) == [(1, "one"), (2, "two")]
    assert read(path).damaged_lines == 1


def test_a_line_without_end_is_skipped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 300)
    append(path, "one")
    with path.open("ab") as file:
        file.write(b"x" * 1000 + b"\n")
    append(path, "two")
    assert story(path) == [(1, "one"), (2, "two")]
    assert read(path).damaged_lines == 1
    with path.open("ab") as file:
        file.write(b"x" * 1000)
    assert read(path).torn_tail
    with pytest.raises(InternalBug, match="cap its fields"):
        append(path, "long", text="x" * 400)


@pytest.mark.parametrize("fields", [{"seq": 1}, {"x": object()}, {"x": float("nan")}])
def test_what_cannot_be_written_is_our_bug(path: Path, fields: dict[str, Any]) -> None:
    with JournalWriter(path, path.parent) as writer:
        with pytest.raises(InternalBug):
            writer.append("event", fields)
        assert writer.append("next", {}).seq == 1


def test_a_full_disk_in_the_middle_of_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with JournalWriter(path, path.parent, clock=clock) as writer:
        writer.append("one", {})

        def half(fd: int, data: memoryview) -> int:
            if len(data) < 40:
                raise OSError(errno.ENOSPC, "full")
            return real(fd, data[: len(data) - 30])

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                writer.append("two", {})
        assert read(path).torn_tail
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
            writer.append("three", {}, sync=False)
    assert story(path) == [(1, "one"), (2, "three")]
    assert (read(path).damaged_lines, read(path).torn_tail) == (1, False)


def test_a_failed_fsync_is_told_and_the_story_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JournalWriter(path, path.parent, clock=clock) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.EIO, "lost")))
            with pytest.raises(StoreUnavailable):
                writer.append("one", {})
            writer.append("two", {}, sync=False)  # needs no fsync
        writer.append("three", {})
    assert story(path) == [(1, "one"), (2, "two"), (3, "three")]


@pytest.mark.timeout(20)
def test_a_journal_that_is_no_file_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(Damaged, match="is a FIFO"):
        read(path)
    with pytest.raises(Damaged, match="is a FIFO"):
        append(path, "one")
    path.unlink()
    (path.parent / "elsewhere").touch()
    path.symlink_to(path.parent / "elsewhere")
    with pytest.raises(Damaged, match="is a symbolic link"):
        append(path, "one")


def test_the_default_clock_has_an_offset(path: Path) -> None:
    with JournalWriter(path, path.parent) as writer:
        assert writer.append("one", {}).at[-6] in "+-"
        writer.close()
