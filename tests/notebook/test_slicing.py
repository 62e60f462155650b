import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gyoshu_ckpt.core.plan import Carried, OutputKind, Plan
from gyoshu_ckpt.errors import BadName, BadPlan, GyoshuError, UserMistake
from gyoshu_ckpt.notebook.slicing import make_plan

Write = Callable[..., Path]
CodeCell = Callable[..., dict[str, Any]]


def shape(plan: Plan) -> list[tuple[str, list[str]]]:
    return [("setup", [cell.code for cell in plan.setup])] + [
        (stage.stage_id, [cell.code for cell in stage.cells]) for stage in plan.stages
    ]


def test_a_notebook_becomes_a_plan(write_notebook: Write, code_cell: CodeCell) -> None:
    path = write_notebook(
        "md:# Report",
        "import pandas as pd",
        code_cell("alpha = 1", tags=["parameters"]),
        "md:## Load",
        "%%stage S01_load_data --out df --in raw.csv --max 2m\ndf = pd.read_csv('raw.csv')",
        "   \n",
        "df.head()",
        code_cell("# fit it\nmodel = fit(df)", gyoshu={"stage": "S02_fit", "out": {"model": "model.joblib"}}),
        name="my report.ipynb",
        kernelspec={"name": "conda-env", "display_name": "x", "language": "python"},
    )
    before = path.read_bytes()
    sliced = make_plan(path)
    plan = sliced.plan
    assert shape(plan) == [
        ("setup", ["import pandas as pd", "alpha = 1"]),
        ("S01_load_data", ["df = pd.read_csv('raw.csv')", "df.head()"]),
        ("S02_fit", ["# fit it\nmodel = fit(df)"]),
    ]
    assert (plan.title, plan.language, plan.kernel_name) == ("my report", "python", "conda-env")
    assert plan.source_path == str(path)
    assert [stage.goal for stage in plan.stages] == ["Load", "fit it"]
    load = plan.stages[0]
    assert (load.inputs, load.max_duration_s) == (("raw.csv",), 120.0)
    assert [cell.index for cell in plan.cells()] == [1, 2, 4, 6, 7]
    assert [cell.cell_id for cell in plan.cells()] == ["c2", "c3", "c5", "c7", "c8"]
    assert plan.setup[1].tags == {"parameters"}
    assert plan.carried == {"S01_load_data": (), "S02_fit": ()}
    assert plan.notices == ()
    assert len(sliced.notebook["cells"]) == 8
    nbformat.validate(sliced.notebook)
    assert path.read_bytes() == before
    assert make_plan(path) == sliced


def test_the_title_and_kernel_that_are_asked_for(write_notebook: Write) -> None:
    path = write_notebook("%%stage S01_a\nx = 1")
    plan = make_plan(path, title="other", kernel_name="mine").plan
    assert (plan.title, plan.kernel_name) == ("other", "mine")
    assert make_plan(path).plan.kernel_name == "python3"
    with pytest.raises(BadName):
        make_plan(path, title="../up")


def test_a_stage_may_begin_with_a_line_alone(write_notebook: Write) -> None:
    plan = make_plan(write_notebook("%%stage S01_a --out x", "x = 1")).plan
    assert shape(plan)[1] == ("S01_a", ["x = 1"])
    assert plan.stages[0].cells[0].index == 1


@pytest.mark.parametrize(
    ("cells", "goal"),
    [
        (["%%stage S01_a --goal 'said'\n'''doc'''"], "said"),
        (["md:# Head", "%%stage S01_a\n'''doc'''"], "doc"),
        (["md:# Head", "%%stage S01_a\n# note\nx"], "note"),
        (["md:# Head", "x = 1", "md:no heading", "%%stage S01_a\nx"], "Head"),
        (["%%stage S01_a\nx = 1", "md:# After"], ""),
    ],
)
def test_the_goal(write_notebook: Write, cells: list[str], goal: str) -> None:
    assert make_plan(write_notebook(*cells)).plan.stages[0].goal == goal


def test_a_percent_script_makes_the_same_plan_as_its_notebook(tmp_path: Path, write_notebook: Write) -> None:
    script = tmp_path / "analysis.py"
    script.write_text("# %%\nimport a\n\n# %%\n# %%stage S01_a --out x\n# goal\nx = 1\n\n# %%\ny = x\n")
    from_script = make_plan(script).plan
    from_notebook = make_plan(
        write_notebook("import a", "%%stage S01_a --out x\n# goal\nx = 1", "y = x")
    ).plan
    assert shape(from_script) == shape(from_notebook)
    assert from_script.stages[0].source_sha256 == from_notebook.stages[0].source_sha256
    assert from_script.stages[0].goal == "goal"
    script.write_text("x = 1\n")
    with pytest.raises(BadPlan, match=r"^analysis\.py: no cell begins a stage"):
        make_plan(script)


