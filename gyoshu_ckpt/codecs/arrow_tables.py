"""Arrow tables and record batches as Arrow IPC files, uncompressed: fast to write and exact.

Kept: schema with all its metadata, dictionary types, every value. Not kept: how a column is cut into chunks,
and which slot of a dictionary a value has, because neither is part of the data.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from gyoshu_ckpt.codecs.interface import Codec, SaveContext, instance_of

_KIND = b"gyoshu:kind"  # a key of the schema's metadata, taken out again on load


class ArrowCodec(Codec):
    """``pyarrow.Table`` and ``pyarrow.RecordBatch``."""

    name = "arrow"
    suffixes = (".arrow", ".feather")
    media_type = "application/vnd.apache.arrow.file"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Exactly a Table or a RecordBatch."""
        return instance_of(value, "pyarrow", "Table", "RecordBatch")

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Batch by batch; no copy of the table is made."""
        import pyarrow as pa

        is_table = isinstance(value, pa.Table)
        # The file format allows one dictionary per column, so that chunks have to agree on it.
        table = (value if is_table else pa.Table.from_batches([value])).unify_dictionaries()
        metadata = {**(value.schema.metadata or {}), _KIND: b"table" if is_table else b"batch"}
        schema = table.schema.with_metadata(metadata)
        with pa.ipc.new_file(file, schema) as writer:
            writer.write_table(table.replace_schema_metadata(metadata))

    def load(self, file: BinaryIO, version: int) -> Any:
        """The whole file into memory."""
        import pyarrow as pa

        table = pa.ipc.open_file(file).read_all()
        metadata = dict(table.schema.metadata)
        kind = metadata.pop(_KIND)
        table = table.replace_schema_metadata(metadata or None)
        if kind == b"table":
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Schema with metadata, then column by column."""
        if type(original) is not type(loaded):
            return f"it came back as {type(loaded).__name__}"
        if not original.schema.equals(loaded.schema, check_metadata=True):
            return "its schema came back changed"
        if original.num_rows != loaded.num_rows:
            return f"{original.num_rows} rows came back as {loaded.num_rows}"
        for name, one, other in zip(original.schema.names, original.columns, loaded.columns, strict=True):
            if not same_column(one, other):
                return f"column {name!r} came back changed"
        return None


def same_column(one: Any, other: Any) -> bool:
    """Whether two Arrow arrays hold the same values and nulls; unlike Arrow, to it NaN is NaN."""
    import pyarrow as pa

    if one.type != other.type or len(one) != len(other):
        return False
    if isinstance(one, pa.ChunkedArray):
        one, other = _as_one(one), _as_one(other)
    kind = one.type
    if isinstance(kind, pa.BaseExtensionType):
        return same_column(one.storage, other.storage)
    if pa.types.is_floating(kind):  # before asking for equality: 0.0 equals -0.0
        integers = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return bool(one.view(integers).equals(other.view(integers)))
    if pa.types.is_dictionary(kind):
        return same_column(one.dictionary_decode(), other.dictionary_decode())
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return same_column(one.cast(entries), other.cast(entries))
    if pa.types.is_struct(kind):
        return bool(one.is_null().equals(other.is_null())) and all(
            same_column(a, b) for a, b in zip(one.flatten(), other.flatten(), strict=True)
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = [array.value_lengths() for array in (one, other)]
        return bool(lengths[0].equals(lengths[1])) and same_column(one.flatten(), other.flatten())
    return bool(one.equals(other))


def _as_one(column: Any) -> Any:
    combined = column.combine_chunks()
    # A string column above 2 GB stays chunked whatever one asks for; unequal chunking is then no proof.
    return combined.chunk(0) if getattr(combined, "num_chunks", 0) == 1 else combined


ARROW = ArrowCodec()
