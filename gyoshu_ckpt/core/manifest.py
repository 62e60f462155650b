"""The manifest: the JSON that names all of a checkpoint's objects, and is its commit record.

Rules
1. ``manifestSha256`` is the SHA-256 of the RFC 8785 canonical bytes of the document without that one field,
   so key order and blanks never matter and every other change does.
2. Nothing in a manifest is believed because it is well formed: names, paths and hashes pass the same rules
   as at every other entrance (`core.ids`), and unknown fields are refused.
3. A ``schemaVersion`` above ours is refused with a sentence, never guessed at.

Not handled here: where a manifest lies on disk and whether its objects are intact (`storage.checkpoints`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import BadName, ManifestDamaged, NewerFormat

SCHEMA_VERSION = 1


class Status(StrEnum):
    """How a checkpoint came about. Only ``saved`` is a place to resume from."""

    SAVED = "saved"
    INTERRUPTED = "interrupted"
    EMERGENCY = "emergency"


class Reason(StrEnum):
    """Why an emergency checkpoint was written."""

    WATCHDOG_TIMEOUT = "watchdog_timeout"
    STALLED = "stalled"
    OUT_OF_MEMORY = "out_of_memory"
    KERNEL_DIED = "kernel_died"
    MANUAL_ABORT = "manual_abort"
    ERROR = "error"
    DISK_LOW = "disk_low"


def _rule(check: Any) -> AfterValidator:
    """A validator that speaks pydantic's language: it wants ValueError where ours is BadName."""

    def validated(text: str) -> str:
        try:
            check(text)
        except BadName as refusal:
            raise ValueError(refusal.message) from None
        return text

    return AfterValidator(validated)


Title = Annotated[str, _rule(ids.check_title)]
RunId = Annotated[str, _rule(ids.check_run_id)]
CheckpointId = Annotated[str, _rule(ids.check_checkpoint_id)]
StageId = Annotated[str, _rule(ids.check_stage_id)]
Sha256 = Annotated[str, _rule(ids.check_sha256)]
FileName = Annotated[str, _rule(ids.check_file_name)]
RelativePath = Annotated[str, _rule(ids.check_relative_path)]
VariableName = Annotated[str, AfterValidator(lambda text: _check_identifier(text))]
Count = Annotated[int, Field(ge=0, le=2**53)]  # 2**53: what every JSON reader holds exactly


def _check_identifier(text: str) -> str:
    if not text.isidentifier() or len(text) > 512:
        raise ValueError(f"{text[:80]!r} is not a variable name")
    return text


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class StoredValue(_Model):
    """Bytes in the object store, and the codec that reads them."""

    codec: FileName
    codec_version: Annotated[int, Field(ge=1)]
    trust: Literal["data", "code"]
    sha256: Sha256
    size_bytes: Count


class Artifact(StoredValue):
    """A declared output, as a person finds it below the run's folder."""

    name: FileName
    stage_id: StageId
    relative_path: RelativePath
    media_type: str

    @model_validator(mode="after")
    def _lies_in_its_stage(self) -> Artifact:
        if not self.relative_path.startswith(self.stage_id + "/"):
            raise ValueError(f"artifact path {self.relative_path!r} is not below its stage {self.stage_id}")
        return self


class Variable(StoredValue):
    """A name that the rehydration cell assigns; with ``same_as``, to the object of a variable listed before it."""

    name: VariableName
    same_as: VariableName | None = None


class NotebookReference(_Model):
    """Where in the executed notebook the checkpoint cell stands."""

    path: RelativePath
    checkpoint_cell_id: str


class PythonEnv(_Model):
    """What the kernel was when the values were saved."""

    python_path: str
    version: str
    packages: dict[str, str]
    platform: str
    kernel_name: str
    random_state: StoredValue | None = None
    process_state: StoredValue | None = None
    definition_state: StoredValue | None = None

    def states(self) -> tuple[StoredValue, ...]:
        """What was captured of the kernel beside its variables."""
        found = (self.random_state, self.process_state, self.definition_state)
        return tuple(state for state in found if state is not None)


class Git(_Model):
    """The state of the working copy around the notebook."""

    branch: str | None
    commit: str
    dirty: bool


class Fingerprint(_Model):
    """What decided the values: by component, so that a difference can be named."""

    setup: str
    params: str
    stages: dict[StageId, str]  # every finished stage, this one included


