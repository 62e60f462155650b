"""Record the README's picture: run the quickstart in a real terminal, kill its kernel, continue.

What the picture shows is what the terminal showed: tmux holds the screen, rich draws it as SVG.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "crash-and-continue.svg"
WIDTH, HEIGHT = 84, 30
PATIENCE_S = 60.0


def main() -> None:
    """Make the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns("reports"))
        terminal = Terminal(folder)
        try:
            terminal.type("gyoshu run notebooks/quickstart.ipynb -p pace 2")
            terminal.wait_until(lambda screen: "▶  S04_fit_model" in screen and "%" in screen)
            kernel = int(_last_pid((folder / "reports/quickstart/run-001/journal.jsonl").read_text()))
            os.kill(kernel, signal.SIGKILL)
            terminal.wait_until(
                lambda screen: "next: gyoshu continue" in screen and screen.rstrip().endswith("$")
            )
            terminal.type("gyoshu continue")
            terminal.wait_until(lambda screen: "all stages are complete" in screen)
            _draw(terminal.screen(colours=True))
        finally:
            terminal.close()


class Terminal:
    """A shell in tmux."""

    def __init__(self, folder: Path) -> None:
        self._socket = f"gyoshu-recording-{os.getpid()}"
        shell = (
            "env -i PATH=$PATH TERM=xterm-256color HOME=$HOME LANG=C.UTF-8 PS1='$ ' bash --norc --noprofile"
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._tmux("new-session", "-d", *size, "-c", str(folder), shell, environment={"PATH": path})
        self.wait_until(lambda screen: "$" in screen)

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")

    def screen(self, *, colours: bool = False) -> str:
        """What the screen shows, with what has scrolled away."""
        return self._tmux("capture-pane", "-p", "-S", "-200", *(["-e"] if colours else []))

    def wait_until(self, holds: Callable[[str], bool]) -> None:
        """Until the screen shows it, or give up."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.screen()):
            if time.monotonic() > deadline:
                sys.exit(f"the screen never showed it:\n{self.screen()}")
            time.sleep(0.05)

    def close(self) -> None:
        """End the terminal and what runs in it."""
        self._tmux("kill-server")

    def _tmux(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", "-u", *arguments]
        environment = {**os.environ, **(environment or {})}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def _last_pid(journal: str) -> str:
    return journal.rsplit('"pid":', 1)[1].split(",")[0].strip(" }")


def _draw(screen: str) -> None:
    lines = list(screen.rstrip().splitlines())
    while lines and lines[-1].strip() in {"", "$"}:
        lines.pop()
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        for line in lines:
            console.print(Text.from_ansi(line), no_wrap=True)
        console.save_svg(
            str(PICTURE), title="kill -9 of the kernel in the fourth stage, then gyoshu continue"
        )


if __name__ == "__main__":
    main()
