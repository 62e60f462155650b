from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gyoshu_ckpt.core.markers import (
    LONGEST_LINE,
    TAXONOMY,
    Category,
    Marker,
    MarkerProblem,
    MarkerScanner,
    format_marker,
    parse_marker,
)
from gyoshu_ckpt.errors import BadName

BEGIN = "[STAGE:begin:id=S01_load_data] free text"
BEGIN_MARKER = Marker("STAGE", "begin", (("id", "S01_load_data"),), "free text")


def scan(chunks: Iterable[str], max_line: int = LONGEST_LINE) -> list[Marker | MarkerProblem]:
    scanner = MarkerScanner(max_line)
    return [found for chunk in chunks for found in scanner.feed(chunk)] + scanner.finish()


def problem_with(line: str) -> str:
    found = parse_marker(line)
    assert isinstance(found, MarkerProblem), found
    return found.reason


# --- parsing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "marker"),
    [
        (BEGIN, BEGIN_MARKER),
        (
            "[STAGE:progress:id=S01_load_data:pct=40:msg=half%20done]",
            Marker("STAGE", "progress", (("id", "S01_load_data"), ("pct", "40"), ("msg", "half done"))),
        ),
        (
            "[STAGE:end:id=S01_load_data:status=success:duration=120s]",
            Marker("STAGE", "end", (("id", "S01_load_data"), ("status", "success"), ("duration", "120s"))),
        ),
        (
            "[CHECKPOINT:saved:id=ckpt-003:stage=S02_eda:manifest=reports/…/checkpoint.json]",
            Marker(
                "CHECKPOINT",
                "saved",
                (("id", "ckpt-003"), ("stage", "S02_eda"), ("manifest", "reports/…/checkpoint.json")),
            ),
        ),
        (
            "[CHECKPOINT:emergency:id=ckpt-004:stage=S03_train_model:reason=watchdog_timeout]",
            Marker(
                "CHECKPOINT",
                "emergency",
                (("id", "ckpt-004"), ("stage", "S03_train_model"), ("reason", "watchdog_timeout")),
            ),
        ),
        ("[REHYDRATED:from=ckpt-003]", Marker("REHYDRATED", None, (("from", "ckpt-003"),))),
        ("[FINDING] sales fell by 12%", Marker("FINDING", content="sales fell by 12%")),
        (
            "[METRIC:accuracy=95%] on the test set",
            Marker("METRIC", None, (("accuracy", "95%"),), "on the test set"),
        ),
        ("[CALC:sum:expr=a=b] x", Marker("CALC", "sum", (("expr", "a=b"),), "x")),
        ("[STAT:id=1:ci] x", Marker("STAT", "ci", (("id", "1"),), "x")),
        (" \t [INFO]  two blanks ", Marker("INFO", content=" two blanks ")),
        ("[INFO]x", Marker("INFO", content="x")),
        ("[INFO] a%0Ab %20 %250A %2520", Marker("INFO", content="a\nb %20 %0A %2520")),
        ("\x1b[1;31m[ERR\x1b[0mOR]\x1b[0m red \x1b]8;;x\x07link", Marker("ERROR", content="red link")),
        ("[INFO] crlf\r\n", Marker("INFO", content="crlf")),
    ],
)
def test_reads_a_marker(line: str, marker: Marker) -> None:
    assert parse_marker(line) == marker
    assert marker.known


@pytest.mark.parametrize(
    "line",
    [
        "",
        "plain",
        "[1, 2, 3]",
        "[]",
        "[x] done",
        "[ 12%] Building",
        "[2024-01-01] started",
        "[INFO 12:00] log",
        "[I 12:00:00.000 App] log",
        "[stage:begin:id=S01_load_data]",
        "[Stage:begin]",
        "[_X] y",
        "[ÄRGER] not ASCII",
        "text [INFO] x",
        "[[INFO] x",
        "['INFO']",
        "[W: an unknown type that is never closed",
        "[INFO] two\n[INFO] lines",
    ],
)
def test_anything_else_is_no_marker(line: str) -> None:
    assert parse_marker(line) is None


