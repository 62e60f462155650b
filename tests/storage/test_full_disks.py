"""Real small filesystems, full, without inodes or read-only: the last checkpoint stays, saves work after."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.errors import StoreUnavailable
from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.journal import JournalWriter, read_journal
from gyoshu_ckpt.storage.pruning import prune_title
from gyoshu_ckpt.storage.run_lock import create_run, lock_run

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(
        os.geteuid() != 0, reason="NOT TESTED: only root can mount a small filesystem to fill"
    ),
]

Mount = Callable[[str], Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mount]:
    where = tmp_path / "disk"
    where.mkdir()
    done: list[Path] = []

    def mount(options: str) -> Path:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "gyoshu-test", str(where)], capture_output=True, text=True
        )
        if made.returncode != 0:
            pytest.skip(f"NOT TESTED: this machine does not let root mount a tmpfs: {made.stderr.strip()}")
        done.append(where)
        return where

    yield mount
    for path in done:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def no_room(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    yield
    filler.unlink()


@contextmanager
def no_inodes(disk: Path) -> Iterator[None]:
    filler = disk / "fillers"
    filler.mkdir()
    count = 0
    try:
        while True:
            (filler / str(count)).touch()
            count += 1
    except OSError:
        pass
    yield
    for n in range(count):
        (filler / str(n)).unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


CASES = pytest.mark.parametrize(
    ("options", "trouble", "words"),
    [
        ("size=2m", no_room, "the disk is full"),
        ("size=4m,nr_inodes=100", no_inodes, "no free inodes"),
        ("size=2m", read_only, "read-only"),
    ],
    ids=["full", "no inodes", "read-only"],
)


@CASES
def test_the_last_checkpoint_stays_and_a_save_works_again(
    mounted: Mount, research_at: Any, options: str, trouble: Any, words: str
) -> None:
    disk = mounted(options)
    research = research_at(disk)
    create_run(research.layout, research.title, command="test").release()
    research.save({"df": b"old" * 1000}, {"x.csv": b"old" * 1000})
    draft = research.draft(
        {"df": b"old" * 1000}
    )  # its objects are there already: only the manifest is missing

    def refused(work: Callable[[], object]) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            work()
        assert words in caught.value.message
        assert caught.value.exit_code == 69
        assert "untouched" in caught.value.message
        assert caught.value.next_step is not None
        found = research.checkpoints.newest_valid()
        assert found.manifest is not None
        assert found.manifest.checkpoint_id == "ckpt-001"
        assert research.leftovers() == []

    with trouble(disk):
        refused(lambda: research.put(b"new" * 10_000))
        refused(lambda: research.checkpoints.commit(draft))
        refused(lambda: research.incident())
    manifest = research.save({"df": b"new" * 10_000}, {"x.csv": b"new"})
    assert research.checkpoints.newest_valid().manifest == manifest
    assert publish_artifacts(research.layout, manifest).made


@CASES
def test_publishing_says_it_too(
    mounted: Mount, research_at: Any, options: str, trouble: Any, words: str
) -> None:
    disk = mounted(options)
    research = research_at(disk)
    create_run(research.layout, research.title, command="test").release()
    manifest = research.save({}, {"x.csv": b"value" * 1000})
    with trouble(disk), pytest.raises(StoreUnavailable, match=words):
        publish_artifacts(research.layout, manifest)
    assert publish_artifacts(research.layout, manifest).made


def test_a_read_only_store_cannot_be_locked(mounted: Mount, research_at: Any) -> None:
    disk = mounted("size=2m")
    research = research_at(disk)
    create_run(research.layout, research.title, command="test").release()
    with read_only(disk):
        with pytest.raises(StoreUnavailable, match="read-only"):
            lock_run(research.layout, research.title, "run-001", command="test")
        with pytest.raises(StoreUnavailable, match="read-only"):
            create_run(research.layout, research.title, command="test")
    lock_run(research.layout, research.title, "run-001", command="test").release()


@pytest.mark.parametrize(
    ("options", "trouble"),
    [("size=2m", no_room), ("size=4m,nr_inodes=100", no_inodes)],
    ids=["full", "no inodes"],
)
def test_prune_makes_room_on_a_full_disk(
    mounted: Mount, research_at: Any, options: str, trouble: Any
) -> None:
    disk = mounted(options)
    research = research_at(disk)
    create_run(research.layout, research.title, command="test").release()
    for n in range(3):
        research.save({"df": bytes([n]) * 100_000})
    with trouble(disk):
        swept = prune_title(research.layout, research.title, 1).swept
        assert swept is not None
        assert swept.bytes == 200_000
        research.save({"df": b"small"})


def test_a_journal_that_met_a_full_disk_goes_on(mounted: Mount, research_at: Any) -> None:
    disk = mounted("size=1m")
    path = disk / "journal.jsonl"
    with JournalWriter(path, disk) as writer:
        writer.append("begun", {})
        with no_room(disk):
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                writer.append(
                    "said", {"text": "x" * 10_000}
                )  # more than what is left of the journal's last page
            told = len(read_journal(path, disk).records)
        writer.append("room again", {})
    reading = read_journal(path, disk)
    assert len(reading.records) == told + 1
    assert reading.records[-1].event == "room again"
    assert not reading.torn_tail
    assert reading.damaged_lines <= 1
