"""Where the kernel works and where it looks for modules, as far as stages changed that.

Paths below the folder in which the kernel started are kept relative to it, so that a project can be moved. A
relative entry of the module path is taken to mean what it meant in that folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_start: tuple[Path, tuple[str, ...]] | None = None


def remember_start() -> None:
    """Once, before the first cell: what counts as unchanged."""
    global _start
    _start = (Path.cwd(), tuple(sys.path))


def capture() -> dict[str, Any]:
    """What differs from the start; empty if nothing does."""
    if _start is None:
        return {}
    folder, path = _start
    state: dict[str, Any] = {}
    try:
        if Path.cwd() != folder:
            state["workingDirectory"] = _portable(Path.cwd(), folder)
    except FileNotFoundError:
        return {}  # the stage removed the folder it stood in
    added = [entry for entry in sys.path if isinstance(entry, str) and entry not in path]
    if added:
        state["modulePath"] = [_portable(folder / entry, folder) for entry in added]
    return state


def apply(state: dict[str, Any]) -> None:
    """Go where the stages had gone. A folder that is not there any more is told, and passed over."""
    folder = _start[0] if _start is not None else Path.cwd()
    for entry in reversed(state.get("modulePath", [])):
        full = str(folder / entry)
        if full not in sys.path:
            sys.path.insert(0, full)
    wanted = state.get("workingDirectory")
    if wanted is not None:
        try:
            os.chdir(folder / wanted)
        except OSError as refusal:
            print(f"the working directory {wanted} cannot be entered again: {refusal.strerror}")  # noqa: T201  it stands in the rehydration cell's output


def _portable(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
