from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from gyoshu_ckpt.codecs.arrays import NPY, array_difference, bits_equal
from gyoshu_ckpt.codecs.comparison import difference
from gyoshu_ckpt.codecs.interface import SaveContext
from gyoshu_ckpt.codecs.streams import ForwardFile

RECORDS = np.array([(1, 2.5, "ab"), (3, np.nan, "")], dtype=[("i", "<i4"), ("f", ">f8"), ("s", "U3")])
ALIGNED = np.zeros(3, dtype=np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"]}, align=True))

ARRAYS = {
    "float": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "scalar": np.array(3.5),
    "empty": np.empty((0, 3), dtype="f4"),
    "empty1": np.array([]),
    "bool": np.array([True, False]),
    "big-endian": np.arange(3, dtype=">i8"),
    "complex": np.array([1 + 2j, complex("nan")]),
    "f2": np.arange(3, dtype="f2"),
    "longdouble": np.arange(3, dtype=np.longdouble),
    "datetime": np.array(["2020-01-01", "NaT"], dtype="M8[us]"),
    "timedelta": np.array([1, 2], dtype="m8[25s]"),
    "unicode": np.array(["a", "ünï"]),
    "unicode-big": np.array(["a", "b"], dtype=">U4"),
    "bytes": np.array([b"a", b"a\x00b"], dtype="S3"),
    "void": np.array([b"abc"], dtype="V3"),
    "records": RECORDS,
    "nested": np.zeros(2, dtype=[("p", [("x", "f4"), ("y", "f4", (2, 2))])]),
    "titles": np.zeros(2, dtype=[(("a title", "a"), "f4")]),
    "wide-record": np.zeros(1, dtype=[(f"a_rather_long_field_name_{n}", "f8") for n in range(2000)]),
    "unicode-field": np.zeros(1, dtype=[("größe", "f8")]),
    "strided": np.arange(20)[::3],
    "negative-stride": np.arange(5)[::-1],
    "broadcast": np.broadcast_to(np.arange(3), (2, 3)),
    "five-dim": np.arange(32).reshape(2, 2, 2, 2, 2).transpose(4, 1, 0, 3, 2),
    "zero-width": np.array(["", ""]),
    "nan-payload": np.array([0x7FF8000000000123], dtype="u8").view("f8"),
}

MASKED: Any = np.ma.masked_array([1, 2], mask=[True, False])
WITH_METADATA = np.zeros(2, dtype=np.dtype("f8", metadata={"unit": "m"}))

ELSEWHERE = {
    "matrix": np.array([[1, 2]]).view(np.matrix),  # the constructor warns
    "masked": MASKED,
    "recarray": RECORDS.view(np.recarray),
    "objects": np.array([1, "a", None], dtype=object),
    "object-field": np.array([(1, None)], dtype=[("a", "i4"), ("o", object)]),
    "metadata": WITH_METADATA,
    "aligned": ALIGNED,
    "strings": np.array(["a", "bb" * 40], dtype=np.dtypes.StringDType()),
    "np.float64": np.float64(3),
    "np.int8": np.int8(-3),
    "np.str_": np.str_("x"),
    "np.bool": np.bool_(True),
    "np.datetime64": np.datetime64("2020-01-01", "s"),
    "np.void": RECORDS[0],
    "dtype": np.dtype(">f8"),
    "generator": np.random.default_rng(3),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_come_back_exactly(array: Any, through: Any) -> None:
    codec, loaded = through(array)
    assert codec == "npy"
    assert type(loaded) is np.ndarray
    assert loaded.dtype == array.dtype
    assert loaded.shape == array.shape
    assert loaded.flags.f_contiguous == array.flags.f_contiguous or not array.flags.forc
    assert bits_equal(array, loaded)
    assert loaded.flags.writeable


@pytest.mark.parametrize("value", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_npy_would_change_goes_to_pickle(value: Any, through: Any) -> None:
    codec, loaded = through(value)
    assert codec == "pickle"
    assert type(loaded) is type(value)
    assert difference(value, loaded) is None


def test_a_memory_map_is_not_taken_for_an_array(tmp_path: Any, through: Any) -> None:
    mapped = np.memmap(tmp_path / "m", dtype="f8", mode="w+", shape=(3,))
    assert not NPY.accepts(mapped)
    codec, loaded = through(mapped)
    assert codec == "pickle"
    assert np.array_equal(loaded, mapped)


def test_anyone_can_read_the_file_without_pickle(written: Any) -> None:
    loaded = np.load(written(NPY, ARRAYS["records"]), allow_pickle=False)
    assert loaded.dtype == RECORDS.dtype


def test_a_read_only_array_comes_back_writable(through: Any) -> None:
    array = np.arange(3)
    array.flags.writeable = False
    _, loaded = through(array)
    loaded[0] = 7
    assert loaded[0] == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros(2, dtype="f4")),
        (np.zeros(2), np.zeros(2, dtype=">f8")),
        (np.array([0.0]), np.array([-0.0])),
        (np.array([np.nan]), ARRAYS["nan-payload"]),
        (np.arange(4).reshape(2, 2), np.asfortranarray(np.arange(4).reshape(2, 2))),
        (np.zeros(3, dtype="M8[s]"), np.zeros(3, dtype="M8[ms]")),
        (ALIGNED, ALIGNED.astype(np.dtype([("a", "i1"), ("b", "f8")]))),
        (np.zeros(2), WITH_METADATA),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (
            np.arange(10_000_000, dtype="u1"),
            np.arange(10_000_000, dtype="u1") ^ (np.arange(10_000_000) == 9_999_999),
        ),
    ],
)
def test_is_same_catches_a_broken_load(one: Any, other: Any) -> None:
    assert not NPY.is_same(one, other)


