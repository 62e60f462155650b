import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.notebook.parameters import defaults_cell, inject, parse_parameter, python_literal


def cell(source: str, *tags: str, cell_id: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {"tags": list(tags)} if tags else {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("True", True),
        ("true", True),
        ("False", False),
        ("false", False),
        ("None", None),
        ("none", "none"),
        ("1", 1),
        ("-7", -7),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("", ""),
        ("text", "text"),
        ("1.2.3", "1.2.3"),
        ("0x10", "0x10"),
        ("[1, 2]", "[1, 2]"),
        ("TRUE", "TRUE"),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_a_value_from_the_command_line(text: str, value: object) -> None:
    parsed = parse_parameter(text)
    assert (type(parsed), parsed) == (type(value), value)


def test_nan_and_numbers_beyond_a_float() -> None:
    assert math.isnan(parse_parameter("nan"))  # type: ignore[arg-type]
    assert parse_parameter("9" * 5000) == "9" * 5000
    assert parse_parameter("1e999") == "1e999"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.just(())
        | st.dictionaries(st.text(), inner)
    ),
    max_leaves=10,
)


@given(_VALUES)
def test_what_is_written_reads_back(value: object) -> None:
    source = python_literal(value)
    ast.parse(f"x = {source}")
    assert repr(eval(source, {"float": float})) == repr(value)  # repr: nan is not equal to itself


def test_a_value_without_a_literal_is_refused() -> None:
    with pytest.raises(UserMistake, match="a parameter cannot be a set"):
        python_literal({1})


def test_the_values_go_right_after_the_defaults() -> None:
    cells = [
        cell("import a", cell_id="a"),
        cell("x = 1\ny = 2", "parameters", cell_id="b"),
        cell("x", cell_id="c"),
    ]
    assert inject(cells, {"x": "it's", "y": 0.5}, {"x", "y"}, "python") == []
    assert [each["id"] for each in cells[:2]] == ["a", "b"]
    assert cells[2]["source"] == '# Parameters\nx = "it\'s"\ny = 0.5'
    assert cells[2]["metadata"]["tags"] == ["injected-parameters"]
    assert cells[3]["id"] == "c"


def test_what_papermill_left_is_replaced() -> None:
    cells = [cell("x = 1", "parameters", cell_id="a"), cell("x = 2", "injected-parameters", cell_id="b")]
    inject(cells, {"x": 3}, {"x"}, "python")
    assert [each["source"] for each in cells] == ["x = 1", "# Parameters\nx = 3"]


def test_without_defaults_they_go_to_the_top_with_a_notice() -> None:
    cells = [cell("x", cell_id="a")]
    (notice,) = inject(cells, {"x": 3}, None, "python")
    assert "no cell is tagged parameters" in notice
    assert [each["source"] for each in cells] == ["# Parameters\nx = 3", "x"]


def test_the_id_is_the_same_each_time_and_like_no_other() -> None:
    first, second = ([cell("x", cell_id="a")] for _ in range(2))
    inject(first, {"x": 3}, None, "python")
    inject(second, {"x": 3}, None, "python")
    assert first[0]["id"] == second[0]["id"]
    third = [cell("x", cell_id=first[0]["id"])]
    inject(third, {"x": 3}, None, "python")
    assert third[0]["id"] != third[1]["id"]


def test_nothing_given_changes_nothing_in_any_language() -> None:
    cells = [cell("x = 2", "injected-parameters", cell_id="b")]
    assert inject(cells, {}, None, "bash") == []
    assert len(cells) == 1


@pytest.mark.parametrize(
    ("parameters", "known", "language", "message", "fix"),
    [
        (
            {"alpa": 1},
            {"alpha", "beta"},
            "python",
            "parameters has no alpa, did you mean alpha?",
            "it assigns alpha, beta",
        ),
        ({"x": 1}, set(), "python", "parameters has no x", "it assigns nothing"),
        ({"1x": 1}, None, "python", "'1x' is not a variable name", "-p NAME VALUE"),
        ({"class": 1}, None, "python", "'class' is not a variable name", "-p NAME VALUE"),
        ({"x\ny": 1}, None, "python", "is not a variable name", "-p NAME VALUE"),
        (
            {"x": 1},
            None,
            "bash",
            "-p works in Python notebooks only, and this one is written in bash",
            "in a cell",
        ),
    ],
)
def test_parameters_that_are_refused(
    parameters: dict[str, object], known: set[str] | None, language: str, message: str, fix: str
) -> None:
    with pytest.raises(UserMistake) as refusal:
        inject([cell("x", cell_id="a")], parameters, known, language)
    assert message in refusal.value.message
    assert fix in (refusal.value.next_step or "")
    assert refusal.value.exit_code == 2


def test_only_a_code_cell_holds_defaults() -> None:
    markdown = {"cell_type": "markdown", "id": "m", "metadata": {"tags": ["parameters"]}, "source": "x"}
    real = cell("x = 1", "other", "parameters", cell_id="a")
    assert defaults_cell([markdown, real]) is real
    assert defaults_cell([markdown]) is None