# Parameters


def test_parameters_are_put_after_their_defaults(write_notebook: Write, code_cell: CodeCell) -> None:
    path = write_notebook("import a", code_cell("x = 1", tags=["parameters"]), "%%stage S01_a\ny = x")
    sliced = make_plan(path, parameters={"x": "two"})
    assert shape(sliced.plan)[0] == ("setup", ["import a", "x = 1", "# Parameters\nx = 'two'"])
    injected = sliced.plan.setup[2]
    assert (injected.index, injected.tags) == (-1, {"injected-parameters"})
    assert sliced.notebook["cells"][2]["id"] == injected.cell_id
    assert sliced.plan.stages[0].cells[0].index == 2
    assert sliced.plan.setup_sha256 == make_plan(path).plan.setup_sha256
    nbformat.validate(sliced.notebook)


def test_parameters_of_a_stage_stay_in_it(write_notebook: Write, code_cell: CodeCell) -> None:
    path = write_notebook(code_cell("%%stage S01_a\nx = 1", tags=["parameters"]), "%%stage S02_b\nx")
    plan = make_plan(path, parameters={"x": 2}).plan
    assert shape(plan)[1] == ("S01_a", ["x = 1", "# Parameters\nx = 2"])


def test_parameters_without_defaults_go_to_the_top(write_notebook: Write) -> None:
    plan = make_plan(write_notebook("%%stage S01_a\nprint(x)"), parameters={"x": 2}).plan
    assert shape(plan)[0] == ("setup", ["# Parameters\nx = 2"])
    assert "no cell is tagged parameters" in plan.notices[0]


def test_a_misspelled_parameter_is_refused(write_notebook: Write, code_cell: CodeCell) -> None:
    path = write_notebook(
        code_cell("alpha: float = 1\nbeta = 2", tags=["parameters"]), "%%stage S01_a\nx = 1"
    )
    with pytest.raises(UserMistake, match="has no alpah, did you mean alpha") as refusal:
        make_plan(path, parameters={"alpah": 2})
    assert refusal.value.next_step == "it assigns alpha, beta"


# What is refused


def bad(*cells: str | dict[str, Any], told: str, fix: str = "", cell: int | None = None) -> Any:
    return pytest.param(cells, told, fix, cell, id=told)


META = {
    "cell_type": "code",
    "metadata": {"gyoshu": {"stage": "S01_a"}},
    "source": "%%stage S01_a\nx",
    "outputs": [],
    "execution_count": None,
}


