"""Limits and the root of the store: from flags, ``GYOSHU_*`` variables and ``gyoshu.toml``, in that order.

::

    # gyoshu.toml
    [limits]
    stage = "4m"            # a stage that names no --max     (GYOSHU_LIMITS_STAGE)
    longest_stage = "10m"   # the most that --max may ask for (GYOSHU_LIMITS_LONGEST_STAGE)
    save = "10m"            # saving one stage's values       (GYOSHU_LIMITS_SAVE)

The root is ``--root``, else ``GYOSHU_ROOT``, else the nearest parent folder with a ``gyoshu.toml``, else the
working directory.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gyoshu_ckpt.core.durations import format_duration, parse_duration
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.supervision import Limits
from gyoshu_ckpt.errors import BadPlan, BadSettings, UserMistake

FILE_NAME = "gyoshu.toml"
_LIMITS = {"stage": 240.0, "longest_stage": 600.0, "save": 600.0}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user's files and environment say."""

    root: Path
    stage_s: float
    longest_stage_s: float
    save_s: float

    def limits(self) -> Limits:
        """The part that supervision needs."""
        return Limits(stage_s=self.stage_s, save_s=self.save_s)

    def check_limits_of(self, plan: Plan) -> None:
        """Refuse a plan whose stages ask for more time than the settings allow."""
        for stage in plan.stages:
            if stage.max_duration_s is not None and stage.max_duration_s > self.longest_stage_s:
                raise BadPlan(
                    f"{plan.source_path}: {stage.stage_id} asks for {format_duration(stage.max_duration_s)}, "
                    f"and a stage may take {format_duration(self.longest_stage_s)} at the most",
                    next_step="split the stage, or raise [limits] longest_stage in gyoshu.toml",
                )


def read_settings(root: Path | None, *, environment: Mapping[str, str] = os.environ) -> Settings:
    """Find the root and read what is said there; :class:`BadSettings` names file, key and fix."""
    chosen = root or (Path(environment["GYOSHU_ROOT"]) if environment.get("GYOSHU_ROOT") else None)
    chosen = chosen or _nearest_with_settings(Path.cwd()) or Path.cwd()
    limits = dict(_LIMITS)
    limits.update(_limits_from_file(chosen / FILE_NAME))
    for key in _LIMITS:
        variable = f"GYOSHU_LIMITS_{key.upper()}"
        if variable in environment:
            limits[key] = _duration(environment[variable], f"the environment variable {variable}")
    return Settings(
        root=chosen,
        stage_s=min(limits["stage"], limits["longest_stage"]),
        longest_stage_s=limits["longest_stage"],
        save_s=limits["save"],
    )


def _nearest_with_settings(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if (folder / FILE_NAME).is_file()), None)


def _limits_from_file(path: Path) -> dict[str, float]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise BadSettings(f"{path} cannot be read: {problem}", next_step=f"mend {FILE_NAME}") from None
    _refuse_unknown(document, {"limits"}, str(path))
    limits = document.get("limits", {})
    if not isinstance(limits, dict):
        raise BadSettings(
            f"{path}: limits has to be a table", next_step="write [limits] on a line of its own"
        )
    _refuse_unknown(limits, set(_LIMITS), f"{path} [limits]")
    return {key: _duration(value, f"{path} [limits] {key}") for key, value in limits.items()}


def _refuse_unknown(table: Mapping[str, object], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
            raise BadSettings(f"{where} has an unknown key {key!r}", next_step=hint)


def _duration(value: object, where: str) -> float:
    try:
        return parse_duration(str(value))
    except UserMistake as refusal:
        raise BadSettings(f"{where}: {refusal.message}", next_step=refusal.next_step) from None
