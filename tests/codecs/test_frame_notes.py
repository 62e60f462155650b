from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gyoshu_ckpt.codecs.frame_comparison import frames_identical
from gyoshu_ckpt.codecs.frame_notes import mend, notes_of

UTC_DAYS = pd.date_range("2020", periods=2, tz="UTC", freq="D")


FORGOTTEN: dict[str, tuple[pd.DataFrame, Any]] = {
    "freq": (
        pd.DataFrame({"a": [1, 2]}, index=UTC_DAYS),
        lambda f: f.set_axis(pd.DatetimeIndex(UTC_DAYS, freq=None)),
    ),
    "utc": (
        pd.DataFrame({"a": UTC_DAYS}),
        lambda f: f.assign(a=f["a"].dt.tz_convert("Europe/London")),
    ),
    "object-str": (pd.DataFrame({"a": ["x", None]}, dtype=object), lambda f: f.astype("str")),
    "object-int": (pd.DataFrame({"a": [1, 2]}, dtype=object), lambda f: f.astype("int64")),
    "seconds": (pd.DataFrame({"a": np.array([1], "M8[s]")}), lambda f: f.astype("M8[ms]")),
    "categories": (pd.DataFrame({"a": pd.Categorical([3, 1], [3, 1, 2])}), lambda f: f.astype("int64")),
    "labels": (pd.DataFrame([[1, 2]]), lambda f: f.set_axis(pd.Index([0, 1]), axis=1)),
    "storage": (
        pd.DataFrame({"a": pd.array(["x"], pd.StringDtype("python"))}),
        lambda f: f.astype("string[pyarrow]"),
    ),
    "flags": (
        pd.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False),
        lambda f: f.set_flags(allows_duplicate_labels=True),
    ),
}


@pytest.mark.parametrize(("frame", "forgotten"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_what_is_forgotten_is_mended(frame: pd.DataFrame, forgotten: Any) -> None:
    notes = json.loads(json.dumps(notes_of(frame)))
    poorer = forgotten(frame.copy())
    assert not frames_identical(frame, poorer)
    assert frames_identical(frame, mend(poorer, notes))


def test_a_frame_without_oddities_needs_no_note_on_its_columns() -> None:
    assert notes_of(pd.DataFrame({"a": [1], "b": [2.5]}))["columns"] == {}


def test_too_many_categories_are_not_noted() -> None:
    many = pd.DataFrame({"a": pd.Categorical(np.arange(20_000)[::-1], np.arange(20_000)[::-1])})
    assert notes_of(many)["columns"] == {}
