"""Names that escape, break markers or mean a device somewhere are refused; ordinary ones pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import BadName

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "a\0b",
    "a\nb",
    "a:b",
    "a]b\x1b[0m",
    "nul",
    "CON",
    "com1.txt",
    ".hidden",
    "x" * 121,
    "ends.",
    " begins",
    "ends ",
    "a\ud800b",
    "tab\there",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_names_and_titles_are_refused(name: str) -> None:
    for check in (ids.check_file_name, ids.check_title):
        with pytest.raises(BadName) as refusal:
            check(name)
        assert refusal.value.exit_code == 2
        assert refusal.value.message.isprintable()


@pytest.mark.parametrize("name", ["scores.csv", "Größe", "a b", "x-1_2", "数据.parquet", "console.txt"])
def test_ordinary_names_pass(name: str) -> None:
    assert ids.check_file_name(name) == name


@pytest.mark.parametrize("name", ["S01_load_data", "S02_eda", "S100_train_big_model_2"])
def test_stage_ids(name: str) -> None:
    assert ids.check_stage_id(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "s01_load",
        "S1_load",
        "S01",
        "S01_",
        "S01_Load",
        "S01-load",
        "S01_load:x",
        "S01_a]",
        "S01_load\n",
        "S01_é",
        "S٠١_load",
    ],
)
def test_malformed_stage_ids(name: str) -> None:
    with pytest.raises(BadName, match="stage id"):
        ids.check_stage_id(name)


@pytest.mark.parametrize("name", ["run-1", "run-001\n", "../run-001", "RUN-001", "run-٠٠١", "run-0000000001"])
def test_malformed_run_ids(name: str) -> None:
    with pytest.raises(BadName):
        ids.check_run_id(name)


def test_ids_count() -> None:
    assert ids.run_id(7) == "run-007"
    assert ids.checkpoint_id(1234) == "ckpt-1234"
    assert ids.number_of("ckpt-1234") == 1234


@given(st.text(max_size=300))
def test_any_stem_gives_a_valid_title_or_a_refusal(stem: str) -> None:
    try:
        title = ids.title_from_stem(stem)
    except BadName:
        return
    assert ids.check_title(title) == title


@pytest.mark.parametrize("path", ["a/../b", "/a", "a//b", "a/", "a/.git/x", "a/nul"])
def test_relative_paths_that_escape(path: str) -> None:
    with pytest.raises(BadName):
        ids.check_relative_path(path)
