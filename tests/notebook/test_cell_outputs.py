"""One cell's outputs: merged, capped, spooled, cleared and updated as Jupyter does it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gyoshu_ckpt.notebook import cell_outputs
from gyoshu_ckpt.notebook.cell_outputs import HEAD_CHARACTERS, TAIL_CHARACTERS, CellOutputs, StreamOutput


def display(text: str, display_id: str | None = None) -> dict:  # type: ignore[type-arg]
    transient = {"display_id": display_id} if display_id else {}
    return {"data": {"text/plain": text}, "metadata": {}, "transient": transient}


def test_pieces_of_one_stream_are_one_output(tmp_path: Path) -> None:
    outputs = CellOutputs(tmp_path / "c.txt")
    outputs.stream("stdout", "a")
    outputs.stream("stdout", "b\n")
    outputs.stream("stderr", "c")
    outputs.rich("display_data", display("d"))
    outputs.stream("stdout", "e")
    kinds = [(one["output_type"], one.get("name"), one.get("text")) for one in outputs.as_json()]
    assert kinds == [
        ("stream", "stdout", "ab\n"),
        ("stream", "stderr", "c"),
        ("display_data", None, None),
        ("stream", "stdout", "e"),
    ]


@given(st.lists(st.text(max_size=50), max_size=40))
def test_short_text_is_kept_whole(pieces: list[str]) -> None:
    stream = StreamOutput("stdout")
    for piece in pieces:
        stream.append(piece)
    assert stream.text(None) == "".join(pieces)


def test_long_text_keeps_both_ends_and_is_spooled_whole(tmp_path: Path) -> None:
    outputs = CellOutputs(tmp_path / "outputs" / "c.txt")
    lines = [f"line {number}\n" for number in range(200_000)]
    for line in lines:
        outputs.stream("stdout", line)
    outputs.close()
    (shown,) = outputs.as_json()
    assert len(shown["text"]) < HEAD_CHARACTERS + 2 * TAIL_CHARACTERS
    assert shown["text"].startswith("line 0\n")
    assert shown["text"].endswith("line 199999\n")
    assert "outputs/c.txt" in shown["text"]
    assert (tmp_path / "outputs" / "c.txt").read_text() == "".join(lines)


def test_one_giant_piece_is_cut(tmp_path: Path) -> None:
    outputs = CellOutputs(tmp_path / "c.txt")
    outputs.stream("stdout", "x" * 5_000_000)
    outputs.close()
    assert len(outputs.as_json()[0]["text"]) < HEAD_CHARACTERS + TAIL_CHARACTERS + 200
    assert (tmp_path / "c.txt").stat().st_size == 5_000_000


def test_displays_past_the_cap_are_counted_not_kept(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(cell_outputs, "RICH_BYTES", 1000)
    outputs = CellOutputs(tmp_path / "c.txt")
    for _ in range(5):
        outputs.rich("display_data", display("x" * 400))
    shown = outputs.as_json()
    assert [one["output_type"] for one in shown] == ["display_data", "display_data", "stream"]
    assert "3 more displays" in shown[-1]["text"]


def test_clear_at_once_and_before_the_next_output(tmp_path: Path) -> None:
    outputs = CellOutputs(tmp_path / "c.txt")
    outputs.stream("stdout", "old")
    outputs.clear(wait=True)
    assert outputs.as_json()
    outputs.stream("stdout", "new")
    assert [one["text"] for one in outputs.as_json()] == ["new"]
    outputs.clear(wait=False)
    assert outputs.as_json() == []


def test_a_display_is_updated_in_place(tmp_path: Path) -> None:
    outputs = CellOutputs(tmp_path / "c.txt")
    outputs.rich("display_data", display("one", "id-1"))
    assert outputs.update_display("id-1", display("two"))
    assert not outputs.update_display("id-2", display("three"))
    (shown,) = outputs.as_json()
    assert shown["data"] == {"text/plain": "two"}
    assert set(shown) == {"output_type", "data", "metadata"}
