from __future__ import annotations

import datetime as dt
import decimal
import io
import uuid
import zoneinfo
from typing import Any

import dateutil.tz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import pandas as pdst

from gyoshu_ckpt.codecs.frame_comparison import frame_difference, frames_identical
from gyoshu_ckpt.codecs.frames import PARQUET, POLARS
from gyoshu_ckpt.codecs.interface import CannotEncode

TWO_HOURS = dt.timezone(dt.timedelta(hours=2))


def column(values: Any, dtype: Any = None) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


def indexed(index: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": range(len(index))}, index=index)


def labelled(columns: Any) -> pd.DataFrame:
    return pd.DataFrame([range(len(columns))] * 2, columns=columns)


def with_attrs(attrs: dict[Any, Any]) -> pd.DataFrame:
    frame = column([1, 2])
    frame.attrs = attrs
    return frame


def no_duplicates() -> pd.DataFrame:
    return column([1, 2]).set_flags(allows_duplicate_labels=False)


NAN_PAYLOAD = np.array([0x7FF8000000000123, 0x3FF0000000000000], dtype="u8").view("f8")
INTERVALS = pd.interval_range(0, 2)

IN_PARQUET = {
    "int8": column([1, 2], "int8"),
    "uint64": column([2**64 - 1], "uint64"),
    "float": column([1.5, np.nan, -0.0, np.inf]),
    "nan-payload": column(NAN_PAYLOAD),
    "float16": column([1.5], "float16"),
    "float32": column([1.5, np.nan], "float32"),
    "bool": column([True, False]),
    "str": column(["x", None, ""]),
    "str-python": column(["x", None], pd.StringDtype("python", na_value=np.nan)),
    "string-python": column(["x", None], pd.StringDtype("python")),
    "string-pyarrow": column(["x", None], pd.StringDtype("pyarrow")),
    "object-str-none": column(["x", None], object),
    "object-int": column([1, 2], object),
    "object-bool-none": column([True, None], object),
    "bytes": column([b"x", None]),
    "date": column([dt.date(2020, 1, 1), None], object),
    "time": column([dt.time(1, 2, 3)], object),
    "decimal": column([decimal.Decimal("1.20"), None], object),
    "uuid": column([uuid.UUID(int=3)]),
    "Int64": column([1, None, 2**53 + 1], "Int64"),
    "UInt8": column([1, None], "UInt8"),
    "Float32": column([1.5, None], "Float32"),
    "boolean": column([True, None, False], "boolean"),
    "int64[pyarrow]": column([1, None], "int64[pyarrow]"),
    "double[pyarrow]": column([1.5, None], "double[pyarrow]"),
    "string[arrow]": column(["x", None], pd.ArrowDtype(pa.string())),
    "timestamp[pyarrow]": column([1, None], pd.ArrowDtype(pa.timestamp("us", "UTC"))),
    "category": column(["b", "a", None], pd.CategoricalDtype(["b", "unused", "a"])),
    "category-ordered": column(["b", "a"], pd.CategoricalDtype(["b", "unused", "a"], ordered=True)),
    "category-int": column([3, 1, None], pd.CategoricalDtype([3, 1, 2], ordered=True)),
    "category-float": column([0.5], pd.CategoricalDtype([1.5, 0.5])),
    "category-bool": column([True], pd.CategoricalDtype([True, False])),
    "category-range": column([1], pd.CategoricalDtype(pd.RangeIndex(3))),
    "category-empty": column([None, None], pd.CategoricalDtype(pd.Index([], dtype="int64"))),
    "datetime-s": column(["2020-01-01", None], "datetime64[s]"),
    "datetime-ms": column(["2020-01-01", None], "datetime64[ms]"),
    "datetime-us": column(["2020-01-01", None], "datetime64[us]"),
    "datetime-ns": column(["2020-01-01T00:00:00.123456789", None], "datetime64[ns]"),
    "tz-utc": column(pd.date_range("2020", periods=2, tz="UTC")),
    "tz-utc-ns": column(pd.date_range("2020", periods=2, tz="UTC", unit="ns")),
    "tz-zoneinfo-utc": column(pd.date_range("2020", periods=2, tz=zoneinfo.ZoneInfo("UTC"))),
    "tz-berlin": column(pd.date_range("2020-10-25", periods=30, freq="h", tz="Europe/Berlin")),
    "tz-fixed": column(pd.date_range("2020", periods=2, tz=TWO_HOURS)),
    "timedelta": column(pd.to_timedelta([1, None], unit="s")),
    "timedelta-s": column(np.array([1], "m8[s]")),
    "period": column(pd.period_range("2020", periods=2, freq="M")),
    "interval": column(INTERVALS),
    "interval-left": column(pd.interval_range(0.0, 2.0, closed="left")),
    "index-freq": indexed(pd.date_range("2020", periods=3)),
    "index-freq-utc": indexed(pd.date_range("2020", periods=3, tz="UTC", freq="15min", name="when")),
    "index-month-end": indexed(pd.date_range("2020", periods=3, freq="ME")),
    "index-weekly": indexed(pd.date_range("2020", periods=3, freq="W-WED")),
    "index-no-freq": indexed(pd.DatetimeIndex(["2020-01-01", "2020-01-05"])),
    "index-timedelta": indexed(pd.timedelta_range("1s", periods=3, freq="2s")),
    "index-period": indexed(pd.period_range("2020", periods=3, freq="Q")),
    "index-range": indexed(pd.RangeIndex(10, 40, 10, name="r")),
    "index-range-down": indexed(pd.RangeIndex(3, 0, -1)),
    "index-int": indexed(pd.Index([3, 1], dtype="int32", name="i")),
    "index-float": indexed(pd.Index([0.5, np.nan])),
    "index-str": indexed(pd.Index(["x", "y"], name="s")),
    "index-object": indexed(pd.Index(["x", "y"], dtype=object)),
    "index-twice": indexed(pd.Index(["x", "x"])),
    "index-category": indexed(pd.CategoricalIndex(["b", "a"], categories=["b", "c", "a"])),
    "index-multi": indexed(pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["k", None])),
    "labels-range": pd.DataFrame([[1, 2]]),
    "labels-int": labelled([5, 7]),
    "labels-named": labelled(pd.Index(["a", "b"], name="n")),
    "labels-object": labelled(pd.Index(["a", "b"], dtype=object)),
    "labels-multi": labelled(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", None])),
    "labels-datetime": labelled(pd.date_range("2020", periods=2)),
    "attrs": with_attrs({"unit": "m", "nested": {"a": [1, None]}}),
    "flags": no_duplicates(),
    "empty": pd.DataFrame(),
    "no-rows": pd.DataFrame({"a": pd.Series([], dtype="Int64"), "b": pd.Series([], dtype="str")}),
    "no-columns": pd.DataFrame(index=pd.Index(["x", "y"])),
    "no-columns-range": pd.DataFrame(index=range(3)),
}

IN_PICKLE = {
    "mixed": column([1, "x"], object),
    "object-nan": column(["x", np.nan], object),
    "object-none-and-nan": column([None, np.nan, 1.0], object),
    "object-na": column([pd.NA, "x"], object),
    "object-list": column([[1], [2]]),
    "object-dict": column([{"x": 1}, {"y": 2}]),
    "object-tuple": column([(1, 2)]),
    "object-set": column([{1}]),
    "object-int-float": column([1, 2.5], object),
    "object-numpy": column([np.float64(1), np.float64(2)], object),
    "complex": column([1j]),
    "longdouble": column(np.array([1], dtype=np.longdouble)),
    "sparse": column(pd.arrays.SparseArray([0, 0, 1])),
    "category-datetime": column(pd.Categorical(pd.to_datetime(["2020", "2019"]))),
    "category-interval": column(pd.cut([1, 2, 3], 2)),
    "arrow-list": column([[1]], pd.ArrowDtype(pa.list_(pa.int64()))),
    "tz-dateutil": column(pd.date_range("2020", periods=2, tz=dateutil.tz.gettz("Europe/Berlin"))),
    "labels-twice": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "labels-mixed": labelled(pd.Index(["a", 1], dtype=object)),
    "labels-tuples": pd.DataFrame({0: [1]}).set_axis(pd.Index([("a", 1)], tupleize_cols=False), axis=1),
    "labels-none": labelled(pd.Index([None, "a"], dtype=object)),
    "index-name-int": indexed(pd.Index([1.0, 2.0], name=5)),
    "index-mixed": indexed(pd.Index([1, "a"], dtype=object)),
    "index-multi-unused": indexed(pd.MultiIndex.from_product([["x", "y"], [1, 2]])).iloc[:2],
    "attrs-tuple": with_attrs({"size": (1, 2)}),
    "attrs-key": with_attrs({1: 2}),
    "attrs-object": with_attrs({"o": decimal.Decimal(1)}),
}


@pytest.mark.parametrize("frame", IN_PARQUET.values(), ids=IN_PARQUET)
def test_parquet_keeps_it(frame: pd.DataFrame, through: Any) -> None:
    codec, loaded = through(frame)
    assert codec == "parquet"
    assert frame_difference(frame, loaded) is None
    # an opinion besides our own
    pd.testing.assert_frame_equal(frame, loaded, check_exact=True, check_freq=True, check_flags=True)
    assert loaded.attrs == frame.attrs


@pytest.mark.parametrize("frame", IN_PICKLE.values(), ids=IN_PICKLE)
def test_what_parquet_would_change_goes_to_pickle(frame: pd.DataFrame, through: Any) -> None:
    codec, loaded = through(frame)
    assert codec == "pickle"
    assert frame_difference(frame, loaded) is None


@pytest.mark.parametrize("name", [k for k, frame in IN_PARQUET.items() if frame.shape[1] == 1])
def test_a_series_is_kept_like_its_column(name: str, through: Any) -> None:
    series = IN_PARQUET[name].iloc[:, 0].rename(None)
    series.attrs = {"a": 1}
    codec, loaded = through(series)
    assert codec == "parquet"
    assert type(loaded) is pd.Series
    assert frame_difference(series, loaded) is None


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        (None, "parquet"),
        ("x", "parquet"),
        ("", "parquet"),
        (5, "parquet"),
        (("a", 1), "pickle"),
        (1.5, "pickle"),
    ],
)
def test_names_of_series(name: Any, codec: str, through: Any) -> None:
    series = pd.Series([1, 2], name=name, index=pd.Index(["p", "q"], name="value"))
    taken, loaded = through(series)
    assert taken == codec
    assert frame_difference(series, loaded) is None


