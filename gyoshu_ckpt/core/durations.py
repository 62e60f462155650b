"""Durations as people write them: ``90s``, ``2m``, ``1h30m``, ``1.5h``, ``45`` (seconds).

Rules: units descend and each stands once (``1h30m``, never ``30m1h``); the result is above zero and finite.
Not handled: weeks and months, which no stage should last, and the limits that settings put on a duration.
"""

from __future__ import annotations

import math
import re

from gyoshu_ckpt.errors import UserMistake

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SECONDS = re.compile(_NUMBER)
_WITH_UNITS = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_UNITS = (86400.0, 3600.0, 60.0, 1.0)


def parse_duration(text: str) -> float:
    """The seconds that ``text`` stands for; :class:`UserMistake` if it is no duration above zero."""
    wanted = text.strip().lower()
    seconds = 0.0
    if _SECONDS.fullmatch(wanted):
        seconds = float(wanted)
    elif match := _WITH_UNITS.fullmatch(wanted):
        seconds = sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)
    if not 0 < seconds < math.inf:
        raise UserMistake(
            f"{text[:40]!r} is not a duration above zero", next_step="write it as 90s, 2m, 1h30m or 1.5h"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest exact writing, to the millisecond: ``format_duration(90) == "1m30s"``."""
    milliseconds = round(max(seconds, 0.0) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest or not milliseconds:
        parts.append(f"{rest / 1000:g}s" if rest % 1000 else f"{rest // 1000}s")
    return "".join(parts)