def test_an_unknown_type_is_kept_and_flagged() -> None:
    marker = parse_marker("[MOOD:sunny:level=3] fine")
    assert marker == Marker("MOOD", "sunny", (("level", "3"),), "fine")
    assert not marker.known
    assert marker.category is Category.UNKNOWN


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[INFO:] x", "empty"),
        ("[INFO:a::b=1] x", "empty"),
        ("[INFO:=1] x", "no name"),
        ("[INFO:a=1:a=2]", "twice"),
        ("[STEP:a:b]", "%3A"),
        ("[STEP:now:at=12:30]", "%3A"),
        ("[INFO:a=%FF]", "UTF-8"),
        ("[INFO:a=1", "closing ]"),
        ("[INFO:a=\ud800] x", "Unicode"),
        ("[STAGE]", "begin, progress or end"),
        ("[STAGE:start:id=S01_load_data]", "begin, progress or end"),
        ("[STAGE:begin]", "id= is missing"),
        ("[STAGE:begin:id=load]", "not a stage id"),
        ("[STAGE:begin:id=../S01_load]", "not a stage id"),
        ("[STAGE:progress:id=S01_load_data:pct=101]", "0 to 100"),
        ("[STAGE:progress:id=S01_load_data:pct=-1]", "0 to 100"),
        ("[STAGE:progress:id=S01_load_data:pct=nan]", "0 to 100"),
        ("[STAGE:progress:id=S01_load_data:pct=100.5]", "0 to 100"),
        ("[STAGE:end:id=S01_load_data:duration=soon]", "120s"),
        ("[STAGE:end:id=S01_load_data:duration=-3s]", "120s"),
        ("[CHECKPOINT:id=ckpt-001]", "begin, saved, end or emergency"),
        ("[CHECKPOINT:gone:id=ckpt-001]", "begin, saved, end or emergency"),
        ("[CHECKPOINT:saved:stage=S02_eda]", "id= is missing"),
        ("[CHECKPOINT:saved:id=3]", "not a checkpoint id"),
        ("[CHECKPOINT:saved:id=ckpt-001:stage=eda]", "not a stage id"),
        ("[CHECKPOINT:saved:id=ckpt-001:runId=1]", "not a run id"),
        ("[CHECKPOINT:saved:id=ckpt-001:manifest=/etc/x]", "below the root"),
        ("[CHECKPOINT:saved:id=ckpt-001:manifest=a/../../x]", "below the root"),
        ("[CHECKPOINT:saved:id=ckpt-001:manifest=a%00]", "below the root"),
        ("[CHECKPOINT:saved:id=ckpt-001:colour=red]", "no attribute 'colour'"),
        ("[REHYDRATED]", "from= is missing"),
        ("[REHYDRATED:from=run-001]", "not a checkpoint id"),
        ("[REHYDRATED:all:from=ckpt-001]", "no subtype"),
        ("[REHYDRATED:from=ckpt-001:x=1]", "no attribute 'x'"),
    ],
)
def test_a_malformed_marker_is_a_diagnostic(line: str, reason: str) -> None:
    assert reason in problem_with(line)


def test_a_stage_marker_takes_figures_of_its_own() -> None:
    marker = parse_marker("[STAGE:progress:id=S03_train_model:pct=12.5:loss=0.31]")
    assert isinstance(marker, Marker)
    assert marker.get("loss") == "0.31"
    assert marker.get("lr") is None


def test_diagnostics_are_short_and_safe_to_print() -> None:
    found = parse_marker("[STAGE:begin:id=\x1b\x00" + "x" * 5000 + "]")
    assert isinstance(found, MarkerProblem)
    assert found.line_excerpt.startswith("[STAGE:begin:id=\\x1b\\x00xxx")
    for text in (found.line_excerpt, found.reason):
        assert text.isprintable()
        assert len(text) < 250


def test_the_taxonomy_holds_every_family() -> None:
    assert set(TAXONOMY.values()) == set(Category) - {Category.UNKNOWN}
    assert TAXONOMY["STAGE"] is TAXONOMY["CHECKPOINT"] is Category.WORKFLOW
    assert TAXONOMY["SO_WHAT"] is Category.SCIENCE
    assert len(TAXONOMY) == 37


# --- formatting --------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=30) | st.text(
    "a:]%=[ 025AaCc9\n\r\t\x1b\x9b", max_size=12
)
names = texts.filter(bool)


@given(
    type_=st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True).filter(
        lambda t: t not in {"STAGE", "CHECKPOINT", "REHYDRATED"}
    ),
    subtype=st.none() | names,
    attributes=st.dictionaries(names, texts, max_size=4),
    content=texts,
)
@example("INFO", None, {}, "%250A")
@example("INFO", None, {}, "%C2%9b \x9b")
@example("INFO", "a\nb", {"=": "=", "%41": "%41"}, " ")
def test_what_is_formatted_reads_back(
    type_: str, subtype: str | None, attributes: dict[str, str], content: str
) -> None:
    line = format_marker(type_, subtype, attributes, content)
    assert not re.search(r"[\r\n\x1b\x9b]", line)
    expected = Marker(type_, subtype, tuple(attributes.items()), content)
    assert parse_marker(line) == expected
    assert scan([line + "\n"]) == [expected]


