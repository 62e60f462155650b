"""What git says of the folder that a notebook lies in. Best effort: research also happens outside git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gyoshu_ckpt.core.manifest import Git

_PATIENCE_S = 5.0


def git_state(folder: Path) -> Git | None:
    """Branch, commit and whether anything is changed; None without git or outside a working copy."""
    try:
        # One call for all three. Untracked files do not count: the store itself is one.
        answer = subprocess.run(
            ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"],  # noqa: S607  # the user's own git
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    commit = branch = ""
    dirty = False
    for line in answer.splitlines():
        if line.startswith("# branch.oid "):
            commit = line.removeprefix("# branch.oid ")
        elif line.startswith("# branch.head "):
            branch = line.removeprefix("# branch.head ")
        elif not line.startswith("#"):
            dirty = True
    if not commit or commit == "(initial)":
        return None
    return Git(branch=None if branch == "(detached)" else branch, commit=commit, dirty=dirty)