def test_a_one_column_frame_stays_a_frame(through: Any) -> None:
    assert type(through(column([1]))[1]) is pd.DataFrame


class MyFrame(pd.DataFrame):
    @property
    def _constructor(self) -> Any:
        return MyFrame


def test_a_subclass_is_not_for_parquet() -> None:
    assert not PARQUET.accepts(MyFrame({"a": [1]}))


@pytest.mark.parametrize("frame", [column([1.0, 2.0]), column([1, 2], "Int64"), column(["a", "b"])])
def test_a_loaded_frame_can_be_changed(frame: pd.DataFrame, through: Any) -> None:
    _, loaded = through(frame)
    loaded.loc[0, "a"] = loaded.loc[1, "a"]
    assert loaded.loc[0, "a"] == frame.loc[1, "a"]


def test_saving_leaves_the_frame_alone(through: Any) -> None:
    series = pd.Series([1, 2], name="s", index=pd.date_range("2020", periods=2))
    series.attrs = {"a": {"b": 1}}
    copy = series.copy(deep=True)
    through(series)
    assert frames_identical(series, copy)


def test_the_file_is_parquet_for_everybody(written: Any) -> None:
    frame = pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})
    assert pq.read_table(written(PARQUET, frame)).to_pydict() == {"x": [1, 2], "y": ["a", "b"]}
    pd.testing.assert_frame_equal(pd.read_parquet(written(PARQUET, frame)), frame)


