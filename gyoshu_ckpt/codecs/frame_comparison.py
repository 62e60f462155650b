"""Whether two pandas objects are the same in everything that a program could notice.

Stricter than ``equals`` and ``assert_frame_equal``: None, NaN, NaT and ``pd.NA`` differ; 0.0 and -0.0 differ;
the order of categories, the kind of a time zone, the storage of strings, the ``freq`` of an index, the levels
of a MultiIndex, ``attrs`` and flags all count. Columns are compared as whole arrays; only object columns are
walked.

Not compared: the sign and payload of a NaN, which to pandas is a missing value (0/0 makes negative ones); how
columns are grouped into blocks; cached properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gyoshu_ckpt.codecs import arrays, comparison
from gyoshu_ckpt.codecs.arrow_tables import same_column

if TYPE_CHECKING:
    import pandas as pd

_PLAIN = (str, int, bool, bytes)  # of exactly these types, equality is identity enough


def frames_identical(one: Any, other: Any) -> bool:
    """Whether two DataFrames, Series or Indexes are the same."""
    return frame_difference(one, other) is None


def frame_difference(one: Any, other: Any) -> str | None:
    """None if two DataFrames, Series or Indexes are the same; else the first difference."""
    import pandas as pd

    if type(one) is not type(other):
        return f"it came back as {type(other).__name__}"
    if isinstance(one, pd.Index):
        return index_difference(one, other, "the index")
    if one.shape != other.shape:
        return f"the shape {one.shape} came back as {other.shape}"
    found = index_difference(one.index, other.index, "the index")
    if found is None and comparison.difference(one.attrs, other.attrs) is not None:
        found = "attrs came back changed"
    if found is None and one.flags.allows_duplicate_labels != other.flags.allows_duplicate_labels:
        found = "the flag allows_duplicate_labels came back changed"
    if found is not None:
        return found
    if isinstance(one, pd.Series):
        if comparison.difference(one.name, other.name) is not None:
            return f"the name {one.name!r} came back as {other.name!r}"
        return array_difference(one.array, other.array, "the series")
    return index_difference(one.columns, other.columns, "the column labels") or _columns_difference(
        one, other
    )


def index_difference(one: pd.Index[Any], other: pd.Index[Any], what: str) -> str | None:
    """None if two indexes are the same in kind, names, freq and values."""
    import pandas as pd

    if type(one) is not type(other):
        return f"{what} was a {type(one).__name__} and came back as a {type(other).__name__}"
    if comparison.difference(list(one.names), list(other.names)) is not None:
        return f"the name of {what} came back changed"
    if isinstance(one, pd.RangeIndex):
        same = comparison.same_atom(range(one.start, one.stop, one.step), _range(other))
        return None if same else f"{what} came back with other bounds"
    if isinstance(one, pd.MultiIndex):
        return _multi_index_difference(one, other, what)
    freq, other_freq = getattr(one, "freq", None), getattr(other, "freq", None)
    if type(freq) is not type(other_freq) or freq != other_freq:
        return f"{what} came back without its freq"
    return array_difference(one.array, other.array, what)


def dtype_difference(one: Any, other: Any, what: str) -> str | None:
    """None if two dtypes are the same, also in what pandas' ``==`` overlooks."""
    import numpy as np
    import pandas as pd

    changed = f"{what}: dtype {one!r} came back as {other!r}"
    if type(one) is not type(other):
        return changed
    if isinstance(one, np.dtype):
        return None if arrays.dtype_difference(one, other) is None else changed
    if isinstance(one, pd.CategoricalDtype):  # == takes unordered categories in any order
        if one.ordered is not other.ordered or (one.categories is None) != (other.categories is None):
            return changed
        if one.categories is None:
            return None
        return index_difference(one.categories, other.categories, f"{what}: the index of categories")
    same = one == other and repr(one) == repr(other)
    if isinstance(one, pd.StringDtype):  # == overlooks the storage in some versions, and so does repr
        same = same and one.storage == other.storage and repr(one.na_value) == repr(other.na_value)
    if isinstance(one, pd.DatetimeTZDtype):  # UTC of datetime, zoneinfo and pytz are equal to pandas
        same = same and type(one.tz) is type(other.tz) and repr(one.tz) == repr(other.tz)
    return None if same else changed


def array_difference(one: Any, other: Any, what: str) -> str | None:
    """None if two pandas arrays have the same dtype and values."""
    import numpy as np
    import pandas as pd

    one, other = (a.to_numpy() if isinstance(a, pd.arrays.NumpyExtensionArray) else a for a in (one, other))
    found = dtype_difference(one.dtype, other.dtype, what)
    if found is not None:
        return found
    if len(one) != len(other):
        return f"{what} came back with another length"
    dtype = one.dtype
    changed = f"{what} came back with other values"
    if isinstance(dtype, pd.CategoricalDtype):
        return None if arrays.bits_equal(one.codes, other.codes) else changed
    if hasattr(one, "asi8"):  # points and spans of time
        return None if arrays.bits_equal(one.asi8, other.asi8) else changed
    if isinstance(dtype, np.dtype) and not dtype.hasobject:
        return None if arrays.bits_equal(one, other, any_nan=True) else changed
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"):
        return None if same_column(one.__arrow_array__(), other.__arrow_array__()) else changed
    if isinstance(dtype, pd.IntervalDtype):
        return index_difference(one.left, other.left, what) or index_difference(one.right, other.right, what)
    if isinstance(one, (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)):
        return None if _same_masked(one, other) else changed
    found = _elements_difference(one.astype(object), other.astype(object))
    return None if found is None else f"{what}: {found}"


def _columns_difference(one: pd.DataFrame, other: pd.DataFrame) -> str | None:
    for position, label in enumerate(one.columns):  # by position: labels may be there twice
        pair = (one.iloc[:, position].array, other.iloc[:, position].array)
        found = array_difference(*pair, f"column {label!r}")
        if found is not None:
            return found
    return None


def _multi_index_difference(one: Any, other: Any, what: str) -> str | None:
    if one.nlevels != other.nlevels:
        return f"{what} came back with {other.nlevels} levels"
    for number in range(one.nlevels):  # levels, not only values: unused ones show in unstack and groupby
        found = index_difference(one.levels[number], other.levels[number], f"level {number} of {what}")
        if found is not None:
            return found
        codes = (one.codes[number], other.codes[number])
        if codes[0].dtype != codes[1].dtype or not arrays.bits_equal(*codes):
            return f"level {number} of {what} came back with other values"
    return None


def _same_masked(one: Any, other: Any) -> bool:
    """Nullable numbers: where they are missing, and the bits where they are not."""
    import numpy as np

    missing, other_missing = one.isna(), other.isna()
    if not np.array_equal(missing, other_missing):
        return False
    plain = one.dtype.numpy_dtype
    filler = plain.type(0)
    values = [array.to_numpy(dtype=plain, na_value=filler) for array in (one, other)]
    return arrays.bits_equal(*values, any_nan=True)


def _elements_difference(one: Any, other: Any) -> str | None:
    for position, (a, b) in enumerate(zip(one, other, strict=True)):
        if a is b:
            continue
        kind = type(a)
        if kind is type(b) and kind in _PLAIN:
            if a == b:
                continue
            return f"the value in row {position} came back changed"
        found = comparison.difference(a, b)
        if found is not None:
            return f"the value in row {position}: {found}"
    return None


def _range(index: Any) -> range:
    return range(index.start, index.stop, index.step)
