"""Which checkpoints a changed plan still stands on, and what runs next."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import plan_of, stage
from test_manifest import draft

from gyoshu_ckpt.core.manifest import Manifest, seal
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.resume import ResumePlan, why_it_does_not_stand

PLAN = plan_of(stage("S01_a"), stage("S02_b"), stage("S03_c"))


def checkpoint_of(plan: Plan, stage_id: str) -> Manifest:
    stages = {one.stage_id: one.source_sha256 for one in plan.stages_up_to(stage_id)}
    return seal(
        draft(stage_id=stage_id, artifacts=[], fingerprint={"setup": "s", "params": "p", "stages": stages})
    )[0]


def test_goes_on_after_the_checkpoint() -> None:
    resume = ResumePlan(PLAN, checkpoint_of(PLAN, "S02_b"), ())
    assert (resume.first_stage, resume.next_stage_id, resume.is_complete) == (2, "S03_c", False)
    assert ResumePlan(PLAN, checkpoint_of(PLAN, "S03_c"), ()).is_complete
    assert ResumePlan(PLAN, None, ()).next_stage_id == "S01_a"


def test_an_unchanged_plan_stands() -> None:
    assert why_it_does_not_stand(PLAN, checkpoint_of(PLAN, "S02_b")) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            plan_of(replace(PLAN.stages[0], source_sha256="f" * 64), *PLAN.stages[1:]),
            "source of S01_a has changed",
        ),
        (plan_of(PLAN.stages[0], PLAN.stages[2]), "no stage S02_b any more"),
        (plan_of(PLAN.stages[1], PLAN.stages[2]), "S01_a was removed"),
        (plan_of(PLAN.stages[0], stage("S05_x"), *PLAN.stages[1:]), "S05_x was added before S02_b"),
        (plan_of(PLAN.stages[1], PLAN.stages[0], PLAN.stages[2]), "S01_a was removed or moved"),
    ],
)
def test_a_changed_plan_says_what_changed(changed: Plan, reason: str) -> None:
    assert reason in (why_it_does_not_stand(changed, checkpoint_of(PLAN, "S02_b")) or "")


def test_what_comes_after_the_checkpoint_may_change() -> None:
    changed = plan_of(*PLAN.stages[:2], replace(PLAN.stages[2], source_sha256="f" * 64), stage("S04_d"))
    assert why_it_does_not_stand(changed, checkpoint_of(PLAN, "S02_b")) is None
