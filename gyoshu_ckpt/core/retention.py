"""Which checkpoints `gyoshu prune` removes.

Rules
1. The newest valid saved checkpoint never goes.
2. The newest ``keep_last`` valid saved ones stay; older ones go.
3. Damaged ones go, but only when a valid one stays: otherwise they are all the evidence there is.
4. Incidents (emergency, interrupted) are counted apart: the newest ``keep_last`` of them stay.
5. What a newer gyoshu wrote is not ours to judge, and stays.

Pure: what is valid was found out by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import UserMistake


class Standing(Enum):
    """What a checkpoint is worth."""

    VALID = "valid"  # saved, and every object of it is intact
    DAMAGED = "damaged"  # cannot be resumed from, whatever it was meant to be
    INCIDENT = "incident"  # emergency or interrupted: evidence
    FOREIGN = "foreign"  # of a newer format


@dataclass(frozen=True, slots=True)
class Judged:
    """A checkpoint and what was found out about it."""

    checkpoint_id: str
    standing: Standing


def check_keep_last(keep_last: int) -> int:
    """Return ``keep_last`` if it is at least 1; raise :class:`UserMistake` if not."""
    if keep_last < 1:
        raise UserMistake(
            f"--keep-last is {keep_last}; at least one checkpoint is kept", next_step="--keep-last 1"
        )
    return keep_last


def choose_to_remove(entries: Iterable[Judged], keep_last: int) -> tuple[str, ...]:
    """The ids to remove, oldest first."""
    check_keep_last(keep_last)
    ordered = sorted(entries, key=lambda entry: ids.number_of(entry.checkpoint_id))

    def of(standing: Standing) -> list[str]:
        return [entry.checkpoint_id for entry in ordered if entry.standing is standing]

    valid = of(Standing.VALID)
    removed = {*valid[:-keep_last], *of(Standing.INCIDENT)[:-keep_last]}
    if valid:
        removed.update(of(Standing.DAMAGED))
    return tuple(entry.checkpoint_id for entry in ordered if entry.checkpoint_id in removed)
