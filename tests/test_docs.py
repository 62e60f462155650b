"""The documentation says what the code does: examples parse, tables agree with the tables in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gyoshu_ckpt import errors
from gyoshu_ckpt.core.markers import TAXONOMY, Marker, MarkerScanner
from gyoshu_ckpt.notebook.place import Place
from gyoshu_ckpt.notebook.stage_line import is_stage_line, read_annotation, split_stage_line

DOCS = Path(__file__).parents[1] / "docs"
PROTOCOL = DOCS / "stage-protocol.md"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)

WORDS = """
report title|plan|stage|setup cells|run|attempt|artifact|codec|object|manifest|checkpoint|incident|journal|
fingerprint|resume plan|rehydration cell|effect|rung
""".replace("\n", "").split("|")


def fences(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block."""
    for match in re.finditer(r"^```(\S*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        yield match[1], match[2]


def marker_examples() -> list[str]:
    return [
        line
        for language, text in fences(PROTOCOL)
        if language == "text"
        for line in text.splitlines()
        if line.startswith("[")
    ]


def stage_line_examples() -> list[tuple[Path, str]]:
    lines = [
        (page, line.strip().removeprefix("# "))
        for page in PAGES
        for _, text in fences(page)
        for line in text.splitlines()
    ]
    return [(page, line) for page, line in lines if is_stage_line(line)]


def table_rows(page: Path, heading: str) -> dict[str, str]:
    """First and second column of the first table after ``heading``."""
    after = page.read_text(encoding="utf-8").split(heading, 1)[1]
    rows = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", after, re.M)
    assert rows is not None
    cells = [row.strip("|").split("|") for row in rows[1].splitlines()]
    return {cell[0].strip(): cell[1].strip() for cell in cells}


@pytest.mark.parametrize("line", marker_examples())
def test_marker_examples_are_valid_and_known(line: str) -> None:
    (found,) = MarkerScanner().feed(line + "\n")
    assert isinstance(found, Marker), found
    assert found.known


def test_there_is_an_example_of_every_control_marker() -> None:
    found = {re.match(r"\[(\w+):?(\w*)", line).groups() for line in marker_examples()}  # type: ignore[union-attr]  # a line that does not match fails here
    assert {("STAGE", name) for name in ("begin", "progress", "end")} <= found
    assert {("CHECKPOINT", name) for name in ("begin", "saved", "end", "emergency")} <= found
    assert ("REHYDRATED", "from") in found


@pytest.mark.parametrize(("page", "line"), stage_line_examples())
def test_stage_line_examples_are_accepted(page: Path, line: str) -> None:
    options, _ = split_stage_line(line)
    annotation = read_annotation(options, {}, Place(page.name))
    assert annotation is not None
    assert f"%%stage {annotation.stage_id}" in line


def test_examples_show_every_option_and_every_kind_of_output() -> None:
    lines = " ".join(line for _, line in stage_line_examples())
    for option in (
        "--in ",
        "--max ",
        "--goal ",
        "--out df",
        "--out model=model.joblib",
        "--out loss.csv",
        "--out plots/",
    ):
        assert option in lines


def test_the_metadata_example_is_accepted_and_says_the_same_as_a_line() -> None:
    (text,) = [text for language, text in fences(PROTOCOL) if language == "json" and '"gyoshu"' in text]
    from_metadata = read_annotation(None, ast.literal_eval(text), Place("x"))
    line = (
        "S03_train_model --in train --out model=model.joblib --out loss.csv --max 3m "
        "--goal 'Fit a ridge regression on the training rows'"
    )
    assert from_metadata == read_annotation(line, {}, Place("x"))


@pytest.mark.parametrize(
    ("page", "code"),
    [(page, text) for page in PAGES for language, text in fences(page) if language == "python"],
)
def test_python_examples_compile(page: Path, code: str) -> None:
    _, body = split_stage_line(code)
    compile(body, page.name, "exec")


def test_the_taxonomy_table_is_the_taxonomy() -> None:
    documented = {
        type_: family
        for family, types in table_rows(PROTOCOL, "### Research").items()
        if family != "family"
        for type_ in re.findall(r"\b[A-Z_]{3,}\b", types)
    }
    control = {"STAGE", "CHECKPOINT", "REHYDRATED"}  # have sections of their own
    assert documented == {type_: str(TAXONOMY[type_]) for type_ in TAXONOMY if type_ not in control}


def test_every_exit_code_is_documented() -> None:
    documented = {
        int(code)
        for cell in table_rows(DOCS / "cli.md", "# Command line")
        for code in re.findall(r"\d+", cell)
    }
    raised = {getattr(errors, name).exit_code for name in errors.__all__}
    assert documented == raised | {0, 129, 130, 143}


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_has_every_word(word: str) -> None:
    (text,) = [text for language, text in fences(DOCS / "glossary.md") if language == "{glossary}"]
    assert re.search(rf"^{re.escape(word)}$", text, re.M)


def test_the_place_of_the_state_diagrams_is_marked_once() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert text.count("<!-- states:begin -->") == text.count("<!-- states:end -->") == 1
    assert text.index("<!-- states:begin -->") < text.index("<!-- states:end -->")


def test_every_decision_names_what_was_rejected() -> None:
    decisions = sorted((DOCS / "adr").glob("0*.md"))
    assert [path.name[:4] for path in decisions] == [
        f"{number:04d}" for number in range(1, len(decisions) + 1)
    ]
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        for part in ("**Decided.**", "**Why.**", "**Rejected.**", "**Consequences.**"):
            assert part in text, (path.name, part)
