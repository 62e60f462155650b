"""Which checkpoints a prune removes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.retention import Judged, Standing, choose_to_remove
from gyoshu_ckpt.errors import UserMistake

LETTERS = {"v": Standing.VALID, "d": Standing.DAMAGED, "i": Standing.INCIDENT, "f": Standing.FOREIGN}


def run(letters: str) -> list[Judged]:
    return [Judged(ids.checkpoint_id(n), LETTERS[letter]) for n, letter in enumerate(letters, 1)]


@pytest.mark.parametrize(
    ("letters", "keep_last", "removed"),
    [
        ("", 1, []),
        ("v", 1, []),
        ("vvv", 1, [1, 2]),
        ("vvv", 2, [1]),
        ("vvv", 9, []),
        ("vvdd", 1, [1, 3, 4]),  # the newest valid one stays, however many damaged ones are newer
        ("dd", 1, []),  # all the evidence there is
        ("vii", 1, [2]),  # incidents never push out a saved one
        ("iii", 2, [1]),
        ("vfv", 1, [1]),  # of a newer format: not ours to judge
        ("dfd", 1, []),
    ],
)
def test_choices(letters: str, keep_last: int, removed: list[int]) -> None:
    assert choose_to_remove(run(letters), keep_last) == tuple(map(ids.checkpoint_id, removed))


@pytest.mark.parametrize("keep_last", [0, -1])
def test_at_least_one_is_kept(keep_last: int) -> None:
    with pytest.raises(UserMistake):
        choose_to_remove(run("v"), keep_last)


@given(letters=st.text("vdif", max_size=30), keep_last=st.integers(1, 5), seed=st.randoms())
def test_rules(letters: str, keep_last: int, seed: object) -> None:
    entries = run(letters)
    shuffled = entries.copy()
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random, as Hypothesis makes it
    removed = choose_to_remove(shuffled, keep_last)
    assert removed == choose_to_remove(entries, keep_last)
    kept = [entry for entry in entries if entry.checkpoint_id not in removed]
    valid = [entry for entry in entries if entry.standing is Standing.VALID]
    assert [entry for entry in kept if entry.standing is Standing.VALID] == valid[-keep_last:]
    assert sum(entry.standing is Standing.INCIDENT for entry in kept) == min(keep_last, letters.count("i"))
    assert sum(entry.standing is Standing.FOREIGN for entry in kept) == letters.count("f")
    assert choose_to_remove(kept, keep_last) == ()