@pytest.mark.parametrize(
    ("cells", "told", "fix", "cell"),
    [
        bad("x = 1", told="no cell begins a stage", fix="put %%stage S01_load_data as the first line"),
        bad(
            "%%stage S01_a\nx",
            "md:text",
            "%%stage S01_a\ny",
            told="S01_a is the id of cell 1 already",
            fix="another id",
            cell=3,
        ),
        bad("%%stage s1\nx", told="'s1' is not a stage id", fix="S01_load_data", cell=1),
        bad(
            "md:x",
            "%%stage S01_a --outt x\nx = 1",
            told="no option --outt, did you mean --out?",
            fix="--out df",
            cell=2,
        ),
        bad("%%stage S01_a", told="the stage has no code", fix="below", cell=1),
        bad(
            "%%stage S01_a\nx",
            "%%stage S02_b",
            "%%stage S03_c\ny",
            told="(S02_b): the stage has no code",
            cell=2,
        ),
        bad(
            "%%stage S01_a --out d\ndf = 1",
            told="no cell up to S01_a makes d, did you mean df?",
            fix="assign d",
            cell=1,
        ),
        bad(
            "%%stage S01_a --out x\nx = 1\ndel x", told="no cell up to S01_a makes x", fix="assign x", cell=1
        ),
        bad(
            "%%stage S01_a --out x\ny = 1", "%%stage S02_b\nx = 1", told="no cell up to S01_a makes x", cell=1
        ),
        bad("%%stage S01_a --in dg\nx = 1", told="no cell before S01_a makes dg", fix="--in ./dg", cell=1),
        bad("df = 1", "%%stage S01_a --in dff\nx = 1", told="makes dff, did you mean df?", cell=2),
        bad("%%stage S01_a --in x\nx = 1", told="no cell before S01_a makes x", cell=1),
        bad(
            "%%stage S01_a\nx = 1",
            "y = 1\nz = = 2",
            told="(S01_a): line 2 is not valid Python",
            fix="correct the line",
            cell=2,
        ),
        bad(
            "%%stage S01_a\n\nz = = 2",
            told="(S01_a): line 3 is not valid Python (invalid syntax): z = = 2",
            cell=1,
        ),
        bad("import os\nz = = 2", "%%stage S01_a\nx", told="line 2 is not valid Python", cell=1),
        bad("# first\n%%stage S01_a\nx", told="%%stage stands on line 2", fix="begins a new one", cell=1),
        bad(
            "%%stage S01_a\nx\n%%stage S02_b\ny",
            told="%%stage stands on line 3",
            fix="begins a new one",
            cell=1,
        ),
        bad(META, told="both a %%stage line and the metadata key gyoshu", fix="keep one", cell=1),
        bad("%%stage S01_a --max never\nx", told="'never' is not a duration", fix="1h30m", cell=1),
        bad("%%stage S01_a --out x=x.weird\nx = 1", told="x.weird", cell=1),
    ],
)
def test_a_bad_plan_names_file_cell_and_fix(
    write_notebook: Write, cells: tuple[Any, ...], told: str, fix: str, cell: int | None
) -> None:
    with pytest.raises(BadPlan) as refusal:
        make_plan(write_notebook(*cells))
    assert refusal.value.message.startswith("analysis.ipynb" + (f", cell {cell}" if cell else ""))
    assert told in refusal.value.message
    assert fix in (refusal.value.next_step or "")
    assert refusal.value.next_step
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize(
    "cells",
    [
        ["x = 1", "%%stage S01_a --out x\ny = 1"],
        ["%%stage S01_a\nx = 1", "%%stage S02_b --out x --in x\npass"],
        ["%%stage S01_a --out x\nexec(s)"],
        ["from m import *", "%%stage S01_a --out x --in y\npass"],
        ["%%stage S01_a --out x\nif c:\n    x = 1"],
        ["%%stage S01_a --out cap\n%%capture cap\nprint(1)"],
        ["%%stage S01_a --out f\ndef f(): pass"],
        ["%%stage S01_a --out x.csv --out plots/\npass"],
        ["%%stage S01_a --out x\n%time x = 1"],
        ["%%stage S01_a --out größe\ngröße = 1"],
    ],
)
def test_outputs_and_inputs_that_some_cell_makes(write_notebook: Write, cells: list[str]) -> None:
    make_plan(write_notebook(*cells))


def test_numbers_out_of_order_are_only_a_notice(write_notebook: Write) -> None:
    plan = make_plan(write_notebook("%%stage S02_b\nx = 1", "%%stage S01_a\ny = 1")).plan
    assert [stage.stage_id for stage in plan.stages] == ["S02_b", "S01_a"]
    assert plan.notices == ("stages run in the order of the notebook, not of their numbers: S02_b, S01_a",)


# Names that nobody declares

FORGOTTEN = (
    "%%stage S01_load --out df\ndf, cfg, other = 1, 2, 3",
    "%%stage S02_eda\nprint(df)",
    "%%stage S03_fit\nprint(cfg, other)",
)


def test_a_forgotten_output_is_carried_with_a_notice(write_notebook: Write) -> None:
    plan = make_plan(write_notebook(*FORGOTTEN)).plan
    assert plan.carried["S01_load"] == (
        Carried("cfg", "S01_load", "S03_fit"),
        Carried("other", "S01_load", "S03_fit"),
    )
    assert plan.notices[0] == (
        "S03_fit reads cfg, which S01_load makes but does not declare: saved with the checkpoints; "
        "add --out cfg to S01_load to make it an artifact"
    )
    assert len(plan.notices) == 2


def test_a_forgotten_output_is_an_error_under_strict(write_notebook: Write) -> None:
    with pytest.raises(BadPlan) as refusal:
        make_plan(write_notebook(*FORGOTTEN), strict=True)
    assert refusal.value.message == (
        "analysis.ipynb: S03_fit reads cfg, which S01_load makes but does not declare; "
        "S03_fit reads other, which S01_load makes but does not declare"
    )
    assert "add --out cfg to S01_load, --out other to S01_load" in (refusal.value.next_step or "")
    declared = FORGOTTEN[0].replace("--out df", "--out df --out cfg --out other")
    make_plan(write_notebook(declared, *FORGOTTEN[1:]), strict=True)