def test_pages_have_checksums(written: Any) -> None:
    data = bytearray(written(PARQUET, column(np.random.default_rng(0).random(50_000))).getvalue())
    data[100_000] ^= 1
    with pytest.raises(OSError, match="CRC"):
        PARQUET.load(io.BytesIO(bytes(data)), 1)


def test_a_refusal_names_the_column(written: Any) -> None:
    with pytest.raises(CannotEncode, match="two columns named 'a'"):
        written(PARQUET, IN_PICKLE["labels-twice"])


frames = pdst.data_frames(
    columns=[
        pdst.column("i", dtype=np.int64),
        pdst.column("f", dtype=float),
        pdst.column("t", elements=st.text(st.characters(codec="utf-8"), max_size=5) | st.none()),
        pdst.column(
            "o", elements=st.none() | st.booleans() | st.integers(0, 9) | st.text("ab"), dtype=object
        ),
        pdst.column("d", dtype=np.dtype("M8[ns]")),
    ],
    index=pdst.range_indexes(max_size=8) | pdst.indexes(dtype=float, max_size=8),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frame=frames)
def test_any_frame_comes_back(frame: pd.DataFrame, through: Any) -> None:
    _, loaded = through(frame)
    assert frame_difference(frame, loaded) is None


POLARS_FRAME = pl.DataFrame(
    {
        "float": [1.0, float("nan"), None],
        "category": pl.Series(["x", "y", None], dtype=pl.Categorical),
        "enum": pl.Series(["x", "y", None], dtype=pl.Enum(["y", "x", "z"])),
        "datetime": [dt.datetime(2020, 1, 1), None, None],
        "zoned": pl.Series([dt.datetime(2020, 1, 1)] * 3).dt.replace_time_zone("Europe/Berlin"),
        "date": [dt.date(2020, 1, 1), None, None],
        "time": [dt.time(1), None, None],
        "duration": [dt.timedelta(1), None, None],
        "list": [[1.0, float("nan")], [], None],
        "struct": [{"a": 1, "b": "x"}] * 3,
        "array": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Int8, 2)),
        "binary": [b"x", b"", None],
        "decimal": [decimal.Decimal("1.20"), None, None],
        "null": [None] * 3,
        "uint8": pl.Series([1, 2, None], dtype=pl.UInt8),
    }
)


