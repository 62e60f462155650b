"""The run's ``notebook.ipynb``: a valid nbformat 4.5 document after every cell, current at little cost.

Rewriting a notebook after every cell is what makes other runners slow: nearly all of that is turning
unchanged cells into JSON again and validating them. Here each cell's JSON is kept, so a save costs one join
and one write. Where even that is long (notebooks of many megabytes), saves between checkpoints are spaced out
so that they take at most a tenth of the time; the save at a checkpoint always happens.

The source notebook is never written. A resumed run starts from the source again, with the outputs of finished
stages taken over from what this file held before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gyoshu_ckpt.notebook.cell_outputs import CellOutputs
from gyoshu_ckpt.storage import durable_files

CHECKPOINT_TAG = "gyoshu-checkpoint"
REHYDRATION_TAG = "gyoshu-rehydration"
_GENERATED = {CHECKPOINT_TAG, REHYDRATION_TAG}
_SHARE_OF_TIME = 0.1


class ExecutedNotebook:
    """The notebook as it fills up."""

    def __init__(
        self,
        notebook: dict[str, Any],
        path: Path,
        *,
        below: Path,
        outputs_dir: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._below = below
        self._outputs_dir = outputs_dir
        self._clock = clock
        self._cells: list[dict[str, Any]] = list(notebook["cells"])
        self._frame = {key: value for key, value in notebook.items() if key != "cells"}
        self._frame["metadata"] = dict(self._frame.get("metadata", {}))
        self._rendered: dict[str, bytes] = {}
        self._running: str | None = None
        self._outputs: dict[str, CellOutputs] = {}
        self._not_before = 0.0
        self._unsaved = True

    # Filling it.

    def begin(self, cell_id: str) -> None:
        """A cell starts: whatever it showed before is gone."""
        self._running = cell_id
        self._outputs[cell_id] = CellOutputs(self._outputs_dir / f"{cell_id}.txt")
        self._unsaved = True
        cell = self._cell(cell_id)
        cell["outputs"], cell["execution_count"] = [], None
        self._rendered.pop(cell_id, None)

    def stream(self, name: str, text: str) -> None:
        """Text of the running cell."""
        if self._running is not None:
            self._outputs[self._running].stream(name, text)
            self._unsaved = True

    def rich(self, kind: str, content: dict[str, Any]) -> None:
        """A display, result or error of the running cell."""
        self._unsaved = True
        if kind == "update_display_data":
            self._update_display(content)
        elif self._running is not None:
            self._outputs[self._running].rich(kind, content)

    def clear(self, *, wait: bool) -> None:
        """The running cell asked for its output to be cleared."""
        if self._running is not None:
            self._outputs[self._running].clear(wait=wait)

    def finish(self, execution_count: int | None) -> None:
        """The running cell is over."""
        if self._running is None:
            return
        cell_id, self._running = self._running, None
        self._outputs[cell_id].close()
        self._unsaved = True
        self._cell(cell_id)["execution_count"] = execution_count
        self._refresh(cell_id)

    def add_checkpoint(self, after_cell_id: str, cell_id: str, lines: list[str]) -> None:
        """Put a checkpoint cell behind the last cell of its stage."""
        cell = {
            "cell_type": "markdown",
            "id": cell_id,
            "metadata": {"tags": [CHECKPOINT_TAG]},
            "source": "\n".join(lines),
        }
        self._insert_after(after_cell_id, cell)
        self._unsaved = True

    def add_rehydration(self, before_cell_id: str, cell_id: str, source: str) -> None:
        """Put the rehydration cell in front of the stage that runs next."""
        cell: dict[str, Any] = {
            "cell_type": "code",
            "id": cell_id,
            "metadata": {"tags": [REHYDRATION_TAG]},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        self._cells.insert(self._place(before_cell_id), cell)

    def take_over(self, earlier: dict[str, Any], stop_at_cell_id: str | None) -> None:
        """Bring in what ``earlier`` shows of the cells before ``stop_at_cell_id``, generated cells included."""
        previous: str | None = None
        known = {cell["id"] for cell in self._cells}
        for cell in earlier.get("cells", []):
            cell_id = cell.get("id")
            if cell_id == stop_at_cell_id:
                return
            if _GENERATED & set(cell.get("metadata", {}).get("tags", [])):
                if previous is not None and cell_id not in known:
                    self._insert_after(previous, cell)
                    previous = cell_id
            elif cell_id in known:
                previous = cell_id
                own = self._cell(cell_id)
                if own["cell_type"] == "code" and cell["cell_type"] == "code":
                    own["outputs"], own["execution_count"] = cell["outputs"], cell["execution_count"]

    # Writing it.

    def save(self) -> None:
        """Write the notebook durably, now."""
        began = self._clock()
        if self._running is not None:
            self._refresh(self._running)
        durable_files.write_durably(self._path, self.render(), below=self._below)
        ended = self._clock()
        self._unsaved = False
        self._not_before = ended + (ended - began) / _SHARE_OF_TIME

    def save_if_cheap(self) -> None:
        """Write what is new, unless that was done a moment ago, measured by what writing it costs."""
        if self._unsaved and self._clock() >= self._not_before:
            self.save()

    def render(self) -> bytes:
        """The whole document."""
        frame = json.dumps(self._frame | {"cells": []}, indent=1, ensure_ascii=False)
        before, after = frame.rsplit('"cells": []', 1)
        return b"".join(
            [
                before.encode(),
                b'"cells": [\n',
                b",\n".join(self._render_cell(cell) for cell in self._cells),
                b"\n ]",
                after.encode(),
                b"\n",
            ]
        )

    # Small things.

    def _render_cell(self, cell: dict[str, Any]) -> bytes:
        cell_id = cell["id"]
        if cell_id not in self._rendered:
            text = json.dumps(cell, indent=1, ensure_ascii=False)
            # A lone surrogate has no UTF-8: a question mark is better than no notebook.
            self._rendered[cell_id] = text.encode("utf-8", "replace")
        return self._rendered[cell_id]

    def _refresh(self, cell_id: str) -> None:
        self._cell(cell_id)["outputs"] = self._outputs[cell_id].as_json()
        self._rendered.pop(cell_id, None)

    def _update_display(self, content: dict[str, Any]) -> None:
        display_id = content.get("transient", {}).get("display_id", "")
        for cell_id, outputs in self._outputs.items():
            if outputs.update_display(display_id, content) and cell_id != self._running:
                self._refresh(cell_id)

    def _insert_after(self, cell_id: str, cell: dict[str, Any]) -> None:
        self._cells.insert(self._place(cell_id) + 1, cell)

    def _cell(self, cell_id: str) -> dict[str, Any]:
        return self._cells[self._place(cell_id)]

    def _place(self, cell_id: str) -> int:
        return next(place for place, cell in enumerate(self._cells) if cell["id"] == cell_id)


def read_executed(path: Path, *, below: Path) -> dict[str, Any] | None:
    """The executed notebook of an earlier session; None if it is missing or cannot be used."""
    try:
        with durable_files.open_regular(path, below=below) as file:
            document = json.loads(file.read())
        cells = document["cells"]
        usable = all(isinstance(cell["id"], str) and cell["cell_type"] for cell in cells)
    except Exception:  # whatever is wrong with it: it is a view, and a run never stops for one
        return None
    return document if usable else None
