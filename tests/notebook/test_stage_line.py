import contextlib
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.core.plan import Output, OutputKind
from gyoshu_ckpt.errors import BadPlan
from gyoshu_ckpt.notebook.place import Place
from gyoshu_ckpt.notebook.stage_line import Annotation, is_stage_line, read_annotation, split_stage_line

PLACE = Place("nb.ipynb", 4)


def of_line(line: str) -> Annotation:
    annotation = read_annotation(line, {}, PLACE)
    assert annotation is not None
    return annotation


def of_metadata(**gyoshu: Any) -> Annotation:
    annotation = read_annotation(None, {"gyoshu": gyoshu}, PLACE)
    assert annotation is not None
    return annotation


def variable(name: str, file_name: str | None = None) -> Output:
    return Output(name, OutputKind.VARIABLE, file_name)


@pytest.mark.parametrize(
    ("source", "line", "rest"),
    [
        ("%%stage S01_a\nx = 1", "S01_a", "x = 1"),
        ("%%stage S01_a", "S01_a", ""),
        ("\n  \n%%stage S01_a  \nx", "S01_a", "x"),
        ("  %%stage S01_a\n  x", "S01_a", "  x"),
        ("%%stage", "", ""),
        ("%%stage\tS01_a\n\n%%time\nx", "S01_a", "\n%%time\nx"),
        ("%%stages S01_a\nx", None, "%%stages S01_a\nx"),
        ("# note\n%%stage S01_a", None, "# note\n%%stage S01_a"),
        ("%stage S01_a", None, "%stage S01_a"),
        ("", None, ""),
        ("\n\n", None, "\n\n"),
    ],
)
def test_the_line_is_the_first_that_is_not_blank(source: str, line: str | None, rest: str) -> None:
    assert split_stage_line(source) == (line, rest)


def test_a_line_that_would_begin_a_stage() -> None:
    assert is_stage_line("  %%stage S01_a")
    assert not is_stage_line("x %%stage S01_a")


def test_the_whole_line() -> None:
    assert of_line(
        'S01_load_data --out df --out model=model.joblib --in raw.csv --max 2m --goal "get  it"'
    ) == Annotation(
        stage_id="S01_load_data",
        outputs=(variable("df"), variable("model", "model.joblib")),
        inputs=("raw.csv",),
        max_duration_s=120.0,
        goal="get it",
    )


def test_the_same_in_metadata() -> None:
    said = of_metadata(
        stage="S01_load_data", out=["df", "model=model.joblib"], max="2m", goal="get it", **{"in": ["a.csv"]}
    )
    assert said == of_line(
        "S01_load_data --out=df --out=model=model.joblib --in=a.csv --max=2m '--goal=get it'"
    )


def test_outputs_as_an_object_and_a_limit_as_a_number() -> None:
    said = of_metadata(stage="S01_a", out={"model": "model.joblib", "df": None, "plots/": None}, max=90)
    assert said.outputs == (
        variable("model", "model.joblib"),
        variable("df"),
        Output("plots", OutputKind.FOLDER, "plots"),
    )
    assert said.max_duration_s == 90


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("df", variable("df")),
        ("größe", variable("größe")),
        ("ﬁt", variable("fit")),  # as Python reads it
        ("model=best.joblib", variable("model", "best.joblib")),
        ("scores.csv", Output("scores.csv", OutputKind.FILE, "scores.csv")),
        ("my-notes.txt", Output("my-notes.txt", OutputKind.FILE, "my-notes.txt")),
        ("plots/", Output("plots", OutputKind.FOLDER, "plots")),
    ],
)
def test_what_an_output_can_be(text: str, output: Output) -> None:
    assert of_line(f"S01_a --out {text}").outputs == (output,)


def test_an_input_is_told_once() -> None:
    assert of_line("S01_a --in raw.csv --in df --in raw.csv").inputs == ("raw.csv", "df")


def test_a_cell_with_neither_form_begins_no_stage() -> None:
    assert read_annotation(None, {"tags": ["x"]}, PLACE) is None


