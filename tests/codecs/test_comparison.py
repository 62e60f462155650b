from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import random
import struct
import threading
import uuid
from typing import Any

import numpy as np
import pytest

from gyoshu_ckpt.codecs.comparison import difference, same_atom

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


class KeepsNothing:
    """Its pickle leaves the cache out, on purpose."""

    def __init__(self, cache: Any) -> None:
        self.kept = 1
        self.cache = cache

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}


class Volatile:
    """Its pickle is never twice the same."""

    def __reduce__(self) -> Any:
        return Volatile, (), {"id": uuid.uuid4().hex}


class Rude:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compare me")

    __hash__ = None  # type: ignore[assignment]


def loop() -> list[Any]:
    endless: list[Any] = [1]
    endless.append(endless)
    return endless


SAME = [
    (1, 1),
    (float("nan"), float("nan")),
    ("a", "a"),
    ([1, [2, {"a": (3,)}]], [1, [2, {"a": (3,)}]]),
    ({1, "a", None}, {None, "a", 1}),
    ({float("nan")}, {float("nan")}),
    (frozenset({(1, 2)}), frozenset({(1, 2)})),
    (bytearray(b"x"), bytearray(b"x")),
    (range(3), range(3)),
    (Point(1), Point(1)),
    (Point([1]), Point([1])),
    (Slotted(1), Slotted(1)),
    (Rude(), Rude()),
    (np.arange(3), np.arange(3)),
    (np.array([None, "a"]), np.array([None, "a"])),
    (np.float32(1), np.float32(1)),
    (decimal.Decimal("1.20"), decimal.Decimal("1.20")),
    (datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)),
    (collections.OrderedDict(a=1), collections.OrderedDict(a=1)),
    (collections.Counter("aab"), collections.Counter("aab")),
    (collections.deque([1], maxlen=3), collections.deque([1], maxlen=3)),
    (KeepsNothing(1), KeepsNothing(2)),
    (Volatile(), Volatile()),
    (loop(), loop()),
    (threading.Lock(), threading.Lock()),  # cannot be reduced: by type
    (len, len),
]

NOT_SAME = [
    (1, True),
    (1, 1.0),
    (1, 2),
    (0.0, -0.0),
    (complex(0.0, -0.0), complex(0.0, 0.0)),
    (float("nan"), OTHER_NAN),
    ("a", b"a"),
    (None, float("nan")),
    ([1], (1,)),
    ([1], [1, 2]),
    ([1, [2]], [1, [3]]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, {"a": 2}),
    ({1: 0}, {True: 0}),
    ({"a": 1}, {"a": 1, "b": 1}),
    ({1}, {True}),
    ({1}, {2}),
    ({1, 2}, {1}),
    (frozenset({(1,)}), frozenset({"a"})),
    (bytearray(b"x"), bytearray(b"y")),
    (range(0), range(1, 1)),
    (Point(1), Point(2)),
    (Point(1), Slotted(1)),
    (Slotted(1), Slotted(2)),
    (np.arange(3), np.arange(3).astype("i4")),
    (np.arange(3), np.arange(4)),
    (np.array([None]), np.array([np.nan], dtype=object)),
    (np.array([None, 1]), np.array([[None, 1]])),
    (np.float32(1), np.float64(1)),
    (decimal.Decimal("1.2"), decimal.Decimal("1.20")),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.deque([1], maxlen=3), collections.deque([1])),
    (collections.Counter("a"), collections.Counter("b")),
    (len, max),
    (int, float),
    (lambda: 1, lambda: 2),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(one: Any, other: Any) -> None:
    assert difference(one, other) is None


@pytest.mark.parametrize(("one", "other"), NOT_SAME)
def test_not_the_same(one: Any, other: Any) -> None:
    assert difference(one, other) is not None
    assert difference([other], [one]) is not None


def test_a_difference_says_where() -> None:
    found = difference({"a": [1, 2]}, {"a": [1, 2.0]})
    assert found == "it['a'][1] was of type int and came back as float"


@pytest.mark.parametrize("shared", [[1], {"a": 1}, np.arange(2), Point(1), bytearray(b"x")])
def test_what_was_shared_has_to_be_shared_again(shared: Any) -> None:
    import copy

    together = [shared, shared]
    apart = [copy.deepcopy(shared), copy.deepcopy(shared)]
    again = copy.deepcopy(together)
    assert difference(together, again) is None
    assert "shared" in (difference(together, apart) or "")


def test_values_that_cannot_change_need_not_be_shared() -> None:
    date = datetime.date(2020, 1, 1)
    assert difference([date, date], [datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)]) is None


def test_a_broken_setstate_is_found() -> None:
    good, bad = random.Random(1), random.Random(2)
    assert difference(good, random.Random(1)) is None
    assert difference(good, bad) is not None


def test_deep_nesting_is_no_problem() -> None:
    def deep(leaf: Any) -> Any:
        for _ in range(50_000):
            leaf = [leaf]
        return leaf

    assert difference(deep(1), deep(1)) is None
    assert difference(deep(1), deep(2)) is not None


def test_same_atom_looks_at_bits() -> None:
    assert same_atom(float("nan"), float("nan"))
    assert not same_atom(0.0, -0.0)
    assert not same_atom(1, True)
