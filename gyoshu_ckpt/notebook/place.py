"""Where in a notebook something is wrong, and the sentence that says so.

Every refusal of `notebook` names the file, the cell (counted from 1 over all cells, as a person counts) and,
once it is known, the stage.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from gyoshu_ckpt.errors import BadPlan


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or one of its cells."""

    file: str
    cell: int | None = None  # from 1
    stage_id: str | None = None

    def __str__(self) -> str:
        cell = f", cell {self.cell}" if self.cell is not None else ""
        stage = f" ({self.stage_id})" if self.stage_id is not None else ""
        return self.file + cell + stage

    def refuse(self, problem: str, fix: str) -> BadPlan:
        """The error to raise: what is wrong here, and the edit that mends it."""
        # Parts of the notebook are quoted in it: nothing that a terminal would obey gets through.
        shown = "".join(
            char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in f"{self}: {problem}"
        )
        return BadPlan(shown, next_step=fix)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``", did you mean df?"`` if something known is near, else nothing."""
    near = difflib.get_close_matches(wrong, sorted(known), n=1)
    return f", did you mean {near[0]}?" if near else ""