def test_is_same_catches_a_subclass() -> None:
    assert not NPY.is_same(np.zeros(1), np.zeros(1).view(np.recarray))


def test_padding_between_fields_does_not_count() -> None:
    noisy = np.frombuffer(b"\xff" * 48, dtype="u1").copy().view(ALIGNED.dtype)
    quiet = np.zeros(3, dtype=ALIGNED.dtype)
    for array in (noisy, quiet):
        array["a"], array["b"] = 1, 2.0
    assert noisy.tobytes() != quiet.tobytes()
    assert array_difference(noisy, quiet) is None


def test_a_large_array_is_never_copied_whole() -> None:
    array = np.ones(8_000_000)  # 64 MB

    class Nowhere:
        def write(self, data: Any) -> None:
            self.last = len(data)

    tracemalloc.start()
    try:
        NPY.save(array, ForwardFile(Nowhere()), SaveContext())  # type: ignore[arg-type]
        assert bits_equal(array, array)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes


@pytest.mark.parametrize("cut", [1, 60, -1])
def test_a_shortened_file_does_not_load(cut: int, written: Any) -> None:
    data = written(NPY, np.arange(100)).getvalue()[:cut]
    with pytest.raises(ValueError, match=r".+"):
        NPY.load(io.BytesIO(data), 1)


dtypes = npst.scalar_dtypes() | npst.array_dtypes() | npst.byte_string_dtypes() | npst.unicode_string_dtypes()


@settings(max_examples=150, deadline=None)
@given(data=st.data(), fortran=st.booleans())
def test_any_array_comes_back(data: st.DataObject, fortran: bool, through: Any) -> None:
    dtype = data.draw(dtypes)
    array = data.draw(npst.arrays(dtype, npst.array_shapes(min_dims=0, max_side=4, min_side=0)))
    array = np.asfortranarray(array) if fortran and array.ndim else array
    codec, loaded = through(array)
    assert codec == "npy"
    assert array_difference(array, loaded) is None
