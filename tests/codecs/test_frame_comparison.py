from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gyoshu_ckpt.codecs.frame_comparison import array_difference, frame_difference, frames_identical

DAYS = pd.date_range("2020", periods=2)


def column(values: Any, dtype: Any = None) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


def frame(index: Any = None, columns: Any = None, attrs: Any = None) -> pd.DataFrame:
    made = pd.DataFrame([[1, 2], [3, 4]], index=index, columns=columns)
    made.attrs = attrs or {}
    return made


def multi(*levels: Any) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays(levels)


UNUSED = pd.MultiIndex(levels=[["x", "y", "z"], [1, 2]], codes=[[0, 1], [0, 1]])

PAIRS: dict[str, tuple[Any, Any]] = {
    "value": (column([1, 2]), column([1, 3])),
    "dtype": (column([1, 2]), column([1, 2], "int32")),
    "none-nan": (column([None, 1], object), column([np.nan, 1], object)),
    "none-na": (column([None], object), column([pd.NA], object)),
    "nat-none": (column([pd.NaT], object), column([None], object)),
    "negative-zero": (column([0.0]), column([-0.0])),
    "int-bool": (column([1], object), column([True], object)),
    "nested": (column([[1]]), column([[1.0]])),
    "str-storage": (
        column(["x"], pd.StringDtype("python", na_value=np.nan)),
        column(["x"], pd.StringDtype("pyarrow", na_value=np.nan)),
    ),
    "str-missing": (column(["x"], pd.StringDtype(na_value=np.nan)), column(["x"], pd.StringDtype())),
    "str-value": (column(["x", None], "str"), column(["x", "y"], "str")),
    "python-str-value": (column(["x"], pd.StringDtype("python")), column(["y"], pd.StringDtype("python"))),
    "category-order": (
        column(["a", "b"], pd.CategoricalDtype(["a", "b"])),
        column(["a", "b"], pd.CategoricalDtype(["b", "a"])),
    ),
    "category-ordered": (
        column(["a"], pd.CategoricalDtype(["a"], ordered=True)),
        column(["a"], pd.CategoricalDtype(["a"])),
    ),
    "category-unused": (
        column(["a"], pd.CategoricalDtype(["a", "b"])),
        column(["a"], pd.CategoricalDtype(["a"])),
    ),
    "category-code": (
        column(["a", "b"], pd.CategoricalDtype(["a", "b"])),
        column(["a", "a"], pd.CategoricalDtype(["a", "b"])),
    ),
    "masked-missing": (column([1, None], "Int64"), column([1, 0], "Int64")),
    "masked-value": (column([1, None], "Float64"), column([2, None], "Float64")),
    "arrow-value": (column([1], "int64[pyarrow]"), column([2], "int64[pyarrow]")),
    "datetime": (column(DAYS), column(DAYS[::-1])),
    "datetime-unit": (column(DAYS.as_unit("s")), column(DAYS.as_unit("ms"))),
    "tz": (
        column(DAYS.tz_localize("UTC")),
        column(DAYS.tz_localize("Europe/London")),
    ),
    "tz-kind": (
        column(DAYS.tz_localize(dt.UTC)),
        column(DAYS.tz_localize(zoneinfo.ZoneInfo("UTC"))),
    ),
    "period": (
        column(pd.period_range("2020", periods=2, freq="M")),
        column(pd.period_range("2021", periods=2, freq="M")),
    ),
    "interval-closed": (column(pd.interval_range(0, 2)), column(pd.interval_range(0, 2, closed="left"))),
    "interval-value": (column(pd.interval_range(0, 2)), column(pd.interval_range(1, 3))),
    "sparse-fill": (
        column(pd.arrays.SparseArray([0, 1], fill_value=0)),
        column(pd.arrays.SparseArray([0, 1], fill_value=1)),
    ),
    "shape": (column([1]), column([1, 2])),
    "index-value": (frame(index=["x", "y"]), frame(index=["x", "z"])),
    "index-kind": (frame(), frame(index=pd.Index([0, 1]))),
    "index-range": (frame(index=pd.RangeIndex(2)), frame(index=pd.RangeIndex(0, 4, 2))),
    "index-name": (frame(index=pd.Index([1, 2], name="a")), frame(index=pd.Index([1, 2]))),
    "index-name-type": (frame(index=pd.Index([1, 2], name=1)), frame(index=pd.Index([1, 2], name="1"))),
    "index-freq": (frame(index=DAYS), frame(index=pd.DatetimeIndex(DAYS, freq=None))),
    "index-levels": (frame(index=UNUSED), frame(index=UNUSED.remove_unused_levels())),
    "index-codes": (frame(index=multi(["x", "y"], [1, 2])), frame(index=multi(["x", "y"], [2, 1]))),
    "index-nlevels": (frame(index=multi(["x", "y"])), frame(index=multi(["x", "y"], [1, 2]))),
    "labels": (frame(columns=["a", "b"]), frame(columns=["a", "c"])),
    "labels-dtype": (frame(columns=["a", "b"]), frame(columns=pd.Index(["a", "b"], dtype=object))),
    "attrs": (frame(attrs={"a": 1}), frame()),
    "attrs-type": (frame(attrs={"a": (1,)}), frame(attrs={"a": [1]})),
    "flags": (frame(), frame().set_flags(allows_duplicate_labels=False)),
    "series-name": (pd.Series([1], name="a"), pd.Series([1])),
    "series-value": (pd.Series([1]), pd.Series([2])),
    "kind": (pd.Series([1]), pd.DataFrame([1])),
    "index-alone": (pd.Index([1]), pd.Index([2])),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_difference_is_seen_and_a_copy_has_none(pair: tuple[Any, Any]) -> None:
    one, other = pair
    assert not frames_identical(one, other)
    assert not frames_identical(other, one)
    assert frame_difference(one, one.copy()) is None
    assert frame_difference(other, other.copy()) is None


def test_duplicate_labels_are_compared_by_position() -> None:
    one = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert frames_identical(one, one.copy())
    assert frame_difference(one, pd.DataFrame([[1, 3]], columns=["a", "a"])) is not None


def test_a_difference_names_the_column_and_the_row() -> None:
    found = frame_difference(column(["x", None], object), column(["x", np.nan], object))
    assert found is not None
    assert "column 'a'" in found
    assert "row 1" in found


def test_what_lies_under_a_missing_value_does_not_count() -> None:
    mask = np.array([True])
    one, other = (pd.arrays.IntegerArray(np.array([hidden]), mask) for hidden in (1, 2))
    assert array_difference(one, other, "it") is None


def test_every_nan_of_a_frame_is_the_same_and_no_number_is() -> None:
    with np.errstate(invalid="ignore"):
        made = np.array([0.0, 1.0]) / np.array([0.0, 1.0])  # on many machines a negative NaN
    plain = np.array([np.nan, 1.0])
    assert frames_identical(column(made), column(plain))
    assert frames_identical(column(-plain), column(np.array([np.nan, -1.0])))
    assert not frames_identical(column(made), column(np.array([np.nan, 2.0])))
    assert not frames_identical(column(made), column(np.array([1.0, 1.0])))
