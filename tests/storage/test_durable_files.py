"""Old or new, never half; links, short writes and failing syncs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.errors import BadName, InternalBug, ObjectDamaged, StoreUnavailable
from gyoshu_ckpt.storage import durable_files
from gyoshu_ckpt.storage.durable_files import (
    DurableFile,
    append_durably,
    make_directories,
    open_for_append,
    publish,
    remove_durably,
    remove_leftovers,
    replace_quickly,
    write_durably,
)

Write = Callable[..., None]
WRITERS = pytest.mark.parametrize("write", [write_durably, replace_quickly])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(
    real: Callable[..., Any], code: int, when: Callable[..., bool] = lambda *_: True
) -> Callable[..., Any]:
    def fail(*args: Any, **options: Any) -> Any:
        if when(*args):
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    return fail


def is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


@WRITERS
def test_a_file_is_replaced_whole(tmp_path: Path, write: Write) -> None:
    write(tmp_path / "a" / "f", b"old", below=tmp_path)
    write(tmp_path / "a" / "f", b"new", below=tmp_path)
    assert (tmp_path / "a" / "f").read_bytes() == b"new"
    assert names_in(tmp_path / "a") == ["f"]
    assert mode_of(tmp_path / "a" / "f") == 0o600
    assert mode_of(tmp_path / "a") == 0o700


def test_a_stricter_umask_is_kept(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        write_durably(tmp_path / "f", b"x", below=tmp_path)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "f") == 0o400


@WRITERS
@given(data=st.binary(max_size=400), most=st.integers(1, 7))
def test_short_writes_are_finished(tmp_path_factory: Any, write: Write, data: bytes, most: int) -> None:
    folder = tmp_path_factory.mktemp("short")
    real = os.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", lambda fd, view: real(fd, view[:most]))
        write(folder / "f", data, below=folder)
    assert (folder / "f").read_bytes() == data


@WRITERS
@pytest.mark.timeout(10)
def test_a_disk_that_takes_nothing_is_an_error(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda fd, view: 0)
    with pytest.raises(StoreUnavailable):
        write(tmp_path / "f", b"data", below=tmp_path)
    assert names_in(tmp_path) == []


@WRITERS
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "f", b"old", below=tmp_path)
    monkeypatch.setattr(os, "write", failing(os.write, errno.ENOSPC))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        write(tmp_path / "f", b"new", below=tmp_path)
    assert names_in(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_failed_fsync_is_never_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_durably(tmp_path / "f", b"old", below=tmp_path)
    calls: list[int] = []

    def fail_once(fd: int) -> None:
        if not is_folder(fd):
            calls.append(fd)
            if len(calls) == 1:
                raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(StoreUnavailable, match="input/output error"):
        write_durably(tmp_path / "f", b"new", below=tmp_path)
    assert len(calls) == 1  # a second fsync would succeed, and mean nothing
    assert names_in(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_failed_fsync_of_the_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EIO, is_folder))
    with pytest.raises(StoreUnavailable):
        write_durably(tmp_path / "f", b"new", below=tmp_path)


def test_a_filesystem_without_fsync_for_folders_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EINVAL, is_folder))
    write_durably(tmp_path / "f", b"new", below=tmp_path)
    assert (tmp_path / "f").read_bytes() == b"new"


def test_the_order_is_write_sync_rename_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noting(name: str, real: Callable[..., Any], about: Callable[..., str]) -> None:
        def note(*args: Any, **options: Any) -> Any:
            order.append(about(*args))
            return real(*args, **options)

        monkeypatch.setattr(os, name, note)

    noting("write", os.write, lambda *_: "write")
    noting("fsync", os.fsync, lambda fd: "sync folder" if is_folder(fd) else "sync file")
    noting("replace", os.replace, lambda *_: "rename")
    noting("mkdir", os.mkdir, lambda *_: "mkdir")
    write_durably(tmp_path / "a" / "f", b"new", below=tmp_path)
    assert order == ["mkdir", "sync folder", "write", "sync file", "rename", "sync folder"]
    order.clear()
    replace_quickly(tmp_path / "a" / "f", b"new", below=tmp_path)
    assert order == ["write", "rename"]


def test_a_file_gets_no_name_before_it_is_synced(tmp_path: Path) -> None:
    with DurableFile(tmp_path, below=tmp_path) as file:
        file.write(b"x")
        with pytest.raises(InternalBug):
            file.rename_to(tmp_path / "f")
        file.sync()
        file.write(b"more")
        with pytest.raises(InternalBug):
            file.rename_to(tmp_path / "f")
    assert names_in(tmp_path) == []


def test_a_temp_file_can_be_read_back(tmp_path: Path) -> None:
    with DurableFile(tmp_path, below=tmp_path) as file:
        file.write(b"x" * 20_000_000)
        file.sync()
        with file.reopen() as reader:
            assert reader.read() == b"x" * 20_000_000
        file.rename_to(tmp_path / "f")
        with pytest.raises(InternalBug):
            file.reopen()


def test_each_range_is_handed_to_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second time would drop clean pages from the cache, and the read-back of every save would be cold."""
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, size, advice: ranges.append((start, size)))
    with DurableFile(tmp_path, below=tmp_path) as file:
        for _ in range(5):
            file.write(b"x" * 5 * 2**20)
    assert ranges == [(0, 10 * 2**20), (10 * 2**20, 10 * 2**20)]