@pytest.mark.parametrize("name", POLARS_FRAME.columns)
def test_polars_columns_come_back(name: str, through: Any) -> None:
    for value in (POLARS_FRAME.select(name), POLARS_FRAME.get_column(name)):
        codec, loaded = through(value)
        assert codec == "polars"
        assert type(loaded) is type(value)
        assert loaded.equals(value, null_equal=True)
        assert POLARS.is_same(value, loaded)


@pytest.mark.parametrize(
    "value", [pl.DataFrame(), pl.DataFrame({"a": []}), POLARS_FRAME.clear(), POLARS_FRAME.slice(1)], ids=repr
)
def test_polars_shapes_come_back(value: pl.DataFrame, through: Any) -> None:
    codec, loaded = through(value)
    assert codec == "polars"
    assert loaded.schema == value.schema
    assert loaded.equals(value)


def test_a_polars_frame_takes_the_name_that_a_pandas_frame_would(through: Any) -> None:
    assert through(pl.DataFrame({"a": [1]}), "t.parquet")[0] == "polars"
    assert through(pd.DataFrame({"a": [1]}), "t.parquet")[0] == "parquet"


def test_polars_beyond_parquet_goes_to_pickle(through: Any) -> None:
    wide = pl.DataFrame({"a": pl.Series([2**100], dtype=pl.Int128)})
    assert through(wide)[1].equals(wide)
    lazy = pl.DataFrame({"a": [1]}).lazy()
    assert not POLARS.accepts(lazy)


@pytest.mark.parametrize(
    "loaded",
    [
        pl.DataFrame({"a": [1.0, 2.0]}),
        pl.DataFrame({"a": [1.0, 2.0, -0.0]}),
        pl.DataFrame({"a": [1.0, None, 0.0]}),
        pl.DataFrame({"a": [1, 2, 0]}),
        pl.DataFrame({"b": [1.0, 2.0, 0.0]}),
        pl.Series("a", [1.0, 2.0, 0.0]),
    ],
    ids=repr,
)
def test_polars_is_same_catches_a_broken_load(loaded: Any) -> None:
    assert not POLARS.is_same(pl.DataFrame({"a": [1.0, 2.0, 0.0]}), loaded)
