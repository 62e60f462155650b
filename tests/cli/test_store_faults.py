"""A store that is full, read-only or out of inodes, seen through the real command: said clearly, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_cli import gyoshu, write_notebook

SMALL, BIG = (
    "%%stage S01_small --out a\na = list(range(1000))",
    "%%stage S02_big --out b\nimport numpy\nb = numpy.random.default_rng(0).random(4_000_000)",  # 32 MB
)


def mount(*options: str, at: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(at)], check=True)


def remount(*options: str, at: Path) -> None:
    subprocess.run(["mount", "-o", ",".join(("remount", *options)), str(at)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: mounting a small disk needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount("size=16m", at=place)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write_notebook(tmp_path / "study.ipynb", SMALL, BIG)


def test_a_full_disk_keeps_the_last_checkpoint_and_continue_works_once_there_is_room(
    disk: Path, notebook: Path
) -> None:
    done = gyoshu("run", notebook, root=disk, expect=69)
    assert "the disk is full" in done.stderr
    assert "gyoshu continue" in done.stderr
    saved = json.loads(gyoshu("show", "--json", root=disk).stdout)["checkpoints"]
    assert saved[0]["stageId"] == "S01_small"
    gyoshu("check", root=disk)
    gyoshu("continue", root=disk, expect=69)
    remount("size=200m", at=disk)
    done = gyoshu("continue", root=disk)
    assert "going on at S02_big, from ckpt-001" in done.stdout


def test_no_inodes_left(disk: Path, notebook: Path) -> None:
    gyoshu("run", notebook, root=disk, expect=69)  # S01 is saved, S02 does not fit
    remount("size=200m", at=disk)
    used = os.statvfs(disk).f_files - os.statvfs(disk).f_ffree
    remount(f"nr_inodes={used + 1}", at=disk)
    done = gyoshu("continue", root=disk, expect=69)
    assert "inode" in done.stderr
    remount("nr_inodes=10000", at=disk)
    gyoshu("continue", root=disk)


def test_a_read_only_store(disk: Path, notebook: Path) -> None:
    gyoshu("run", notebook, root=disk, expect=69)
    remount("ro", at=disk)
    try:
        done = gyoshu("continue", root=disk, expect=69)
        assert "read-only" in done.stderr
        assert (
            json.loads(gyoshu("status", "--json", root=disk).stdout)["lastCheckpoint"]["stageId"]
            == "S01_small"
        )
        gyoshu("check", root=disk)
    finally:
        remount("rw", "size=200m", at=disk)
    gyoshu("continue", root=disk)


def test_a_root_that_cannot_be_made(tmp_path: Path, notebook: Path) -> None:
    (tmp_path / "file").write_text("")
    done = gyoshu("run", notebook, root=tmp_path / "file" / "below", expect=None)
    assert done.returncode in {2, 69}
    assert done.stderr.startswith(("gyoshu:", "Usage:"))