@WRITERS
def test_links_are_replaced_or_refused_never_followed(tmp_path: Path, write: Write) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"precious")
    store = tmp_path / "store"
    store.mkdir()
    (store / "link").symlink_to(outside)
    (store / "f").symlink_to(outside / "f")
    with pytest.raises(StoreUnavailable, match="'link' is a symbolic link"):
        write(store / "link" / "f", b"new", below=store)
    write(store / "f", b"new", below=store)
    assert (outside / "f").read_bytes() == b"precious"
    assert not (store / "f").is_symlink()


@pytest.mark.parametrize("path", ["../f", "a/../../f", "/etc/f", "a\0b/f", "a\0b", "a/.."])
def test_escapes_are_refused(tmp_path: Path, path: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with pytest.raises(BadName):
        write_durably(store / path, b"", below=store)
    with pytest.raises(BadName):
        replace_quickly(store / path, b"", below=store)
    with pytest.raises(BadName):
        open_for_append(store / path, below=store)
    with pytest.raises(BadName):
        make_directories(store / path, store)
    with pytest.raises(BadName):
        remove_durably(store / path, below=store)
    assert names_in(tmp_path) == ["store"]


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(StoreUnavailable, match="a file is in the way"):
        make_directories(tmp_path / "a" / "b", tmp_path)


def test_the_store_itself_is_made(tmp_path: Path) -> None:
    make_directories(tmp_path / "x" / "reports" / "t", tmp_path / "x" / "reports")
    assert mode_of(tmp_path / "x" / "reports" / "t") == 0o700


def test_folders_are_removed_whole_and_links_as_links(tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "f").touch()
    (tmp_path / "go" / "deep").mkdir(parents=True)
    (tmp_path / "go" / "deep" / "f").touch()
    (tmp_path / "go" / "link").symlink_to(tmp_path / "keep")
    remove_durably(tmp_path / "go", below=tmp_path)
    remove_durably(tmp_path / "go", below=tmp_path)
    assert names_in(tmp_path) == ["keep"]
    assert names_in(tmp_path / "keep") == ["f"]
    with pytest.raises(InternalBug):
        remove_durably(tmp_path, below=tmp_path)


def test_leftovers_go_and_nothing_else(tmp_path: Path) -> None:
    make_directories(tmp_path / "a", tmp_path)
    abandoned = DurableFile(tmp_path / "a", below=tmp_path)
    (tmp_path / "a" / "notes.gyoshu-tmp").touch()
    (tmp_path / "a" / ".hidden").touch()
    remove_leftovers(tmp_path, below=tmp_path)
    assert names_in(tmp_path / "a") == [".hidden", "notes.gyoshu-tmp"]
    abandoned.discard()
    abandoned.discard()


def test_appending_makes_the_file_and_finishes_short_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    fd = open_for_append(tmp_path / "f", below=tmp_path)
    monkeypatch.setattr(os, "write", lambda fd, view: real(fd, view[:2]))
    append_durably(fd, b"hello", sync=True)
    os.close(fd)
    assert (tmp_path / "f").read_bytes() == b"hello"
    assert mode_of(tmp_path / "f") == 0o600


@pytest.fixture
def an_object(tmp_path: Path) -> Path:
    path = tmp_path / "objects" / "o"
    path.parent.mkdir()
    path.write_bytes(b"content")
    path.chmod(0o400)
    return path


def test_a_small_object_is_published_as_a_file_to_edit(tmp_path: Path, an_object: Path) -> None:
    target = tmp_path / "run" / "x.csv"
    publish(an_object, target, below=tmp_path)
    assert target.read_bytes() == b"content"
    assert mode_of(target) == 0o600
    assert not target.samefile(an_object)
    target.write_bytes(b"edited")
    assert an_object.read_bytes() == b"content"


def test_a_large_object_is_published_as_a_read_only_link(
    tmp_path: Path, an_object: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_files, "SMALL_ENOUGH_TO_COPY", 3)
    monkeypatch.setattr(durable_files, "_reflink", lambda source, file: False)
    target = tmp_path / "run" / "x.csv"
    for _ in range(2):  # the second time both names are the same inode, and rename does nothing
        publish(an_object, target, below=tmp_path)
        assert target.samefile(an_object)
        assert mode_of(target) == 0o400
        assert names_in(target.parent) == ["x.csv"]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM])
def test_without_hard_links_a_copy_is_made(
    tmp_path: Path, an_object: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(durable_files, "SMALL_ENOUGH_TO_COPY", 3)
    monkeypatch.setattr(durable_files, "_reflink", lambda source, file: False)
    monkeypatch.setattr(os, "link", failing(os.link, code))
    publish(an_object, tmp_path / "x.csv", below=tmp_path)
    assert (tmp_path / "x.csv").read_bytes() == b"content"
    assert mode_of(tmp_path / "x.csv") == 0o600
    assert names_in(tmp_path) == ["objects", "x.csv"]


def test_a_reflink_is_taken_where_the_filesystem_can(
    tmp_path: Path, an_object: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        return os.write(target, b"by reference")

    monkeypatch.setattr(durable_files.fcntl, "ioctl", clone)
    publish(an_object, tmp_path / "x.csv", below=tmp_path)
    assert (tmp_path / "x.csv").read_bytes() == b"by reference"


def test_only_a_file_is_published(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "o")
    with pytest.raises(ObjectDamaged, match="is a FIFO"):
        publish(tmp_path / "o", tmp_path / "x", below=tmp_path)
