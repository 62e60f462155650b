from __future__ import annotations

import pytest

from gyoshu_ckpt.codecs.interface import CannotEncode
from gyoshu_ckpt.codecs.refusals import not_as_asked, not_savable, reason_of


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (CannotEncode("it is odd"), "it is odd"),
        (MemoryError(), "there is not enough memory for the copy of it that proves the save"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
        (TypeError("two\n  lines"), "TypeError: two lines"),
        (KeyError(), "KeyError"),
    ],
    ids=lambda p: type(p).__name__,
)
def test_reasons(problem: Exception, reason: str) -> None:
    assert reason_of(problem) == reason


def test_a_long_reason_is_shortened() -> None:
    assert len(reason_of(ValueError("x" * 10_000))) < 400


def test_memory_has_its_own_way_out() -> None:
    refusal = not_savable([1], "big", [reason_of(MemoryError())])
    assert "make big smaller" in (refusal.next_step or "")


def test_an_exotic_value_has_a_way_out() -> None:
    refusal = not_savable(object(), "thing", ["TypeError: no"])
    assert refusal.message == "thing (object) cannot be saved: TypeError: no"
    assert "gy.artifact_path('thing.…')" in (refusal.next_step or "")


def test_a_format_that_was_asked_for_has_a_way_out() -> None:
    refusal = not_as_asked([1], "x", "x.npy", ".npy", [])
    assert refusal.message == "x (list) cannot be kept exactly as x.npy: .npy is not for values of this type"
    assert "leave out '=x.npy'" in (refusal.next_step or "")
