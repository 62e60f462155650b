from __future__ import annotations

import io
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gyoshu_ckpt.codecs import registry
from gyoshu_ckpt.codecs.arrays import NpyCodec
from gyoshu_ckpt.codecs.encoding import check_output_file_name, decode, encode
from gyoshu_ckpt.codecs.interface import SaveContext
from gyoshu_ckpt.codecs.pickles import PickleCodec
from gyoshu_ckpt.core.ids import check_sha256
from gyoshu_ckpt.errors import BadName, BadPlan, ObjectDamaged, StoreUnavailable, Unavailable, ValueNotSavable

CONTEXT = SaveContext()


@pytest.mark.parametrize(
    ("value", "file_name", "codec", "trust", "media_type"),
    [
        ("text", "v.txt", "text", "data", "text/plain"),
        (b"x", "v.bin", "bytes", "data", "application/octet-stream"),
        ({"a": 1}, "v.json", "json", "data", "application/json"),
        (np.zeros(2), "v.npy", "npy", "data", "application/x-npy"),
        (pd.DataFrame({"a": [1]}), "v.parquet", "parquet", "data", "application/vnd.apache.parquet"),
        ((1, 2), "v.pkl", "pickle", "code", "application/x-pickle"),
    ],
    ids=lambda v: str(v)[:12],
)
def test_gyoshu_chooses(
    value: Any, file_name: str, codec: str, trust: str, media_type: str, store: Any
) -> None:
    encoded = encode(value, store.writer, CONTEXT, name="v")
    assert (encoded.codec, encoded.trust, encoded.media_type) == (codec, trust, media_type)
    assert encoded.file_name == file_name
    assert encoded.codec_version == 1
    assert check_sha256(encoded.sha256) in store.objects
    assert encoded.size_bytes == len(store.bytes_of(encoded))
    assert encoded.companions == ()


@pytest.mark.parametrize(
    ("value", "file_name", "codec", "media_type"),
    [
        ([1], "x.pkl", "pickle", "application/x-pickle"),
        ([1], "x.pickle", "pickle", "application/x-pickle"),
        ([1], "x.joblib", "joblib", "application/x-joblib"),
        (lambda: 1, "x.joblib", "pickle", "application/x-pickle"),
        ("<p>", "x.html", "text", "text/html"),
        ("# x", "X.MD", "text", "text/markdown"),
        (np.zeros(1), "x.npy", "npy", "application/x-npy"),
    ],
)
def test_the_user_chooses(value: Any, file_name: str, codec: str, media_type: str, store: Any) -> None:
    encoded = encode(value, store.writer, CONTEXT, name="v", file_name=file_name)
    assert (encoded.codec, encoded.file_name, encoded.media_type) == (codec, file_name, media_type)


def test_only_what_was_proven_is_committed(store: Any) -> None:
    encoded = encode([float("nan")], store.writer, CONTEXT, name="v")
    assert store.opened == 2  # json tried, pickle kept
    assert list(store.objects) == [encoded.sha256]


