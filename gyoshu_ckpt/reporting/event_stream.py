"""A session as NDJSON: every journal line as it is written, for agents and scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from gyoshu_ckpt.core.plan import Plan


class EventStream:
    """Watches a session and writes one JSON document a line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        """The first document: what will run."""
        stages = [stage.stage_id for stage in plan.stages]
        self._emit(
            "session_began", {"title": plan.title, "run": run_id, "stages": stages, "stand": list(finished)}
        )

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        """A journal line."""
        self._emit(event, fields)

    def told(self, sentence: str) -> None:
        """A notice."""
        self._emit("notice", {"message": sentence})

    def printed(self, text: str) -> None:
        """Output is in the executed notebook; a stream of it would be a second copy."""

    def session_ended(self) -> None:
        """The command writes the closing document."""

    def _emit(self, event: str, fields: Mapping[str, Any]) -> None:
        self._write(json.dumps({"event": event, **fields}, ensure_ascii=False))
