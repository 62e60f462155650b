"""The ladder keeps the full grace of every rung, however late it is asked."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.core.watchdog import GRACE_AFTER_S, Ladder, Rung


def test_interrupt_at_once_then_five_seconds_then_three() -> None:
    ladder, rung = Ladder(taken_at=100.0).climb(100.0)
    assert rung is Rung.INTERRUPT
    assert ladder.due_at() == 105.0
    assert ladder.climb(104.9)[1] is None
    ladder, rung = ladder.climb(105.0)
    assert rung is Rung.TERMINATE
    assert ladder.due_at() == 108.0
    ladder, rung = ladder.climb(108.0)
    assert rung is Rung.KILL
    assert ladder.due_at() is None
    assert ladder.climb(1e9)[1] is None


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_every_rung_keeps_its_grace_and_none_is_skipped(waits: list[float]) -> None:
    now, ladder, taken = 0.0, Ladder(taken_at=0.0), []
    for wait in waits:
        now += wait
        ladder, rung = ladder.climb(now)
        if rung is not None:
            taken.append((rung, now))
    assert [rung for rung, _ in taken] == list(Rung)[: len(taken)]
    for (before, at), (_, later) in itertools.pairwise(taken):
        assert later - at >= GRACE_AFTER_S[before] - 1e-9