class Rehydration(_Model):
    """``artifacts_only``: every value restored is a declared artifact; ``with_vars``: some are not."""

    mode: Literal["artifacts_only", "with_vars"]


class Integrity(_Model):
    """The document's own hash. Signatures are reserved for a later release."""

    manifest_sha256: Sha256
    signature: str | None = None
    key_id: str | None = None


class ManifestDraft(_Model):
    """All of a manifest but its own hash."""

    schema_version: Literal[1] = 1
    checkpoint_id: CheckpointId
    research_session_id: Annotated[str, Field(alias="researchSessionID", min_length=1, max_length=64)]
    report_title: Title
    run_id: RunId
    stage_id: StageId | None  # None: an incident outside any stage, in a setup cell
    attempt: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=1)]
    parent: CheckpointId | None
    created_at: str
    execution_count: Count
    status: Status
    reason: Reason | None = None
    notebook: NotebookReference
    python_env: PythonEnv | None
    git: Git | None = None
    fingerprint: Fingerprint
    artifacts: tuple[Artifact, ...] = ()
    variables: tuple[Variable, ...] = ()
    rehydration: Rehydration

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> ManifestDraft:
        if ids.number_of(self.checkpoint_id) != self.sequence:
            raise ValueError(f"{self.checkpoint_id} does not carry sequence number {self.sequence}")
        if self.status is Status.SAVED and (self.stage_id is None or self.python_env is None):
            raise ValueError("a saved checkpoint names its stage and its environment")
        if (self.status is Status.SAVED) != (self.reason is None):
            raise ValueError("a reason belongs to an interrupted or emergency checkpoint, and only there")
        names = [variable.name for variable in self.variables]
        if len(names) != len(set(names)):
            raise ValueError("a variable is named twice")
        for place, variable in enumerate(self.variables):
            if variable.same_as is not None and variable.same_as not in names[:place]:
                raise ValueError(
                    f"{variable.name} is said to be {variable.same_as}, which is not listed before it"
                )
        return self


class Manifest(ManifestDraft):
    """A whole manifest, as it is on disk."""

    integrity: Integrity

    def stored_values(self) -> tuple[StoredValue, ...]:
        """Everything in the object store that this checkpoint needs, each object once."""
        states = self.python_env.states() if self.python_env is not None else ()
        values: list[StoredValue] = [*self.artifacts, *self.variables, *states]
        return tuple({value.sha256: value for value in values}.values())


def seal(draft: ManifestDraft) -> tuple[Manifest, bytes]:
    """Add the hash to ``draft``; return the manifest and the bytes to write."""
    document = draft.model_dump(mode="json", by_alias=True)
    document["integrity"] = {"signature": None, "keyId": None}
    document["integrity"]["manifestSha256"] = _hash_of(document)
    data = rfc8785.dumps(document)
    return read_manifest(data), data


def read_manifest(data: bytes) -> Manifest:
    """Parse and verify the bytes of a manifest; :class:`ManifestDamaged` says what is wrong with them."""
    document = _parse(data)
    version = document.get("schemaVersion")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerFormat(
            f"it was written by a newer gyoshu (schema {version}; this one reads up to {SCHEMA_VERSION})",
            next_step="pip install --upgrade gyoshu-ckpt",
        )
    try:
        # JSON mode: strings may become enums, and lists tuples, but never a string a number.
        manifest = Manifest.model_validate_json(data)
    except ValidationError as refusal:
        first = refusal.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise ManifestDamaged(f"{where}: {first['msg']}") from None
    expected = document["integrity"].pop("manifestSha256")
    try:
        actual = _hash_of(document)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as problem:
        raise ManifestDamaged(f"it has no canonical form: {problem}") from None
    if actual != expected:
        raise ManifestDamaged(f"its hash is {actual[:12]}…, but it says {expected[:12]}…")
    return manifest


def manifest_json_schema() -> dict[str, Any]:
    """The JSON Schema of a manifest, as ``gyoshu schema manifest`` prints it."""
    schema = Manifest.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "gyoshu manifest"}


def _hash_of(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()


def _parse(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_no_key_twice)
    except (UnicodeDecodeError, ValueError, RecursionError) as problem:
        raise ManifestDamaged(f"it is not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise ManifestDamaged("it is not a JSON object")
    return document


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result
