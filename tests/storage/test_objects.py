"""Bytes by SHA-256: written in one pass, read through the file that was hashed, swept when unnamed."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.errors import BadName, InternalBug, ObjectDamaged, StoreUnavailable
from gyoshu_ckpt.storage.objects import ObjectStore, StoredObject


def stored(data: bytes) -> StoredObject:
    return StoredObject(hashlib.sha256(data).hexdigest(), len(data))


@given(pieces=st.lists(st.binary(max_size=300), max_size=8))
def test_what_was_written_is_what_is_read(
    tmp_path_factory: Any, research_at: Any, pieces: list[bytes]
) -> None:
    research = research_at(tmp_path_factory.mktemp("objects"))
    with research.objects.writer() as writer:
        for piece in pieces:
            writer.write(piece)
        assert writer.tell() == sum(map(len, pieces))
        result = writer.commit()
    assert result == stored(b"".join(pieces))
    with research.objects.open_verified(result.sha256, result.size_bytes) as file:
        assert file.read() == b"".join(pieces)


def test_sizes_around_every_threshold(research: Any) -> None:
    for size in (0, 1, 2**18 - 1, 2**18, 2**18 + 1, 2**20, 2**20 + 1, 2**23 + 5):
        data = os.urandom(1) * size
        assert research.put(data) == stored(data)
        research.objects.verify(*_pair(stored(data)))


def _pair(one: StoredObject) -> tuple[str, int]:
    return one.sha256, one.size_bytes


def test_a_buffer_may_be_reused_at_once(research: Any) -> None:
    buffer = bytearray(b"a" * 3_000_000)
    with research.objects.writer() as writer:
        writer.write(buffer)
        buffer[:] = b"b" * len(buffer)
        writer.write(buffer)
        result = writer.commit()
    assert result == stored(b"a" * 3_000_000 + b"b" * 3_000_000)


def test_without_threads_it_hashes_in_line(research: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with research.objects.writer() as writer:
        writer.write(b"x" * 2_000_000)
        assert writer.commit() == stored(b"x" * 2_000_000)


def test_libraries_can_write_to_it(research: Any) -> None:
    array = np.asfortranarray(np.arange(400_000, dtype="f8").reshape(400, 1000))
    table = pa.table({"x": [1, 2, 3]})

    def read_back(writer: Any) -> io.BufferedReader:
        one = writer.commit()
        return research.objects.open_verified(one.sha256, one.size_bytes)

    with research.objects.writer() as writer:
        np.save(writer, array)
        with read_back(writer) as file:
            assert np.array_equal(np.load(file), array)
    with research.objects.writer() as writer:
        pickle.dump({"a": array}, writer, protocol=5)
        with read_back(writer) as file:
            assert np.array_equal(pickle.load(file)["a"], array)
    with research.objects.writer() as writer:
        with pa.PythonFile(writer) as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
        assert writer.closed  # pyarrow closes what it writes to; committing is still ours
        with read_back(writer) as file:
            assert pa.ipc.open_file(file).read_all() == table
    with research.objects.writer() as writer:
        shutil.copyfileobj(io.BytesIO(b"copied"), writer)
        with read_back(writer) as file:
            assert file.read() == b"copied"
    with research.objects.writer() as writer:
        writer.write(memoryview(array))  # not C-contiguous
        assert writer.commit() == stored(memoryview(array).tobytes())


def test_it_says_what_it_can(research: Any) -> None:
    with research.objects.writer() as writer:
        assert writer.writable()
        assert not writer.seekable()
        assert not writer.readable()
        writer.close()
        with pytest.raises(ValueError, match="closed"):
            writer.write(b"x")


def test_leaving_without_a_commit_leaves_nothing(research: Any) -> None:
    with research.objects.writer() as writer:
        writer.write(b"x" * 500_000)
        writer.seal()
    with suppress(KeyError), research.objects.writer() as writer:
        writer.write(b"x")
        raise KeyError
    assert [path for path in research.layout.reports.rglob("*") if path.is_file()] == []


def test_sealed_bytes_can_be_read_before_the_commit(research: Any) -> None:
    with research.objects.writer() as writer:
        writer.write(b"hello")
        with pytest.raises(InternalBug):
            writer.reopen()
        assert writer.seal() == stored(b"hello")
        with writer.reopen() as file:
            assert file.read() == b"hello"
        assert not research.layout.object(research.title, stored(b"hello").sha256).exists()
        assert writer.commit() == stored(b"hello")
    research.objects.verify(*_pair(stored(b"hello")))


def test_objects_are_read_only_and_stored_once(research: Any) -> None:
    path = research.object_path(b"same")
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    inode = path.stat().st_ino
    assert research.object_path(b"same").stat().st_ino == inode
    assert research.leftovers() == []


DAMAGES = {
    "is missing": lambda path: path.unlink(),
    "is 4 bytes, not 7": lambda path: _put(path, b"cont"),
    "has other content: sha256": lambda path: _put(path, b"CONTENT"),
    "is a symbolic link, not a file": lambda path: _link(path),
    "is a FIFO, not a file": lambda path: (path.unlink(), os.mkfifo(path)),
    "is a folder, not a file": lambda path: (path.unlink(), path.mkdir(), (path / "f").touch()),
}


def _put(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def _link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reason", DAMAGES)
def test_damage_is_refused_with_a_reason_and_mended_by_a_new_commit(research: Any, reason: str) -> None:
    path = research.object_path(b"content")
    DAMAGES[reason](path)
    one = stored(b"content")
    with pytest.raises(ObjectDamaged, match=f"^object {one.sha256[:12]}… {reason}"):
        research.objects.open_verified(*_pair(one))
    research.put(b"content")
    research.objects.verify(*_pair(one))
    assert not path.is_symlink()


def test_the_file_that_was_hashed_is_the_file_that_is_read(
    research: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = research.object_path(b"content")
    real = hashlib.file_digest

    def hash_then_swap(file: Any, name: str) -> Any:
        digest = real(file, name)
        _put(path, b"swapped")
        return digest

    monkeypatch.setattr(hashlib, "file_digest", hash_then_swap)
    with research.objects.open_verified(*_pair(stored(b"content"))) as file:
        assert file.read() == b"content"


def test_a_linked_shard_is_refused(research: Any) -> None:
    path = research.object_path(b"content")
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(path.parent.with_name("moved"))
    with pytest.raises(ObjectDamaged, match="lies behind a symbolic link"):
        research.objects.verify(*_pair(stored(b"content")))
    with pytest.raises(StoreUnavailable, match="is a symbolic link"):
        research.put(b"content")


def test_names_are_checked(research: Any) -> None:
    with pytest.raises(BadName):
        research.objects.open_verified("../../etc/passwd", 1)
    with pytest.raises(BadName):
        ObjectStore(research.layout, "../up")


def test_a_failed_fsync_loses_the_object(research: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(5, "lost")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable):
        research.put(b"content")
    assert not research.layout.object(research.title, stored(b"content").sha256).exists()
    assert research.leftovers() == []


def test_a_sweep_takes_what_nothing_names(research: Any) -> None:
    kept, gone = research.object_path(b"kept"), research.object_path(b"gone!")
    foreign = gone.with_name("README")
    foreign.touch()
    leftover = research.layout.objects_dir(research.title) / ".1234.gyoshu-tmp"
    leftover.write_bytes(b"123")
    keep = {stored(b"kept").sha256}
    assert research.objects.sweep(keep, dry_run=True) == research.objects.sweep(keep)
    assert (kept.exists(), gone.exists(), foreign.exists(), leftover.exists()) == (True, False, True, False)
    again = research.objects.sweep(keep)
    assert (again.count, again.bytes) == (0, 0)


def test_a_sweep_counts(research: Any) -> None:
    research.put(b"12345")
    research.put(b"1234567")
    result = research.objects.sweep(set(), dry_run=True)
    assert (result.count, result.bytes) == (2, 12)


def test_a_sweep_of_no_objects(research: Any) -> None:
    assert research.objects.sweep(set()).count == 0


def test_the_kernel_side_imports_nothing_heavy() -> None:
    program = (
        "import sys; import gyoshu_ckpt.storage.objects, gyoshu_ckpt.storage.journal;"
        "print({'pydantic', 'filelock', 'rfc8785', 'numpy', 'shutil', 'asyncio'} & sys.modules.keys())"
    )
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "set()"
