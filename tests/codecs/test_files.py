from __future__ import annotations

import hashlib
import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.codecs.files import encode_file, encode_folder
from gyoshu_ckpt.errors import BadName, ValueNotSavable


def test_a_file_is_stored_byte_for_byte(tmp_path: Path, store: Any) -> None:
    data = os.urandom(3 * 2**20 + 17)
    (tmp_path / "scores.csv").write_bytes(data)
    encoded = encode_file(tmp_path / "scores.csv", store.writer)
    assert store.bytes_of(encoded) == data
    assert encoded.sha256 == hashlib.sha256(data).hexdigest()
    assert (encoded.codec, encoded.codec_version, encoded.trust) == ("file", 1, "data")
    assert (encoded.file_name, encoded.media_type, encoded.size_bytes) == (
        "scores.csv",
        "text/csv",
        len(data),
    )


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.png", "image/png"), ("a.json", "application/json"), ("a.whatever", "application/octet-stream")],
)
def test_media_types(tmp_path: Path, store: Any, name: str, media_type: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert encode_file(tmp_path / name, store.writer).media_type == media_type


def test_a_folder_is_its_files_in_order(tmp_path: Path, store: Any) -> None:
    folder = tmp_path / "model"
    for name in ["b.txt", "a/z.txt", "a/b/c.txt"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "empty").mkdir()
    encoded = encode_folder(folder, store.writer)
    assert [e.file_name for e in encoded] == ["a/b/c.txt", "a/z.txt", "b.txt"]
    assert [store.bytes_of(e).decode() for e in encoded] == ["a/b/c.txt", "a/z.txt", "b.txt"]


def make(kind: str, path: Path) -> None:
    if kind == "a symbolic link":
        path.symlink_to("/etc/passwd")
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))


@pytest.mark.parametrize("kind", ["a symbolic link", "a FIFO", "a socket"])
def test_a_folder_with_something_else_in_it_is_refused(
    tmp_path_factory: pytest.TempPathFactory, store: Any, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("f")
    (folder / "good.txt").write_text("good")
    make(kind, folder / "odd")
    with pytest.raises(ValueNotSavable, match=f"odd is {kind}"):
        encode_folder(folder, store.writer)
    assert store.objects == {}


@pytest.mark.parametrize("kind", ["a symbolic link", "a FIFO", "a folder"])
def test_only_a_regular_file_is_a_file(tmp_path: Path, store: Any, kind: str) -> None:
    make(kind, tmp_path / "odd")
    with pytest.raises(ValueNotSavable, match=f"odd is {kind}"):
        encode_file(tmp_path / "odd", store.writer)
    assert store.objects == {}


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, store: Any) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("a")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ValueNotSavable, match="link is a symbolic link"):
        encode_folder(tmp_path / "link", store.writer)


def test_an_empty_folder_is_an_error_with_a_way_out(tmp_path: Path, store: Any) -> None:
    (tmp_path / "out" / "inner").mkdir(parents=True)
    with pytest.raises(ValueNotSavable, match="out is empty") as refused:
        encode_folder(tmp_path / "out", store.writer)
    assert "--out" in (refused.value.next_step or "")


@pytest.mark.parametrize("encode", [encode_file, encode_folder])
def test_what_was_not_written_is_an_error_with_a_way_out(tmp_path: Path, store: Any, encode: Any) -> None:
    with pytest.raises(ValueNotSavable, match="the stage did not write it") as refused:
        encode(tmp_path / "x.csv", store.writer)
    assert "gy.artifact_path('x.csv')" in (refused.value.next_step or "")


@pytest.mark.parametrize("name", [".hidden", "a:b", "con.txt"])
def test_unsafe_names_are_refused_before_a_byte_is_stored(tmp_path: Path, store: Any, name: str) -> None:
    (tmp_path / "a-good-one").write_text("x")
    (tmp_path / name).write_text("x")
    with pytest.raises(BadName):
        encode_folder(tmp_path, store.writer)
    assert store.objects == {}


def test_a_file_that_grows_while_it_is_copied_is_refused(tmp_path: Path, store: Any) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 2**21)

    @contextmanager
    def meddling() -> Any:
        with store.writer() as writer:
            real = writer.write

            def write(data: Any) -> int:
                with path.open("ab") as log:
                    log.write(b"more")
                return int(real(data))

            writer.write = write
            yield writer

    with pytest.raises(ValueNotSavable, match="still being written"):
        encode_file(path, meddling)
    assert store.objects == {}
