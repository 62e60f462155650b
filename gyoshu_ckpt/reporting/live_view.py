"""A session on a terminal: the board of stages, drawn in place while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gyoshu_ckpt.core.durations import format_duration
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.run_state import StageState
from gyoshu_ckpt.core.sizes import format_bytes
from gyoshu_ckpt.reporting.stage_board import StageBoard, StageRow

_SIGNS = {
    StageState.PENDING: Text("·", style="dim"),
    StageState.RUNNING: Text("▶", style="bold cyan"),
    StageState.INTERRUPTING: Text("▶", style="bold yellow"),
    StageState.COMPLETED: Text("✔", style="green"),
    StageState.INTERRUPTED: Text("■", style="bold yellow"),
    StageState.FAILED: Text("✘", style="bold red"),
}
_LONGEST_LAST_LINE = 200


class LiveView:
    """Watches a session and redraws the board four times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board: StageBoard | None = None
        self._live: Live | None = None
        self._last_line = ""

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        """Show the board."""
        self._board = StageBoard(plan, run_id, finished)
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4)
        self._live.start()

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in a journal line; the next redraw shows it."""
        if self._board is not None:
            self._board.take_in(event, fields, time.monotonic())
        if event == "stopping":
            self.told(f"stopping: {fields['message']}")

    def told(self, sentence: str) -> None:
        """A notice scrolls by above the board."""
        self._console.print(Text.assemble(("note ", "yellow"), sentence), soft_wrap=True)

    def printed(self, text: str) -> None:
        """Keep the last line that the notebook printed."""
        lines = text[-4 * _LONGEST_LAST_LINE :].splitlines()
        shown = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if shown:
            self._last_line = "".join(c for c in shown[:_LONGEST_LAST_LINE] if c.isprintable())

    def session_ended(self) -> None:
        """Leave the board as it is, without the line that moves."""
        self._last_line = ""
        if self._live is not None:
            self._live.stop()

    def _draw(self) -> RenderableType:
        if self._board is None:
            return Text("")
        table = Table.grid(padding=(0, 2))
        for row in self._board.rows.values():
            table.add_row(_SIGNS[row.state], row.stage_id, _what(row), _time(row), _saved(row))
        head = Text.assemble((self._board.title, "bold"), f" · {self._board.run_id}")
        parts: list[RenderableType] = [head, table]
        if self._last_line:
            parts.append(Text(f"  {self._last_line}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)


def _what(row: StageRow) -> Text:
    if row.restored:
        return Text("stands", style="green dim")
    if row.state is StageState.RUNNING and row.percent is not None:
        return Text(f"{row.percent:.0f} %", style="cyan")
    words = {StageState.PENDING: "to come", StageState.COMPLETED: "done"}
    style = "dim" if row.state is StageState.PENDING else ""
    return Text(words.get(row.state, row.state.value.lower()), style=style)


def _time(row: StageRow) -> Text:
    if row.state is StageState.RUNNING and row.began is not None:
        elapsed = format_duration(int(time.monotonic() - row.began))
        limit = format_duration(row.limit_s) if row.limit_s else "∞"
        return Text(f"{elapsed} of {limit}", style="cyan")
    if row.duration_s is not None:
        return Text(format_duration(round(row.duration_s, 1)))
    return Text("")


def _saved(row: StageRow) -> Text:
    size = format_bytes(row.size_bytes) if row.size_bytes is not None else ""
    return Text("  ".join(part for part in (row.checkpoint or "", size) if part), style="dim")