@pytest.mark.parametrize(
    ("value", "file_name", "why"),
    [
        (pd.DataFrame({"mixed": [1, "x"]}), "t.parquet", "column mixed"),
        (pd.DataFrame({"o": pd.Series(["x", np.nan], dtype=object)}), "t.parquet", "column 'o'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "t.parquet", "two columns named 'a'"),
        ({"a": (1, 2)}, "d.json", "tuple"),
        ([float("nan")], "d.json", "nan"),
        (np.zeros(1), "t.parquet", "not for values of this type"),
        ([1, 2], "a.npy", "not for values of this type"),
        (3, "n.txt", "not for values of this type"),
        ("x", "n.png", "not for values of this type"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_a_format_that_is_not_exact_is_refused_not_swapped(
    value: Any, file_name: str, why: str, store: Any
) -> None:
    with pytest.raises(ValueNotSavable) as refused:
        encode(value, store.writer, CONTEXT, name="result", file_name=file_name)
    assert refused.value.message.startswith("result (")
    assert why in refused.value.message
    assert f"leave out '={file_name}'" in (refused.value.next_step or "")
    assert store.objects == {}


class Broken(NpyCodec):
    name = "broken"

    def load(self, file: Any, version: int) -> Any:
        return super().load(file, version) + 1


class Raises(NpyCodec):
    name = "raises"

    def load(self, file: Any, version: int) -> Any:
        raise RuntimeError("cannot read")


class Says(NpyCodec):
    name = "says"

    def load(self, file: Any, version: int) -> Any:
        raise ObjectDamaged("the medium")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*codecs: Any) -> None:
        monkeypatch.setattr(registry, "installed", lambda: registry.Registry(codecs, {}))

    return use


@pytest.mark.parametrize("bad", [Broken(), Raises()], ids=["wrong value", "raises"])
def test_a_codec_that_loads_badly_is_passed_over(bad: Any, only: Any, store: Any) -> None:
    only(bad, PickleCodec())
    assert encode(np.zeros(2), store.writer, CONTEXT, name="v").codec == "pickle"
    only(bad)
    with pytest.raises(ValueNotSavable, match=r"cannot read|came back changed"):
        encode(np.zeros(2), store.writer, CONTEXT, name="v")


def test_an_error_of_our_own_tree_passes_through(only: Any, store: Any) -> None:
    only(Says(), PickleCodec())
    with pytest.raises(ObjectDamaged):
        encode(np.zeros(2), store.writer, CONTEXT, name="v")


def numbers() -> Iterator[int]:
    yield 1


@contextmanager
def alive(kind: str, folder: Any) -> Iterator[Any]:
    if kind == "socket":
        with socket.socket() as made:
            yield made
    elif kind == "sqlite":
        connection = sqlite3.connect(":memory:")
        yield connection
        connection.close()
    elif kind in {"w", "r", "rb", "wb"}:
        (folder / "f").write_text("content")
        with (folder / "f").open(kind) as file:
            yield file
    else:
        yield {
            "generator": numbers,
            "lock": threading.Lock,
            "rlock": threading.RLock,
            "thread": threading.Thread,
            "event": threading.Event,
        }[kind]()


LIVE = ["socket", "sqlite", "w", "r", "rb", "wb", "generator", "lock", "rlock", "thread", "event"]


@pytest.mark.parametrize("kind", LIVE)
def test_what_lives_only_in_this_kernel_is_refused_with_a_way_out(
    kind: str, tmp_path: Any, store: Any
) -> None:
    with alive(kind, tmp_path) as value, pytest.raises(ValueNotSavable) as refused:
        encode(value, store.writer, CONTEXT, name="thing")
    assert refused.value.message.startswith("thing (")
    assert type(value).__qualname__ in refused.value.message
    assert "alive only in this kernel" in refused.value.message
    assert refused.value.next_step == "make it again in a setup cell, or in the stage that uses it"
    assert store.objects == {}


@pytest.mark.parametrize("kind", ["socket", "sqlite", "w", "r", "rb", "wb", "generator", "lock", "thread"])
def test_the_same_inside_another_value(kind: str, tmp_path: Any, store: Any) -> None:
    with alive(kind, tmp_path) as value, pytest.raises(ValueNotSavable) as refused:
        encode({"a": [value]}, store.writer, CONTEXT, name="bag")
    assert refused.value.message.startswith("bag (dict) cannot be saved: something inside it")
    assert (refused.value.next_step or "").startswith("make it again in a setup cell")


class Explodes:
    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __getstate__(self) -> Any:
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (RuntimeError("no pickling today"), "RuntimeError: no pickling today"),
        (OSError("a file of the user's"), "OSError: a file of the user's"),
        (MemoryError(), "not enough memory"),
        (RecursionError("deep"), "nested too deeply"),
    ],
)
def test_whatever_user_code_raises_is_a_refusal(problem: Exception, words: str, store: Any) -> None:
    with pytest.raises(ValueNotSavable, match=words):
        encode(Explodes(problem), store.writer, CONTEXT, name="v")


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_interrupts_are_never_swallowed(problem: BaseException, store: Any) -> None:
    with pytest.raises(type(problem)):
        encode(Explodes(problem), store.writer, CONTEXT, name="v")
    assert store.objects == {}


def test_a_value_too_deep_for_pickle_is_a_refusal(store: Any) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueNotSavable, match="nested too deeply"):
        encode(deep, store.writer, CONTEXT, name="v")


