"""Plans for tests that need one and do not care about notebooks."""

from __future__ import annotations

from gyoshu_ckpt.core.plan import Output, OutputKind, Plan, PlanCell, Stage


def plan_of(*stages: Stage, setup: tuple[PlanCell, ...] = ()) -> Plan:
    return Plan(
        title="study",
        source_path="study.ipynb",
        language="python",
        kernel_name="python3",
        setup=setup,
        stages=stages,
        setup_sha256="0" * 64,
    )


def stage(
    stage_id: str, *codes: str, limit: float | None = None, outputs: tuple[str, ...] = (), tags: str = ""
) -> Stage:
    return Stage(
        stage_id=stage_id,
        goal="",
        cells=tuple(
            PlanCell(place, f"{stage_id}-{place}".lower(), code, frozenset(tags.split()))
            for place, code in enumerate(codes or ("pass",))
        ),
        outputs=tuple(Output(name, OutputKind.VARIABLE) for name in outputs),
        max_duration_s=limit,
        source_sha256=(stage_id.encode().hex() + "0" * 64)[:64],
    )
