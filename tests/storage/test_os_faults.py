"""The sentences that a user reads when the operating system refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gyoshu_ckpt.errors import Damaged, StoreUnavailable
from gyoshu_ckpt.storage.os_faults import is_disk_fault, translate_os_errors


def raised(code: int, where: Path, filename: str | None = None) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as caught, translate_os_errors("write reports/t", where):
        raise OSError(code, os.strerror(code), filename)
    return caught.value


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission"),
        (errno.EPERM, "not permitted"),
        (errno.EMFILE, "too many open files"),
        (errno.EIO, "input/output error"),
        (errno.ENOENT, "does not exist"),
        (errno.EXDEV, "cross-device"),
    ],
)
def test_a_sentence_says_what_why_and_what_is_safe(tmp_path: Path, code: int, words: str) -> None:
    problem = raised(code, tmp_path / "not" / "made" / "yet")
    assert problem.message.startswith("could not write reports/t: ")
    assert words in problem.message.lower()
    assert problem.message.endswith("; the last checkpoint is untouched")
    assert problem.exit_code == 69
    assert isinstance(problem.__cause__, OSError)


def test_a_full_disk_has_a_next_step(tmp_path: Path) -> None:
    assert raised(errno.ENOSPC, tmp_path).next_step == "free some space, then gyoshu continue"


def test_no_inodes_is_told_from_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_files=100, f_favail=0))
    assert "inodes" in raised(errno.ENOSPC, tmp_path).message
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(f_files=0, f_favail=0)
    )  # btrfs: no such limit
    assert "the disk is full" in raised(errno.ENOSPC, tmp_path).message


def test_a_link_is_named(tmp_path: Path) -> None:
    assert "'objects' is a symbolic link" in raised(errno.ELOOP, tmp_path, "objects").message


def test_our_own_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="as it was"), translate_os_errors("read", tmp_path):
        raise Damaged("as it was")


def test_only_a_medium_that_fails_is_a_disk_fault(tmp_path: Path) -> None:
    assert is_disk_fault(raised(errno.EIO, tmp_path))
    assert not is_disk_fault(raised(errno.EACCES, tmp_path))
    assert not is_disk_fault(StoreUnavailable("without a cause"))
