"""What a session tells whoever watches it: the live view, plain lines, or NDJSON for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gyoshu_ckpt.core.plan import Plan


class Watcher(Protocol):
    """Somebody who is told. Must not raise, and must not take long."""

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        """The plan, and the stages that stand already, each with the size of its checkpoint if known."""

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        """A line went into the journal."""

    def told(self, sentence: str) -> None:
        """A notice for the person at the screen."""

    def printed(self, text: str) -> None:
        """The notebook printed text."""

    def session_ended(self) -> None:
        """Nothing more will come."""


class NobodyWatching:
    """A watcher for tests and libraries."""

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        """Say nothing."""

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        """Say nothing."""

    def told(self, sentence: str) -> None:
        """Say nothing."""

    def printed(self, text: str) -> None:
        """Say nothing."""

    def session_ended(self) -> None:
        """Say nothing."""
