from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest

from gyoshu_ckpt.codecs.arrow_tables import ARROW, same_column

NAN = float("nan")
ENCODED = pa.array(["b", "a", None, "b"]).dictionary_encode()
MAP = pa.map_(pa.string(), pa.float64())

COLUMNS = {
    "int": pa.array([1, None, 3]),
    "float": pa.array([1.5, NAN, None, -0.0]),
    "half": pa.array([1.5, NAN, None], type=pa.float16()),
    "string": pa.array(["a", None, "ü"]),
    "large-string": pa.array(["a", None], type=pa.large_string()),
    "view": pa.array(["a", None], type=pa.string_view()),
    "binary": pa.array([b"a", None]),
    "bool": pa.array([True, None]),
    "null": pa.nulls(3),
    "decimal": pa.array([decimal.Decimal("1.20"), None]),
    "timestamp": pa.array([1, None], type=pa.timestamp("ns", "Europe/Berlin")),
    "date": pa.array([1, None], type=pa.date32()),
    "time": pa.array([1, None], type=pa.time64("us")),
    "duration": pa.array([1, None], type=pa.duration("s")),
    "dictionary": ENCODED,
    "ordered": ENCODED.cast(pa.dictionary(pa.int32(), pa.string(), ordered=False)),
    "list": pa.array([[1.0, NAN], None, []]),
    "large-list": pa.array([[1.0, NAN], None, []], type=pa.large_list(pa.float64())),
    "fixed-list": pa.array([[1.0, NAN], None], type=pa.list_(pa.float64(), 2)),
    "struct": pa.array([{"a": NAN, "b": "x"}, None]),
    "map": pa.array([[("a", NAN)], None], type=MAP),
    "deep": pa.array([[{"a": [NAN]}], None, []]),
    "sliced": pa.array([1.0, NAN, 3.0, None])[1:],
    "empty": pa.array([], type=pa.float32()),
    "uuid": pa.array([b"0123456789abcdef"], type=pa.uuid()),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_every_kind_of_column_comes_back(column: Any, through: Any) -> None:
    table = pa.table({"c": column})
    codec, loaded = through(table)
    assert codec == "arrow"
    assert loaded.schema.equals(table.schema, check_metadata=True)
    assert ARROW.is_same(table, loaded)
    assert str(loaded.to_pylist()) == str(table.to_pylist())  # str: to a float, nan is not nan


METADATA = pa.schema(
    [pa.field("a", pa.int64(), nullable=False, metadata={b"unit": b"m"})], metadata={b"k": b"v"}
)

TABLES = {
    "metadata": pa.table({"a": [1, 2]}, schema=METADATA),
    "no-rows": METADATA.empty_table(),
    "no-columns": pa.table({}),
    "chunks": pa.table({"a": pa.chunked_array([[1, 2], [], [3]])}),
    "two-dictionaries": pa.table(
        {
            "a": pa.chunked_array(
                [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
            )
        }
    ),
    "same-name-twice": pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    "batch": pa.record_batch({"a": [1.0, NAN]}),
    "batch-metadata": pa.RecordBatch.from_pylist([{"a": 1}], schema=METADATA),
    "batch-empty": pa.RecordBatch.from_pylist([], schema=METADATA),
    "batch-sliced": pa.record_batch({"a": ["x", "y", "z"]})[1:],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_and_batches_come_back(table: Any, through: Any) -> None:
    codec, loaded = through(table)
    assert codec == "arrow"
    assert type(loaded) is type(table)
    assert ARROW.is_same(table, loaded)
    assert loaded.schema.metadata == table.schema.metadata


def test_the_file_is_arrow_for_everybody(written: Any) -> None:
    assert pa.ipc.open_file(written(ARROW, pa.table({"a": [1]}))).read_all().to_pydict() == {"a": [1]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1]), pa.array([2])),
        (pa.array([1]), pa.array([None], type=pa.int64())),
        (pa.array([1]), pa.array([1], type=pa.int32())),
        (pa.array([1]), pa.array([1, 1])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([NAN]), pa.array([None], type=pa.float64())),
        (pa.array([[NAN]]), pa.array([[1.0]])),
        (pa.array([[1.0], []]), pa.array([[], [1.0]])),
        (pa.array([[], None], type=pa.list_(pa.int64())), pa.array([None, []], type=pa.list_(pa.int64()))),
        (pa.array([{"a": 1}]), pa.array([None], type=pa.struct({"a": pa.int64()}))),
        (pa.array([{"a": NAN}]), pa.array([{"a": 1.0}])),
        (pa.array([[("a", 1.0)]], type=MAP), pa.array([[("a", 2.0)]], type=MAP)),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()),
    ],
    ids=str,
)
def test_same_column_sees_a_difference(one: Any, other: Any) -> None:
    assert not same_column(one, other)
    assert same_column(one, one[:])


@pytest.mark.parametrize(
    "loaded",
    [
        pa.table({"a": [1, 2]}),
        pa.table({"a": [1, 3]}, schema=METADATA),
        pa.table({"a": [1]}, schema=METADATA),
        pa.RecordBatch.from_pylist([{"a": 1}, {"a": 2}], schema=METADATA),
    ],
    ids=["metadata", "value", "rows", "kind"],
)
def test_is_same_catches_a_broken_load(loaded: Any) -> None:
    assert not ARROW.is_same(TABLES["metadata"], loaded)


def test_arrays_alone_are_left_to_pickle(through: Any) -> None:
    codec, loaded = through(pa.array([1, None]))
    assert codec == "pickle"
    assert loaded.equals(pa.array([1, None]))
