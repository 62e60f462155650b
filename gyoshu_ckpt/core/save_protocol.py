"""What supervisor and kernel say to each other about a save: plain values that travel as JSON.

The supervisor asks (`SaveRequest`), the kernel encodes values into objects and answers with a `Receipt`.
A receipt is a claim: the supervisor verifies every object on disk before it writes a manifest.

Free of pydantic, because the kernel side must import in milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Trust = Literal["data", "code"]


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """A declared output. ``file_name`` as the user gave it, or None to let the codec decide."""

    name: str
    kind: str  # an OutputKind
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Everything that the checkpoint after ``stage_id`` needs from the kernel."""

    stage_id: str
    attempt: int
    outputs: tuple[WantedOutput, ...]  # declared by this stage: a failure fails the checkpoint
    variables: tuple[str, ...]  # needed by a later stage: a failure fails the checkpoint
    optional_variables: tuple[str, ...]  # bound in setup cells: saved where that is possible
    restorable_globals: frozenset[str]  # functions and classes that the rehydration cell defines from source
    file_names: dict[str, str] = field(
        default_factory=dict
    )  # as earlier stages declared them: the same codec again

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(asdict(self) | {"restorable_globals": sorted(self.restorable_globals)})

    @classmethod
    def from_json(cls, text: str) -> SaveRequest:
        """The inverse of :meth:`to_json`."""
        raw = json.loads(text)
        return cls(
            stage_id=raw["stage_id"],
            attempt=raw["attempt"],
            outputs=tuple(WantedOutput(**output) for output in raw["outputs"]),
            variables=tuple(raw["variables"]),
            optional_variables=tuple(raw["optional_variables"]),
            restorable_globals=frozenset(raw["restorable_globals"]),
            file_names=raw["file_names"],
        )


@dataclass(frozen=True, slots=True)
class SavedObject:
    """One value or file, now in the object store."""

    name: str
    codec: str
    codec_version: int
    trust: Trust
    sha256: str
    size_bytes: int
    media_type: str
    file_name: str  # below the stage's folder; for a file of a folder artifact, with slashes
    same_as: str | None = None  # another variable that names the very same object


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A value that no codec could store, and why."""

    name: str
    type_name: str
    reason: str
    way_out: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The kernel's answer to a :class:`SaveRequest`."""

    artifacts: tuple[SavedObject, ...] = ()
    variables: tuple[SavedObject, ...] = ()
    random_state: SavedObject | None = None
    process_state: SavedObject | None = None
    definition_state: SavedObject | None = None
    not_saved: tuple[NotSaved, ...] = ()
    python_path: str = ""
    python_version: str = ""
    platform: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    fault: str | None = None  # the store refused: disk full, read-only, …

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """The inverse of :meth:`to_json`. Raises ValueError, TypeError or KeyError for anything else."""
        raw: dict[str, Any] = json.loads(text)
        states = {
            name: SavedObject(**raw[name]) if raw[name] is not None else None
            for name in ("random_state", "process_state", "definition_state")
        }
        return cls(
            artifacts=tuple(SavedObject(**saved) for saved in raw["artifacts"]),
            variables=tuple(SavedObject(**saved) for saved in raw["variables"]),
            **states,
            not_saved=tuple(NotSaved(**missed) for missed in raw["not_saved"]),
            python_path=raw["python_path"],
            python_version=raw["python_version"],
            platform=raw["platform"],
            packages=raw["packages"],
            fault=raw["fault"],
        )
