"""Where a run goes on. Pure: what is on disk was read and verified before it comes here.

Rules
1. Only a ``saved`` checkpoint is a place to resume from; an incident never is.
2. A checkpoint stands if every stage that it covers is still in the plan, in the same order, with the same
   source. If one changed, the run goes back to the checkpoint before it, so that the change takes effect.
3. A stage that has no standing checkpoint is run again, whatever the journal says of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gyoshu_ckpt.core.manifest import Manifest
from gyoshu_ckpt.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that is passed over, and why."""

    checkpoint_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """The answer: from which checkpoint, and what runs next."""

    plan: Plan
    checkpoint: Manifest | None
    skipped: tuple[Skipped, ...]

    @property
    def first_stage(self) -> int:
        """The position in the plan of the first stage to run."""
        if self.checkpoint is None or self.checkpoint.stage_id is None:
            return 0
        return self.plan.position(self.checkpoint.stage_id) + 1

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to run."""
        return self.first_stage == len(self.plan.stages)

    @property
    def next_stage_id(self) -> str | None:
        """The stage that runs next; None when all are complete."""
        return None if self.is_complete else self.plan.stages[self.first_stage].stage_id


def why_it_does_not_stand(plan: Plan, manifest: Manifest) -> str | None:
    """The reason why ``manifest`` is no place to resume ``plan`` from; None if it is one."""
    planned = [stage.stage_id for stage in plan.stages]
    recorded = manifest.fingerprint.stages
    if manifest.stage_id not in planned:
        return f"the notebook has no stage {manifest.stage_id} any more"
    covered = plan.stages_up_to(manifest.stage_id)
    for stage in covered:
        if stage.stage_id not in recorded:
            return f"stage {stage.stage_id} was added before {manifest.stage_id} since"
        if recorded[stage.stage_id] != stage.source_sha256:
            return f"the source of {stage.stage_id} has changed since"
    gone = sorted(set(recorded) - {stage.stage_id for stage in covered})
    if gone:
        return f"stage {gone[0]} was removed or moved since"
    return None
