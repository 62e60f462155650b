from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from gyoshu_ckpt.codecs import registry
from gyoshu_ckpt.codecs.plain import TEXT, TextCodec
from gyoshu_ckpt.errors import Unavailable

OURS = {"parquet", "polars", "arrow", "npy", "json", "text", "bytes", "figure", "joblib", "pickle"}


def test_all_our_codecs_are_found_and_none_is_broken() -> None:
    found = registry.installed()
    assert {codec.name for codec in found.codecs} >= OURS
    assert found.broken == {}


def test_codec_named() -> None:
    assert registry.codec_named("text") is TEXT


def test_a_codec_that_is_not_there_has_a_way_out() -> None:
    with pytest.raises(Unavailable, match="codec foo, which is not installed here") as refused:
        registry.codec_named("foo")
    assert "pip install" in (refused.value.next_step or "")


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".parquet", ["parquet", "polars"]),
        (".npy", ["npy"]),
        (".joblib", ["joblib", "pickle"]),
        (".pkl", ["pickle"]),
        (".md", ["text"]),
        (".png", ["figure"]),
        (".csv", []),
    ],
)
def test_codecs_for_suffix(suffix: str, names: list[str]) -> None:
    assert [codec.name for codec in registry.codecs_for_suffix(suffix)] == names
    first = registry.codec_for_suffix(suffix)
    assert (first.name if first else None) == (names[0] if names else None)


@pytest.mark.parametrize(
    ("file_name", "suffix"),
    [
        ("a.json", ".json"),
        ("A.JSON", ".json"),
        ("f.figure.pkl", ".figure.pkl"),
        ("f.pkl", ".pkl"),
        ("x.csv", None),
        ("x", None),
        ("x.parquet.csv", None),
    ],
)
def test_suffix_of(file_name: str, suffix: str | None) -> None:
    assert registry.suffix_of(file_name) == suffix


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("text", ["text", "json", "pickle"]),
        (b"bytes", ["bytes", "pickle"]),
        ([1], ["json", "pickle"]),
        ((1,), ["pickle"]),
        (np.zeros(3), ["npy", "pickle"]),
        (np.float64(3), ["pickle"]),
        (np.array([None]), ["pickle"]),
        (pd.DataFrame(), ["parquet", "pickle"]),
        (pd.Series([1]), ["parquet", "pickle"]),
        (pl.DataFrame(), ["polars", "pickle"]),
        (pa.table({}), ["arrow", "pickle"]),
        (Figure(), ["figure", "pickle"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_candidates(value: Any, names: list[str]) -> None:
    assert [codec.name for codec in registry.candidates(value)] == names


def test_a_value_that_resents_being_looked_at_still_has_a_candidate() -> None:
    class Rude(np.ndarray):
        @property
        def dtype(self) -> Any:
            raise RuntimeError("do not look at me")

    rude = np.zeros(2).view(Rude)
    assert [codec.name for codec in registry.candidates(rude)] == ["pickle"]


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that a test may add to those that are installed."""
    added = list(registry.entry_points(group=registry.GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: added)
    registry.installed.cache_clear()
    registry.known_suffixes.cache_clear()
    yield added
    registry.installed.cache_clear()
    registry.known_suffixes.cache_clear()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module_at_all:CODEC", "ModuleNotFoundError"),
        ("json:NOTHING", "AttributeError"),
        ("json:dumps", "not an instance"),
        ("gyoshu_ckpt.codecs.plain:TEXT", "calls itself 'text'"),
    ],
)
def test_a_broken_entry_point_breaks_only_itself(entries: list[EntryPoint], target: str, why: str) -> None:
    entries.append(EntryPoint("stranger", target, registry.GROUP))
    assert {codec.name for codec in registry.installed().codecs} == OURS
    with pytest.raises(Unavailable, match="stranger is installed but cannot be used") as refused:
        registry.codec_named("stranger")
    assert why in refused.value.message


def test_a_stranger_cannot_take_the_name_of_one_of_ours(
    entries: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stranger(TextCodec):
        pass

    module = types.ModuleType("a_stranger")
    module.TEXT = Stranger()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_stranger", module)
    entries[:] = [EntryPoint("text", "a_stranger:TEXT", registry.GROUP), *entries]
    entries.append(EntryPoint("text", "a_stranger:TEXT", registry.GROUP))
    assert registry.codec_named("text") is TEXT


LIGHT = """
import sys
from gyoshu_ckpt.codecs import registry
from gyoshu_ckpt.codecs.encoding import check_output_file_name
assert registry.codec_named("parquet").name == "parquet"
registry.known_suffixes()
assert [c.name for c in registry.candidates([1])] == ["json", "pickle"]
check_output_file_name("table.parquet")
print(*{"pandas", "pyarrow", "numpy", "polars", "matplotlib", "joblib", "cloudpickle"} & set(sys.modules))
"""


def test_looking_for_codecs_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_codecs_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.installed()
    monkeypatch.setattr(registry, "entry_points", None, raising=False)
    assert registry.installed() is found
