import pytest

from gyoshu_ckpt.notebook.place import Place, did_you_mean


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Place("a.ipynb"), "a.ipynb"),
        (Place("a.ipynb", 4), "a.ipynb, cell 4"),
        (Place("a.ipynb", 4, "S01_a"), "a.ipynb, cell 4 (S01_a)"),
    ],
)
def test_a_place_as_it_is_told(place: Place, shown: str) -> None:
    assert str(place) == shown
    refusal = place.refuse("it is wrong", "mend it")
    assert (refusal.message, refusal.next_step) == (f"{shown}: it is wrong", "mend it")


def test_only_something_near_is_suggested() -> None:
    assert did_you_mean("modle", ["model", "df"]) == ", did you mean model?"
    assert did_you_mean("zzz", ["model", "df"]) == ""


def test_what_a_terminal_would_obey_is_not_quoted() -> None:
    assert (
        Place("a").refuse("x\x1b[31m\ny", "z").message
        == "a: x\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}y"
    )
