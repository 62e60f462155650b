"""From a kernel's receipt to a committed checkpoint, and the emergency checkpoint that needs no kernel.

What the receipt claims is checked here: names against the plan, and bytes on disk by the checkpoint store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gyoshu_ckpt.core import fingerprint, ids, rehydration
from gyoshu_ckpt.core.manifest import (
    Artifact,
    Git,
    Manifest,
    ManifestDraft,
    NotebookReference,
    PythonEnv,
    Reason,
    Rehydration,
    Status,
    StoredValue,
    Variable,
)
from gyoshu_ckpt.core.plan import OutputKind, Plan
from gyoshu_ckpt.core.save_protocol import Receipt, SavedObject, SaveRequest, WantedOutput
from gyoshu_ckpt.errors import Damaged, StoreUnavailable, ValueNotSavable
from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.layout import StoreLayout


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What stays the same through a run."""

    title: str
    run_id: str
    session_id: str
    kernel_name: str
    parameters: Mapping[str, Any]
    git: Git | None


class Committer:
    """Writes the checkpoints of one run."""

    def __init__(
        self,
        layout: StoreLayout,
        identity: RunIdentity,
        plan: Plan,
        *,
        last: Manifest | None,
        highest_number: int,
        clock: Callable[[], str],
    ) -> None:
        self._layout = layout
        self._identity = identity
        self._plan = plan
        self._last = last
        self._highest_number = highest_number  # that the journal knows: a pruned id is never given again
        self._clock = clock
        self._checkpoints = CheckpointStore(layout, identity.title, identity.run_id)

    def save_request(self, stage_id: str, attempt: int) -> SaveRequest:
        """What the kernel has to save so that the run can go on after ``stage_id``."""
        required, optional = rehydration.names_to_save(self._plan, stage_id)
        return SaveRequest(
            stage_id=stage_id,
            attempt=attempt,
            outputs=tuple(
                WantedOutput(output.name, output.kind.value, output.file_name)
                for output in self._plan.stage(stage_id).outputs
            ),
            variables=tuple(required),
            optional_variables=tuple(optional),
            restorable_globals=rehydration.definitions_restored(self._plan, stage_id),
            file_names={
                output.name: output.file_name
                for stage in self._plan.stages_up_to(stage_id)
                for output in stage.outputs
                if output.kind is OutputKind.VARIABLE and output.file_name is not None
            },
        )

    def next_checkpoint_id(self) -> str:
        """The id that the next commit will have."""
        return ids.checkpoint_id(self._checkpoints.next_sequence(self._highest_number))

    def commit(
        self, stage_id: str, attempt: int, receipt: Receipt, *, cell_id: str, execution_count: int
    ) -> Manifest:
        """Commit the checkpoint of a finished stage and make its artifacts visible."""
        _refuse_what_was_not_saved(stage_id, receipt)
        try:
            draft = self._draft(stage_id, attempt, receipt, cell_id, execution_count)
        except (ValidationError, TypeError) as claim:
            raise Damaged(f"the kernel's receipt for {stage_id} cannot be used: {claim}") from None
        manifest = self._checkpoints.commit(draft)
        self._last = manifest
        publish_artifacts(self._layout, manifest, stage_id=stage_id, overwrite=True)
        return manifest

    def write_emergency(
        self, stage_id: str | None, attempt: int, status: Status, reason: Reason, *, execution_count: int
    ) -> Manifest:
        """Write metadata only: what stood, where it stopped and why. Never a place to resume from."""
        finished = self._last.fingerprint.stages if self._last is not None else {}
        draft = self._common(
            stage_id=stage_id,
            attempt=attempt,
            status=status,
            reason=reason,
            execution_count=execution_count,
            cell_id="",
            python_env=None,
            finished=dict(finished),
        )
        return self._checkpoints.write_emergency(draft)

    def _draft(
        self, stage_id: str, attempt: int, receipt: Receipt, cell_id: str, execution_count: int
    ) -> ManifestDraft:
        earlier = self._last.artifacts if self._last is not None else ()
        artifacts = [artifact for artifact in earlier if artifact.stage_id != stage_id]
        artifacts += [_artifact(saved, stage_id) for saved in receipt.artifacts]
        variables = [_variable(saved) for saved in receipt.variables]
        declared = {artifact.sha256 for artifact in artifacts}
        only_artifacts = all(variable.sha256 in declared for variable in variables)
        return self._common(
            stage_id=stage_id,
            attempt=attempt,
            status=Status.SAVED,
            reason=None,
            execution_count=execution_count,
            cell_id=cell_id,
            python_env=PythonEnv(
                python_path=receipt.python_path,
                version=receipt.python_version,
                packages=receipt.packages,
                platform=receipt.platform,
                kernel_name=self._identity.kernel_name,
                random_state=_state(receipt.random_state),
                process_state=_state(receipt.process_state),
                definition_state=_state(receipt.definition_state),
            ),
            finished={stage.stage_id: stage.source_sha256 for stage in self._plan.stages_up_to(stage_id)},
            artifacts=tuple(artifacts),
            variables=tuple(variables),
            rehydration=Rehydration(mode="artifacts_only" if only_artifacts else "with_vars"),
        )

    def _common(
        self, *, finished: dict[str, str], cell_id: str, rehydration: Rehydration | None = None, **fields: Any
    ) -> ManifestDraft:
        sequence = self._checkpoints.next_sequence(self._highest_number)
        notebook = self._layout.notebook(self._identity.title, self._identity.run_id)
        return ManifestDraft(
            checkpoint_id=ids.checkpoint_id(sequence),
            research_session_id=self._identity.session_id,
            report_title=self._identity.title,
            run_id=self._identity.run_id,
            sequence=sequence,
            parent=self._last.checkpoint_id if self._last is not None else None,
            created_at=self._clock(),
            notebook=NotebookReference(
                path=self._layout.relative_to_root(notebook), checkpoint_cell_id=cell_id
            ),
            git=self._identity.git,
            fingerprint=fingerprint.of(self._plan, self._identity.parameters, finished),
            rehydration=rehydration or Rehydration(mode="artifacts_only"),
            **fields,
        )


def _refuse_what_was_not_saved(stage_id: str, receipt: Receipt) -> None:
    if receipt.fault is not None:
        raise StoreUnavailable(receipt.fault, next_step="make room, then gyoshu continue")
    if receipt.not_saved:
        first, *others = {missed.name: missed for missed in receipt.not_saved}.values()
        tail = f" (nor {', '.join(missed.name for missed in others)})" if others else ""
        reason = first.reason if first.name in first.reason else f"{first.name}: {first.reason}"
        raise ValueNotSavable(f"{stage_id} ran, but {reason}{tail}", next_step=first.way_out)


def _stored(saved: SavedObject) -> dict[str, Any]:
    return {
        "codec": saved.codec,
        "codec_version": saved.codec_version,
        "trust": saved.trust,
        "sha256": saved.sha256,
        "size_bytes": saved.size_bytes,
    }


def _state(saved: SavedObject | None) -> StoredValue | None:
    return StoredValue(**_stored(saved)) if saved is not None else None


def _artifact(saved: SavedObject, stage_id: str) -> Artifact:
    path = f"{stage_id}/{saved.file_name}"
    return Artifact(
        name=saved.name, stage_id=stage_id, relative_path=path, media_type=saved.media_type, **_stored(saved)
    )


def _variable(saved: SavedObject) -> Variable:
    return Variable(name=saved.name, same_as=saved.same_as, **_stored(saved))
