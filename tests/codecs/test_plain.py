from __future__ import annotations

import collections
import enum
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.codecs.comparison import difference
from gyoshu_ckpt.codecs.interface import CannotEncode, SaveContext
from gyoshu_ckpt.codecs.plain import BYTES, JSON, TEXT


class Text(str):
    pass


class Level(enum.IntEnum):
    LOW = 1


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def twice() -> dict[str, Any]:
    shared = [1]
    return {"a": shared, "b": shared}


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


JSON_VALUES = [
    None,
    True,
    0,
    -1,
    2**53 + 1,
    10**400,
    1.5,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    [],
    {},
    [[]],
    {"": {}},
    {"b": 1, "a": 2},
    [1, 1.0, True, "1", None],
    {"ключ": "значение", "emoji": "🐟", "nul": "\x00", "newline": "a\r\nb\u2028"},
    nested(50),
]

PICKLED_INSTEAD = [
    float("nan"),
    float("inf"),
    [float("-inf")],
    (1, 2),
    [(1, 2)],
    {1: "a"},
    {None: 1},
    {"a": {1}},
    collections.OrderedDict(a=1),
    [collections.OrderedDict(a=1)],
    Level.LOW,
    [Level.LOW],
    Text("a"),
    ["\ud800"],
    {"\udfff": 1},
    [b"a"],
    [1j],
    twice(),
    endless(),
    nested(150),
    10**5000,
    bytearray(b"x"),
]


@pytest.mark.parametrize("value", JSON_VALUES, ids=lambda v: repr(v)[:40])
def test_json_takes_what_it_keeps(value: Any, through: Any) -> None:
    codec, loaded = through(value)
    assert codec == "json"
    assert difference(value, loaded) is None


@pytest.mark.parametrize("value", PICKLED_INSTEAD, ids=lambda v: type(v).__name__)
def test_what_json_would_change_goes_to_pickle(value: Any, through: Any) -> None:
    codec, loaded = through(value)
    assert codec == "pickle"
    assert difference(value, loaded) is None


def test_sharing_survives_in_the_codec_that_takes_over(through: Any) -> None:
    _, loaded = through(twice())
    assert loaded["a"] is loaded["b"]


def test_the_document_is_json_for_everybody(written: Any) -> None:
    text = written(JSON, {"a": [1, 2.5, None], "é": True}).read().decode()
    assert json.loads(text) == {"a": [1, 2.5, None], "é": True}
    assert "é" in text
    assert "\n" in text  # short documents are made for reading


def test_a_long_document_is_compact(written: Any) -> None:
    assert b"\n" not in written(JSON, list(range(10_000))).read()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([float("nan")], "not JSON"),
        ([(1,)], "tuple"),
        ({1: 1}, "keys"),
        (twice(), "twice"),
        (nested(150), "nested"),
        (["\ud800"], "surrogate"),
    ],
    ids=str,
)
def test_a_refusal_says_why(value: Any, why: str, written: Any) -> None:
    with pytest.raises(CannotEncode, match=why):
        written(JSON, value)


@pytest.mark.parametrize(
    ("original", "loaded"),
    [([1], [1.0]), ([True], [1]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([0.0], [-0.0]), ((1,), [1])],
    ids=str,
)
def test_is_same_catches_a_broken_load(original: Any, loaded: Any) -> None:
    assert not JSON.is_same(original, loaded)


@pytest.mark.parametrize(
    "text", ["", "a", "a\r\nb\rc\nd", "\ufeffbom", "ünï 🐟", "\x00\x1a", "\u2028", " trailing \n"], ids=ascii
)
def test_text_is_kept_exactly(text: str, through: Any, written: Any) -> None:
    assert through(text) == ("text", text)
    assert written(TEXT, text).read() == text.encode()


def test_text_that_is_not_unicode_goes_to_pickle(through: Any) -> None:
    assert through("a\ud800b") == ("pickle", "a\ud800b")


@pytest.mark.parametrize("name", ["note.txt", "note.md", "page.html", "pic.svg"])
def test_text_under_other_names(name: str, through: Any) -> None:
    assert through("<b>x</b>\r\n", name) == ("text", "<b>x</b>\r\n")


def test_a_str_can_be_a_json_document_when_asked_for(through: Any) -> None:
    assert through("a\n", "x.json") == ("json", "a\n")


@pytest.mark.parametrize("data", [b"", b"\x00\xff", bytes(range(256)) * 5000], ids=len)
def test_bytes_are_kept(data: bytes, through: Any, written: Any) -> None:
    assert through(data) == ("bytes", data)
    assert written(BYTES, data).read() == data
    assert not BYTES.is_same(data, data + b"x")


@pytest.mark.parametrize("value", [True, 3, "a", [1]], ids=repr)
def test_bytes_and_text_take_nothing_else(value: Any) -> None:
    assert not BYTES.accepts(value)
    assert TEXT.accepts(value) == isinstance(value, str)


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(st.characters())
trees = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner)
)


@given(value=trees)
def test_any_tree_comes_back(value: Any, through: Any) -> None:
    _, loaded = through(value)
    assert difference(value, loaded) is None


@given(value=st.text(st.characters(codec=None)))
def test_any_text_comes_back(value: str, through: Any) -> None:
    assert through(value)[1] == value


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_keeps_its_bits_in_json(value: float, written: Any) -> None:
    file = written(JSON, value)
    assert JSON.prove(value, file, SaveContext()) is None
    file.seek(0)
    assert struct.pack("<d", JSON.load(file, 1)) == struct.pack("<d", value)