def test_builtins_are_carried_once_the_notebook_binds_them(write_notebook: Write) -> None:
    plan = make_plan(write_notebook("%%stage S01_a\nlist = [1]", "%%stage S02_b\nprint(list, dict)")).plan
    assert [each.name for each in plan.carried["S01_a"]] == ["list"]


def test_the_future_import_holds_for_later_cells(write_notebook: Write) -> None:
    plan = make_plan(
        write_notebook(
            "from __future__ import annotations",
            "%%stage S01_a\nT = 1\ndef f(x: T): pass",
            "%%stage S02_b\nf",
        )
    ).plan
    assert plan.stages[0].names.definitions[0].reads == set()


# Fingerprints


def test_the_fingerprint_is_of_the_code_only(write_notebook: Write) -> None:
    one = make_plan(write_notebook("a = 1", "%%stage S01_a\nx = 1", "y = 2")).plan
    other = make_plan(
        write_notebook(
            "a  =  1  # note", "md:new", "%%stage S07_z --out x --max 3m --in raw.csv\n\nx = 1 # c\ny = 2"
        )
    ).plan
    changed = make_plan(write_notebook("a = 2", "%%stage S01_a\nx = 1", "y = 3")).plan
    assert (one.setup_sha256, one.stages[0].source_sha256) == (
        other.setup_sha256,
        other.stages[0].source_sha256,
    )
    assert one.setup_sha256 != changed.setup_sha256
    assert one.stages[0].source_sha256 != changed.stages[0].source_sha256
    assert len(one.setup_sha256) == 64


# Other languages

BASH = {"kernelspec": {"name": "bash", "display_name": "Bash", "language": "bash"}}


def test_another_language_has_files_only(write_notebook: Write) -> None:
    plan = make_plan(write_notebook("%%stage S01_a --out x.csv --out d/ --in raw\nx = = 1", **BASH)).plan
    assert (plan.language, plan.kernel_name) == ("bash", "bash")
    assert [output.kind for output in plan.stages[0].outputs] == [OutputKind.FILE, OutputKind.FOLDER]
    assert plan.stages[0].names.opaque
    assert plan.carried == {"S01_a": ()}
    again = make_plan(write_notebook("%%stage S01_a\nx = = 2", **BASH)).plan
    assert again.stages[0].source_sha256 != plan.stages[0].source_sha256


def test_the_language_may_stand_in_language_info(write_notebook: Write) -> None:
    assert make_plan(write_notebook("%%stage S01_a\n<-", language_info={"name": "R"})).plan.language == "r"


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["%%stage S01_a --out x\nx=1"], r"cell 1 \(S01_a\): only files can be declared in a bash kernel"),
        (["%%stage S01_a\nls\n%%stage S02_b\nls"], r"cell 1 \(S01_a\): %%stage stands on line 3"),
    ],
)
def test_what_is_refused_in_another_language(write_notebook: Write, cells: list[str], told: str) -> None:
    with pytest.raises(BadPlan, match=told):
        make_plan(write_notebook(*cells, **BASH))


# Whatever comes

_SOURCES = st.sampled_from(
    [
        "x = 1",
        "print(x)",
        "%%stage S01_a\nx = 1",
        "%%stage S02_b --out x\nx = x",
        "%%stage",
        "def f(:",
        "!ls",
        "%%time",
        "",
        "%%bash\nls",
        "from m import *",
        "del x",
        "%%stage S03_c --in x\nf(x)",
        "def f(): return x",
    ]
) | st.text(max_size=30)
_CELLS = st.fixed_dictionaries(
    {
        "cell_type": st.sampled_from(["code", "markdown", "raw"]),
        "source": _SOURCES,
        "metadata": st.sampled_from(
            [
                {},
                {"tags": ["parameters"]},
                {"gyoshu": {"stage": "S09_x"}},
                {"gyoshu": 5},
                {"gyoshu": {"out": {}}},
            ]
        ),
    }
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(_CELLS, max_size=6), parameters=st.sampled_from([{}, {"x": 1}]))
def test_any_notebook_is_a_plan_or_a_sentence(
    tmp_path: Path, cells: list[Any], parameters: dict[str, object]
) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with contextlib.suppress(GyoshuError):  # and nothing else
        sliced = make_plan(path, parameters=parameters)
        nbformat.validate(sliced.notebook)
        ids = [cell["id"] for cell in sliced.notebook["cells"]]
        assert {cell.cell_id for cell in sliced.plan.cells()} <= set(ids)
        assert all(cell.code.strip() for cell in sliced.plan.cells())
