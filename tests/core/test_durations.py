import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.core.durations import format_duration, parse_duration
from gyoshu_ckpt.errors import UserMistake


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45", 45),
        ("45s", 45),
        ("0.5", 0.5),
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 2M ", 120),
        ("1d", 86400),
        ("1d2h3m4s", 93784),
        ("1h1s", 3601),
        ("0h5m", 300),
    ],
)
def test_a_duration_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "0s",
        "-5",
        "-5s",
        "m",
        "5 m",
        "30m1h",
        "1h1h",
        "5x",
        "1e3",
        "inf",
        "nan",
        "½",
        "٣",
        "1_0",
        "9" * 400,
        ".5",
        "5.",
        "2m\x00",
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserMistake, match="is not a duration above zero") as refusal:
        parse_duration(text)
    assert "1h30m" in (refusal.value.next_step or "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-3, "0s"),
        (0.25, "0.25s"),
        (1, "1s"),
        (60, "1m"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (90000, "25h"),
        (3600.5, "1h0.5s"),
        (59.9996, "1m"),
        (59.999, "59.999s"),
    ],
)
def test_the_shortest_writing(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=1, max_value=10**10))
def test_what_is_formatted_reads_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds
