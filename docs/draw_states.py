"""Draw the two state machines from their tables into architecture.md; with ``--check``, only compare."""

from __future__ import annotations

import sys
from pathlib import Path

from gyoshu_ckpt.core.run_state import RUN_TABLE, STAGE_TABLE, draw

PAGE = Path(__file__).parent / "architecture.md"
BEGIN, END = "<!-- states:begin -->", "<!-- states:end -->"


def drawn(page: str) -> str:
    """The page with its diagrams drawn anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    parts = [
        f"A stage:\n\n```text\n{draw(STAGE_TABLE)}\n```\n",
        f"A run:\n\n```text\n{draw(RUN_TABLE)}\n```\n",
    ]
    return f"{before}{BEGIN}\n\n{chr(10).join(parts)}\n{END}{after}"


if __name__ == "__main__":
    current = PAGE.read_text(encoding="utf-8")
    wanted = drawn(current)
    if "--check" in sys.argv and wanted != current:
        sys.exit(
            "docs/architecture.md does not show the state tables as they are: python docs/draw_states.py"
        )
    PAGE.write_text(wanted, encoding="utf-8")