@pytest.mark.parametrize("fault", [StoreUnavailable("disk full"), OSError(28, "No space left on device")])
@pytest.mark.parametrize(
    "value", [np.zeros(3), pd.DataFrame({"a": [1]}), [1], (1,)], ids=["npy", "parquet", "json", "pickle"]
)
def test_a_fault_of_the_store_is_not_blamed_on_the_value(fault: Exception, value: Any, store: Any) -> None:
    @contextmanager
    def full() -> Iterator[Any]:
        with store.writer() as writer:
            writer.write = lambda data: (_ for _ in ()).throw(fault)
            yield writer

    with pytest.raises(type(fault)) as raised:
        encode(value, full, CONTEXT, name="v")
    assert raised.value is fault
    assert store.opened == 1  # no other codec was tried on a full disk


@pytest.mark.parametrize(
    "name", ["t.parquet", "a.npy", "n.txt", "d.json", "m.joblib", "m.pkl", "f.png", "a b.json"]
)
def test_known_file_names(name: str) -> None:
    assert name.endswith(check_output_file_name(name))


@pytest.mark.parametrize("name", ["x.csv", "x.xlsx", "x.pdf", "noSuffix", "x.parquet.gz"])
def test_an_unknown_suffix_has_a_way_out(name: str) -> None:
    with pytest.raises(BadPlan, match="no codec keeps a value exactly") as refused:
        check_output_file_name(name)
    assert f"gy.artifact_path('{name}') and declare --out {name}" in (refused.value.next_step or "")


@pytest.mark.parametrize("name", ["../x.json", "a/b.json", ".json", "", "con.json"])
def test_an_unsafe_file_name_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_output_file_name(name)


def test_decode_of_an_unknown_codec() -> None:
    with pytest.raises(Unavailable, match="codec foo, which is not installed here"):
        decode("foo", 1, io.BytesIO())


def test_decode_of_a_newer_version() -> None:
    with pytest.raises(Unavailable, match="written by version 99 of the codec npy") as refused:
        decode("npy", 99, io.BytesIO(), name="weights")
    assert "upgrade" in (refused.value.next_step or "")


def test_decode_without_the_library_that_a_pickle_needs() -> None:
    pickled = b"cno_such_package.models\nModel\n."
    with pytest.raises(Unavailable, match="model cannot be loaded: it needs no_such_package") as refused:
        decode("pickle", 1, io.BytesIO(pickled), name="model")
    assert (refused.value.next_step or "").startswith("pip install no_such_package")


def test_decode_in_an_environment_that_does_not_fit() -> None:
    pickled = b"ccollections\nNoLongerThere\n."
    with pytest.raises(Unavailable, match="model is intact but cannot be loaded in this environment"):
        decode("pickle", 1, io.BytesIO(pickled), name="model")


def test_with_the_real_object_store(tmp_path: Any) -> None:
    layout = pytest.importorskip("gyoshu_ckpt.storage.layout")
    objects = pytest.importorskip("gyoshu_ckpt.storage.objects")
    real = objects.ObjectStore(layout.StoreLayout(tmp_path), "title")
    frame = pd.DataFrame({"a": np.arange(1000.0), "b": ["x"] * 1000})
    for value in (frame, np.arange(500_000), {"a": (1,)}, [1, 2]):
        encoded = encode(value, real.writer, CONTEXT, name="v")
        with real.open_verified(encoded.sha256, encoded.size_bytes) as file:
            loaded = decode(encoded.codec, encoded.codec_version, file)
        assert type(loaded) is type(value)
        assert str(loaded) == str(value)
