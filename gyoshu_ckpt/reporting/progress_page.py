"""``progress.md``: the journal as a page for people. A view; rebuilt whole whenever a session ends."""

from __future__ import annotations

from collections.abc import Iterable

from gyoshu_ckpt.core.durations import format_duration
from gyoshu_ckpt.core.history import Recorded, RunHistory
from gyoshu_ckpt.core.sizes import format_bytes

_QUOTED = ("FINDING", "METRIC", "CONCLUSION", "INSIGHT", "LIMITATION", "DECISION", "SO_WHAT", "NEXT_STEP")


def progress_page(title: str, run_id: str, history: RunHistory, records: Iterable[Recorded]) -> str:
    """The page as Markdown."""
    lines = [f"# {title} · {run_id}", "", f"State: **{history.state.value}**. {history.message}".rstrip(), ""]
    lines += ["| stage | state | attempts | took | checkpoint | size |", "|---|---|---|---|---|---|"]
    for stage_id in history.stage_order:
        stage = history.stages[stage_id]
        took = format_duration(stage.duration_s) if stage.duration_s is not None else ""
        size = format_bytes(stage.size_bytes) if stage.size_bytes is not None else ""
        row = (stage_id, stage.state.value, str(stage.attempts or ""), took, stage.checkpoint or "", size)
        lines.append("| " + " | ".join(row) + " |")
    quoted = [
        record for record in records if record.event == "marker" and record.fields.get("type") in _QUOTED
    ]
    if quoted:
        lines += ["", "## What the notebook said", ""]
        lines += [
            f"- **{record.fields['type']}** {record.fields.get('content', '')}".rstrip() for record in quoted
        ]
    lines += ["", "## What happened", ""]
    lines += [
        f"- {record.at} {record.event}{_detail(record)}"
        for record in records
        if record.event not in {"marker", "marker_problem", "rung"}
    ]
    return "\n".join(lines) + "\n"


def _detail(record: Recorded) -> str:
    named = (record.fields.get(key) for key in ("stage", "checkpoint", "from", "reason", "message"))
    told = ", ".join(str(value) for value in named if value)
    return f": {told}" if told else ""
