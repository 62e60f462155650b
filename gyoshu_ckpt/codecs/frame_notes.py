"""What parquet forgets of a pandas object, noted beside it in the schema's metadata and mended after reading.

Arrow's own pandas metadata keeps most. Noted here is the rest that is common and can be mended exactly: UTC
that was ``datetime.timezone.utc``, seconds resolution, object columns and labels, the storage of strings,
categories that are no strings, the ``freq`` of an index, a range as column labels. Notes are typed fields,
never code.

Whether the mending worked is not decided here: the proof after every save compares everything.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Note = dict[str, Any]

_MOST_CATEGORIES = 10_000  # more of them do not belong into a file's footer


def notes_of(frame: pd.DataFrame) -> Note:
    """The notes for a frame; JSON-able."""
    return {
        "columns": {
            str(position): note
            for position, dtype in enumerate(frame.dtypes)
            if (note := _note_of_dtype(dtype)) is not None
        },
        "index": _note_of_index(frame.index),
        "labels": _note_of_index(frame.columns),
        "allowsDuplicateLabels": bool(frame.flags.allows_duplicate_labels),
    }


def mend(frame: Any, notes: Note) -> Any:
    """Give a frame that came out of parquet what the notes say of it."""
    for position, note in notes["columns"].items():
        column = frame.iloc[:, int(position)]
        mended = _mended(column, note)
        if mended is not column:
            frame.isetitem(int(position), mended)
    frame.index = _mended_index(frame.index, notes["index"])
    frame.columns = _mended_index(frame.columns, notes["labels"])
    if not notes["allowsDuplicateLabels"]:
        frame.flags.allows_duplicate_labels = False
    return frame


def _note_of_dtype(dtype: Any) -> Note | None:
    import numpy as np
    import pandas as pd

    if isinstance(dtype, np.dtype):
        if dtype.hasobject:
            return {"kind": "object"}
        return {"kind": "numpy", "dtype": dtype.str} if dtype.kind in "mM" else None
    if isinstance(dtype, pd.DatetimeTZDtype):
        return {"kind": "utc"} if dtype.tz is datetime.UTC else None
    if isinstance(dtype, pd.StringDtype):
        return {"kind": "string", "storage": dtype.storage, "nan": dtype.na_value is not pd.NA}
    if isinstance(dtype, pd.ArrowDtype):
        name = str(dtype.pyarrow_dtype)
        return {"kind": "arrow", "type": name} if name in {"string", "large_string"} else None
    return _note_of_categories(dtype) if isinstance(dtype, pd.CategoricalDtype) else None


def _note_of_categories(dtype: pd.CategoricalDtype) -> Note | None:
    import numpy as np

    values: Any = dtype.categories
    plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb"
    if not plain or len(values) > _MOST_CATEGORIES:
        return None  # strings are Arrow's business; for other kinds the proof decides
    span = _span(values)
    return {
        "kind": "category",
        "values": values.tolist() if span is None else None,
        "range": span,
        "dtype": values.dtype.str,
        "ordered": bool(dtype.ordered),
    }


def _note_of_index(index: Any) -> Note:
    import pandas as pd

    if isinstance(index, (pd.RangeIndex, pd.MultiIndex)):
        return {"dtype": None, "freq": None, "range": _span(index)}
    # A PeriodIndex has its freq in its dtype.
    freq: Any = index.freq if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) else None
    return {
        "dtype": _note_of_dtype(index.dtype),
        "freq": None if freq is None else freq.freqstr,
        "range": None,
    }


def _span(index: Any) -> list[int] | None:
    import pandas as pd

    return [index.start, index.stop, index.step] if isinstance(index, pd.RangeIndex) else None


def _mended_index(index: Any, note: Note) -> Any:
    import pandas as pd

    if note["range"] is not None:  # Arrow keeps it for rows; of column labels it makes a list
        start, stop, step = note["range"]
        return pd.RangeIndex(start, stop, step, name=index.name)
    if note["dtype"] is not None:
        index = _mended(index, note["dtype"])
    if note["freq"] is not None:
        index.freq = note["freq"]
    return index


def _mended(data: Any, note: Note) -> Any:
    """A Series or Index with the dtype that was noted; ``data`` itself if it has it already."""
    import pandas as pd

    if note["kind"] == "object":
        if data.dtype.kind == "O" and not isinstance(data.dtype, pd.api.extensions.ExtensionDtype):
            return data
        # Arrow read strings or numbers into a type of their own. What was null in an object column was None.
        plain = data.astype(object)
        return plain.where(data.notna(), None) if data.hasnans else plain
    if note["kind"] == "utc":
        return (data.dt if isinstance(data, pd.Series) else data).tz_convert(datetime.UTC)
    target = _noted_dtype(note)
    return data if repr(data.dtype) == repr(target) else data.astype(target)


def _noted_dtype(note: Note) -> Any:
    import numpy as np
    import pandas as pd

    if note["kind"] == "category":
        span = note["range"]
        values = pd.Index(note["values"], dtype=note["dtype"]) if span is None else pd.RangeIndex(*span)
        return pd.CategoricalDtype(values, ordered=note["ordered"])
    if note["kind"] == "string":
        return pd.StringDtype(note["storage"], na_value=np.nan if note["nan"] else pd.NA)
    if note["kind"] == "arrow":
        import pyarrow as pa

        return pd.ArrowDtype(pa.string() if note["type"] == "string" else pa.large_string())
    return np.dtype(note["dtype"])
