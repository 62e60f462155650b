"""How commands speak: options that all of them have, one JSON document or words, colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gyoshu_ckpt.errors import GyoshuError

F = TypeVar("F", bound=Callable[..., Any])


def store_options(command: F) -> F:
    """``--root`` and ``--json``."""
    root = click.option(
        "--root",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the store's 'reports' folder lies. [default: GYOSHU_ROOT, else the nearest folder with a "
        "gyoshu.toml, else the working directory]",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    return root(as_json(command))


def say(line: str = "") -> None:
    """A line for people."""
    click.echo(line)


def note(line: str) -> None:
    """A line for people that is not the result."""
    click.echo(line, err=True)


def say_json(document: Any) -> None:
    """The result as one JSON document."""
    click.echo(json.dumps(document, indent=2 if _stdout_is_terminal() else None, ensure_ascii=False))


def tell_fault(fault: GyoshuError, *, as_json: bool) -> None:
    """What went wrong in one sentence, and what to type next."""
    if as_json:
        error = {"error": type(fault).__name__, "message": fault.message, "exitCode": fault.exit_code}
        click.echo(json.dumps({**error, "next": fault.next_step}, ensure_ascii=False))
    click.echo(f"gyoshu: {_one_sentence(fault.message)}", err=True)
    if fault.next_step:
        click.echo(f"  next: {fault.next_step}", err=True)


def wants_live_view() -> bool:
    """Whether stdout is a terminal that can redraw."""
    return _stdout_is_terminal() and os.environ.get("TERM") != "dumb"


class Muting:
    """Writes lines until that fails: a closed pipe or a full log must not end a run."""

    def __init__(self) -> None:
        self._works = True

    def __call__(self, line: str) -> None:
        if self._works:
            try:
                click.echo(line)
            except (OSError, ValueError):
                self._works = False
                # Python flushes stdout once more when it ends, and would complain then.
                sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  open to the end


def _stdout_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _one_sentence(text: str) -> str:
    return " ".join(text.split())
