"""Data frames and series as parquet: pandas (`PARQUET`) and polars (`POLARS`).

Rules
1. Exactly the library's own classes: what a subclass adds, parquet would lose.
2. Dictionary encoding stays on (without it the order of categories changes) and pages carry checksums.
3. What parquet forgets is noted and mended (`frame_notes`); what cannot be mended is found by the proof
   (`frame_comparison`), and the value goes to the pickle codec: mixed object columns, complex and sparse
   columns, duplicate labels, None beside NaN, unused levels of a MultiIndex, pytz zones, ….
4. A Series is a table of one column, and the notes say that it is a Series.

Not handled: polars' lazy frames (they are plans, not data) and its object columns.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, BinaryIO

from gyoshu_ckpt.codecs import frame_comparison, frame_notes
from gyoshu_ckpt.codecs.arrow_tables import same_column
from gyoshu_ckpt.codecs.interface import CannotEncode, Codec, SaveContext, instance_of

_NOTES = b"gyoshu:notes"
_UNNAMED = "value"  # the column of a series whose name is no string


class ParquetCodec(Codec):
    """``pandas.DataFrame`` and ``pandas.Series``."""

    name = "parquet"
    suffixes = (".parquet",)
    media_type = "application/vnd.apache.parquet"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Exactly a DataFrame or a Series."""
        return instance_of(value, "pandas", "DataFrame", "Series")

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Table, notes, file."""
        import pandas as pd
        import pyarrow as pa
        import pyarrow.parquet as pq

        frame, series = (value, None) if isinstance(value, pd.DataFrame) else _as_frame(value)
        if not frame.columns.is_unique:
            raise CannotEncode(f"parquet cannot hold two columns named {_first_twice(frame.columns)!r}")
        with warnings.catch_warnings():
            # Arrow says "will not roundtrip" in a warning; for us that is a refusal.
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message="(?s).*(roundtrip|Could not serialize)")
            table = pa.Table.from_pandas(frame)
        notes = json.dumps({"frame": frame_notes.notes_of(frame), "series": series})
        table = table.replace_schema_metadata({**table.schema.metadata, _NOTES: notes.encode()})
        pq.write_table(table, file, use_dictionary=True, write_page_checksum=True)

    def load(self, file: BinaryIO, version: int) -> Any:
        """Read, mend, and make a Series of it if it was one."""
        import pyarrow.parquet as pq

        table = pq.ParquetFile(file, page_checksum_verification=True).read()
        notes = json.loads(table.schema.metadata[_NOTES])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = frame_notes.mend(table.to_pandas(), notes["frame"])
        if notes["series"] is None:
            return frame
        series = frame.iloc[:, 0].copy(deep=False)
        series.name = notes["series"]["name"]
        series.attrs = frame.attrs
        series.flags.allows_duplicate_labels = frame.flags.allows_duplicate_labels
        return series

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Everything that a program could notice."""
        return frame_comparison.frame_difference(original, loaded)


class PolarsCodec(Codec):
    """``polars.DataFrame`` and ``polars.Series``."""

    name = "polars"
    suffixes = (".parquet",)
    media_type = "application/vnd.apache.parquet"
    priority = 110

    def accepts(self, value: Any) -> bool:
        """Exactly a DataFrame or a Series."""
        return instance_of(value, "polars", "DataFrame", "Series")

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """With polars' own writer, which knows its types."""
        import polars as pl

        is_series = isinstance(value, pl.Series)
        frame = value.to_frame() if is_series else value
        if frame.width == 0 and frame.height:
            raise CannotEncode("parquet cannot count the rows of a frame without columns")
        notes = json.dumps({"series": is_series})
        frame.write_parquet(file, metadata={_NOTES.decode(): notes})

    def load(self, file: BinaryIO, version: int) -> Any:
        """With polars' own reader."""
        import polars as pl

        notes = json.loads(pl.read_parquet_metadata(file)[_NOTES.decode()])
        file.seek(0)
        frame = pl.read_parquet(file)
        return frame.to_series() if notes["series"] else frame

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Schema, then bits."""
        import polars as pl

        if type(original) is not type(loaded):
            return f"it came back as {type(loaded).__name__}"
        pair = [v.to_frame() if isinstance(v, pl.Series) else v for v in (original, loaded)]
        if pair[0].schema != pair[1].schema or pair[0].columns != pair[1].columns:
            return "its schema came back changed"
        if pair[0].shape != pair[1].shape:
            return f"the shape {pair[0].shape} came back as {pair[1].shape}"
        for name in pair[0].columns:
            one, other = (frame.get_column(name) for frame in pair)
            if not _same_polars_column(one, other):
                return f"column {name!r} came back changed"
        return None


def _as_frame(series: Any) -> tuple[Any, dict[str, Any]]:
    name = series.name
    if not (name is None or type(name) in (str, int)):
        raise CannotEncode(f"its name {name!r} is neither a str nor an int")
    frame = series.to_frame(name if type(name) is str else _UNNAMED)
    frame.attrs = series.attrs
    frame.flags.allows_duplicate_labels = series.flags.allows_duplicate_labels
    return frame, {"name": name}


def _first_twice(labels: Any) -> Any:
    return labels[labels.duplicated()][0]


def _same_polars_column(one: Any, other: Any) -> bool:
    import polars as pl

    if one.dtype == pl.Categorical or one.dtype == pl.Enum:
        # The numbers behind categories belong to the process, not to the data.
        one, other = one.cast(pl.String), other.cast(pl.String)
    return same_column(one.to_arrow(), other.to_arrow())


PARQUET = ParquetCodec()
POLARS = PolarsCodec()
