"""What supervision says and records of what happened: events in words."""

from __future__ import annotations

import signal

from gyoshu_ckpt.core import actions, events
from gyoshu_ckpt.core.markers import Marker, MarkerProblem


def marker_record(marker: Marker | MarkerProblem) -> actions.Record:
    """A marker, or what is wrong with it, as a line of the journal."""
    if isinstance(marker, Marker):
        fields = {
            "type": marker.type,
            "subtype": marker.subtype,
            "attributes": dict(marker.attributes),
            "content": marker.content,
            "known": marker.known,
        }
        return actions.Record("marker", fields)
    return actions.Record("marker_problem", {"line": marker.line_excerpt, "reason": marker.reason})


def error_line(event: events.CellFinished) -> str:
    """Why a cell failed, in one line."""
    if event.status == "aborted":
        return "the kernel aborted the cell"
    first_line = event.error_value.strip().splitlines()[:1]
    # Some kernels name no error: bash gives the exit code only.
    return (
        ": ".join([part for part in (event.error_name, *first_line) if part]) or "the kernel gave no reason"
    )


def death_sentence(event: events.KernelGone) -> str:
    """How a kernel ended that nobody had asked to."""
    if event.signal is not None:
        try:
            name = signal.Signals(event.signal).name
        except ValueError:
            name = f"signal {event.signal}"
        return f"the kernel was killed by {name}"
    return f"the kernel ended by itself with exit code {event.exit_code}"