def test_formats_the_usual_ones_readably() -> None:
    line = format_marker("STAGE", "progress", {"id": "S01_load_data", "pct": "40", "msg": "a: b"}, "50% ]")
    assert line == "[STAGE:progress:id=S01_load_data:pct=40:msg=a%3A b] 50% ]"
    assert format_marker("REHYDRATED", attributes=[("from", "ckpt-003")]) == "[REHYDRATED:from=ckpt-003]"


@pytest.mark.parametrize(
    ("type_", "subtype", "attributes", "content"),
    [
        ("info", None, {}, ""),
        ("IN:FO", None, {}, ""),
        ("", None, {}, ""),
        ("INFO] [X", None, {}, ""),
        ("INFO\n", None, {}, ""),
        ("INFO", "", {}, ""),
        ("INFO", None, {"": "x"}, ""),
        ("INFO", None, [("a", "1"), ("a", "2")], ""),
        ("INFO", None, {"a": "\ud800"}, ""),
        ("STAGE", "begin", {"id": "S01_load]:data"}, ""),
        ("CHECKPOINT", "saved", {"id": "ckpt-001", "manifest": "../x"}, ""),
        ("INFO", None, {}, "x" * LONGEST_LINE),
    ],
)
def test_refuses_to_format_what_could_not_be_read_back(
    type_: str, subtype: str | None, attributes: dict[str, str] | list[tuple[str, str]], content: str
) -> None:
    with pytest.raises(BadName):
        format_marker(type_, subtype, attributes, content)


# --- scanning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        BEGIN + "\n",
        BEGIN,  # the stream ends without a line end
        BEGIN + "\r\n",
        "noise\n" + BEGIN + "\nnoise\n",
        "\r 50%|█████     | 50/100 [00:01<00:01]\r" + BEGIN + "\rnext",
        "  \t" + BEGIN + "\n",
        "\n\x1b[32m \x1b[1m[\x1b[0mSTAGE:begin:id=\x1b[4mS01_load_data\x1b[0m] free text\x1b[0m\n",
        "\n\x1b[2K\x1b]0;title\x07\x1b(B\x1b7\x9b1m" + BEGIN + "\n",
        "[1, 2]\n[ 3]\nx[A]\n" + BEGIN + "\n[x]\n",
        "x" * 70000 + "\n" + BEGIN + "\n" + "y" * 70000,
    ],
)
def test_sees_a_marker_once_however_the_stream_is_cut(text: str) -> None:
    assert scan([text]) == [BEGIN_MARKER]
    assert scan([text[:20000], text[20000:]]) == [BEGIN_MARKER]
    if len(text) < 1000:
        assert scan(text) == [BEGIN_MARKER]
        for cut in range(len(text)):
            assert scan([text[:cut], text[cut:]]) == [BEGIN_MARKER]


pieces = st.sampled_from(
    [
        *"\r\n\t []:=%AbS",
        "\r\n",
        "\n[",
        "\x1b[31m",
        "\x1b[",
        "\x1b",
        "\x1b]0;t\x07",
        "\x9b0m",
        "[INFO",
        "[STAGE:begin:id=S01_load_data]",
        "[STAGE:end]",
        "[REHYDRATED:from=ckpt-001",
        "[X]",
        "word",
        "█",
        "🦊",
    ]
)


@given(parts=st.lists(pieces | st.text(max_size=4), max_size=40), data=st.data(), max_line=st.integers(1, 60))
def test_cuts_never_change_what_is_found(parts: list[str], data: st.DataObject, max_line: int) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    lines = re.split(r"[\r\n]", text)
    expected = [
        found for line in lines if len(line) <= max_line and (found := parse_marker(line)) is not None
    ]
    assert scan([text], max_line) == scan(chunks, max_line) == scan(text, max_line) == expected


@pytest.mark.parametrize("length", [99, 100, 101])
def test_a_line_above_the_limit_is_no_marker(length: int) -> None:
    line = "[INFO] ".ljust(length, "x")
    expected = 1 if length <= 100 else 0
    for text in (line, line + "\n", "a\n" + line + "\nb"):
        assert len(scan([text], max_line=100)) == len(scan(text, max_line=100)) == expected


def test_memory_stays_bounded_without_a_line_end() -> None:
    scanner = MarkerScanner()
    chunk = "[STAGE:begin:" + "z" * 65523
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(16_384):  # a gigabyte
            assert scanner.feed(chunk) == []
        assert tracemalloc.get_traced_memory()[1] - before < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert scanner.feed("\n" + BEGIN + "\n") == [BEGIN_MARKER]


def test_a_finished_scanner_starts_afresh() -> None:
    scanner = MarkerScanner()
    assert scanner.feed(BEGIN) == []
    assert scanner.finish() == [BEGIN_MARKER]
    assert scanner.finish() == []
    assert scanner.feed(BEGIN + "\n") == [BEGIN_MARKER]
