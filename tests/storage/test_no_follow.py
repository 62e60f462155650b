"""Nothing is followed, nothing blocks, nothing leaves the store."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gyoshu_ckpt.errors import BadName, Damaged, ManifestDamaged, StoreUnavailable
from gyoshu_ckpt.storage.no_follow import entries_below, open_regular, parts_below

pytestmark = pytest.mark.timeout(20)


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"data")
    with open_regular(tmp_path / "a" / "f", below=tmp_path) as file:
        assert file.read() == b"data"


def make(kind: str, path: Path) -> None:
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a symbolic link":
        (path.parent / "elsewhere").write_bytes(b"secret")
        path.symlink_to(path.parent / "elsewhere")
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))


@pytest.mark.parametrize("kind", ["a FIFO", "a folder", "a symbolic link", "a socket"])
def test_what_is_no_file_is_refused_without_blocking(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may be 107 bytes at most
    make(kind, Path("f") if kind == "a socket" else tmp_path / "f")
    with pytest.raises(ManifestDamaged, match=f"the manifest is {kind}, not a file"):
        open_regular(tmp_path / "f", below=tmp_path, called="the manifest", refusal=ManifestDamaged)


def test_a_fifo_that_appears_after_the_look_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"")
    regular = (tmp_path / "f").stat()
    (tmp_path / "f").unlink()
    os.mkfifo(tmp_path / "f")
    monkeypatch.setattr(os, "stat", lambda *args, **options: regular)
    with pytest.raises(Damaged, match="is a FIFO"):
        open_regular(tmp_path / "f", below=tmp_path)


def test_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=r"^f is missing$"):
        open_regular(tmp_path / "no" / "f", below=tmp_path)


def test_a_linked_parent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"data")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Damaged, match=r"lies behind a symbolic link \(link\)"):
        open_regular(tmp_path / "link" / "f", below=tmp_path)


def test_a_link_above_the_store_is_the_users_business(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"data")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with open_regular(tmp_path / "link" / "f", below=tmp_path / "link") as file:
        assert file.read() == b"data"


@pytest.mark.parametrize("path", ["/etc/passwd", "../f", "a/../../f", "a/\0"])
def test_paths_that_leave_the_store_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadName):
        parts_below(tmp_path / path, tmp_path)
    with pytest.raises(BadName):
        open_regular(tmp_path / path, below=tmp_path)
    with pytest.raises(BadName):
        entries_below(tmp_path / path, below=tmp_path)


def test_listing_a_linked_or_missing_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert entries_below(tmp_path / "link", below=tmp_path) == []
    assert entries_below(tmp_path / "missing", below=tmp_path) == []
    assert entries_below(tmp_path / "real" / "f", below=tmp_path) == []
    assert [name for name, _ in entries_below(tmp_path / "real", below=tmp_path)] == ["f"]


def test_too_many_open_files_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").touch()

    def refuse(*args: object, **options: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreUnavailable, match="too many open files; nothing was changed"):
        open_regular(tmp_path / "f", below=tmp_path)


def test_no_descriptor_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    os.mkfifo(tmp_path / "a" / "b" / "fifo")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("fifo", "missing", "x/y"):
        with pytest.raises(Damaged):
            open_regular(tmp_path / "a" / "b" / name, below=tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
