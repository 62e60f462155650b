"""The ladder: how a stage that passed its limit is stopped. Policy only; the bridge sends the signals.

interrupt → 5 s → terminate → 3 s → kill. Each rung keeps its full grace, counted from the moment at which the
rung before it was really taken, so a supervisor that was slow never skips one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Rung(StrEnum):
    """A step of the ladder."""

    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    KILL = "kill"


GRACE_AFTER_S = {Rung.INTERRUPT: 5.0, Rung.TERMINATE: 3.0}
_ORDER = (Rung.INTERRUPT, Rung.TERMINATE, Rung.KILL)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Where on the ladder we stand: the last rung taken, and when. Fresh: none taken."""

    taken: Rung | None = None
    taken_at: float = 0.0

    def next_rung(self) -> Rung | None:
        """The rung that comes next; None after kill."""
        if self.taken is None:
            return _ORDER[0]
        place = _ORDER.index(self.taken) + 1
        return _ORDER[place] if place < len(_ORDER) else None

    def due_at(self) -> float | None:
        """When the next rung is due; None when there is none left."""
        if self.next_rung() is None:
            return None
        if self.taken is None:
            return self.taken_at
        return self.taken_at + GRACE_AFTER_S[self.taken]

    def climb(self, now: float) -> tuple[Ladder, Rung | None]:
        """Take the next rung if it is due: at most one a call."""
        due = self.due_at()
        rung = self.next_rung()
        if rung is None or due is None or now < due:
            return self, None
        return replace(self, taken=rung, taken_at=now), rung