@pytest.mark.parametrize(
    ("line", "problem", "fix"),
    [
        ("", "no stage id", "%%stage S01_load_data"),
        ("--out df", "no stage id", "%%stage S01_load_data"),
        ("S01_a df", "more than one stage id (S01_a, df)", "quotes"),
        ("S01_a # comment", "more than one stage id", "quotes"),
        ("load", "'load' is not a stage id", "S01_load_data"),
        ("S1_load", "is not a stage id", "S01_load_data"),
        ("S01_Load", "is not a stage id", "S01_load_data"),
        ("S01", "is not a stage id", "S01_load_data"),
        ("../S01_a", "is not a stage id", "S01_load_data"),
        ("S01_a:b", "is not a stage id", "S01_load_data"),
        ("S01_a --outt df", "no option --outt, did you mean --out?", "--out df"),
        ("S01_a --ouput=df", "no option --ouput, did you mean --out?", "--out df"),
        ("S01_a -o df", "no option -o", "--out df"),
        ("S01_a --out", "--out has no value", "--out df"),
        ("S01_a --out --in raw.csv", "--out has no value", "--out df"),
        ("S01_a --max 2m --max 3m", "--max stands twice", "keep one --max"),
        ("S01_a --goal x --goal y", "--goal stands twice", "keep one --goal"),
        ("S01_a --max soon", "'soon' is not a duration", "1h30m"),
        ("S01_a --max 0", "'0' is not a duration", "1h30m"),
        ("S01_a --max -5s", "'-5s' is not a duration", "1h30m"),
        ("S01_a --goal 'open", "cannot be read", "close the quotes"),
        ("S01_a --out df --out df", "the output df is declared twice", "keep one --out df"),
        ("S01_a --out df --out df=x.json", "the output df is declared twice", "keep one --out df"),
        ("S01_a --out a=x.json --out b=x.json", "a and b would be stored in one file", "name of its own"),
        ("S01_a --out a=x.json --out b=X.JSON", "a and b would be stored in one file", "name of its own"),
        ("S01_a --out plots/ --out plots", "the output plots is declared twice", "keep one"),
        ("S01_a --out a=x.json --out x.json", "a and x.json would be stored in one file", "name of its own"),
        ("S01_a --out class", "'class' is not a variable name", "--out df"),
        ("S01_a --out 1x=x.json", "'1x' is not a variable name", "--out df"),
        ("S01_a --out =x.json", "'' is not a variable name", "--out df"),
        ("S01_a --out x=", "it is empty", "scores.csv"),
        ("S01_a --out x=x.unknown", "x.unknown", "gy.artifact_path"),
        ("S01_a --out x=../x.json", "it starts with a dot", "scores.csv"),
        ("S01_a --out a/b.csv", "it holds /", "scores.csv"),
        ("S01_a --out /etc/", "it holds /", "scores.csv"),
        ("S01_a --out my-data", "no variable name, no file name with a suffix and no folder", "my-data.csv"),
        ("S01_a --out con.csv", "reserve", "scores.csv"),
        ("S01_a --out ''", "it is empty", "scores.csv"),
        ("S01_a --in ''", "--in has no name", "raw.csv"),
    ],
)
def test_a_line_that_is_refused(line: str, problem: str, fix: str) -> None:
    with pytest.raises(BadPlan) as refusal:
        of_line(line)
    assert refusal.value.message.startswith("nb.ipynb, cell 4")
    assert problem in refusal.value.message
    assert fix in (refusal.value.next_step or "")


def test_the_stage_is_named_once_it_is_known() -> None:
    with pytest.raises(BadPlan, match=r"^nb.ipynb, cell 4 \(S01_a\): 'soon' is"):
        of_line("S01_a --max soon")


@pytest.mark.parametrize(
    ("gyoshu", "problem"),
    [
        ("S01_a", "does not hold an object"),
        ([], "does not hold an object"),
        ({}, "names no stage"),
        ({"stage": 5}, "names no stage"),
        ({"stage": "S1"}, "is not a stage id"),
        ({"stage": "S01_a", "outs": []}, "has no field outs, did you mean out?"),
        ({"stage": "S01_a", "out": "df"}, "out in the metadata key gyoshu is not a list of texts"),
        ({"stage": "S01_a", "out": [1]}, "out in the metadata key gyoshu is not a list of texts"),
        ({"stage": "S01_a", "in": {"a": "b"}}, "in in the metadata key gyoshu is not a list of texts"),
        ({"stage": "S01_a", "max": True}, "max in the metadata key gyoshu is not text"),
        ({"stage": "S01_a", "max": -1}, "is not a duration"),
        ({"stage": "S01_a", "max": "x"}, "is not a duration"),
        ({"stage": "S01_a", "goal": 5}, "goal in the metadata key gyoshu is not text"),
    ],
)
def test_metadata_that_is_refused(gyoshu: object, problem: str) -> None:
    with pytest.raises(BadPlan) as refusal:
        read_annotation(None, {"gyoshu": gyoshu}, PLACE)
    assert refusal.value.message.startswith("nb.ipynb, cell 4")
    assert problem in refusal.value.message
    assert refusal.value.next_step


def test_both_forms_on_one_cell_are_refused() -> None:
    with pytest.raises(BadPlan, match="both a %%stage line and the metadata key gyoshu"):
        read_annotation("S01_a", {"gyoshu": {"stage": "S01_a"}}, PLACE)


_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}_x", fullmatch=True)
_OUTPUTS = st.builds(lambda name, suffix: name + suffix, _NAMES, st.sampled_from(["", ".csv", "/"]))
_TEXT = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1).map(lambda text: "x" + text)


@given(
    outputs=st.lists(_OUTPUTS, unique_by=lambda text: text.strip("/"), max_size=4),
    inputs=st.lists(_TEXT, unique=True, max_size=3),
    limit=st.none() | st.integers(1, 10**6),
    goal=st.none() | _TEXT,
)
def test_line_and_metadata_say_the_same(
    outputs: list[str], inputs: list[str], limit: int | None, goal: str | None
) -> None:
    words = ["S07_some_stage"]
    for option, values in (("--out", outputs), ("--in", inputs)):
        words += [word for value in values for word in (option, value)]
    words += [*(["--max", f"{limit}s"] if limit else []), *(["--goal", goal] if goal else [])]
    from_line = of_line(shlex.join(words))
    assert from_line == of_metadata(
        stage="S07_some_stage", out=outputs, max=limit and f"{limit}s", goal=goal, **{"in": inputs}
    )
    assert from_line.max_duration_s == limit
    assert len(from_line.outputs) == len(outputs)


@given(st.text())
def test_any_line_is_an_annotation_or_a_sentence(line: str) -> None:
    with contextlib.suppress(BadPlan):  # and nothing else
        assert of_line(line).stage_id in line
