"""NumPy arrays as ``.npy``, never with pickle inside.

Rules
1. Exactly ``numpy.ndarray``: a subclass (matrix, recarray, masked, memory map) and an array of objects belong
   to the pickle codec. So do NumPy scalars.
2. Kept: dtype with byte order and field layout, shape, C or Fortran order, every bit of every value (NaN
   payloads too). Strided views are written in C order.
3. Arrays come back writable. The read-only flag is not kept: pandas hands out read-only arrays everywhere,
   and a stage that assigns into its own restored array must not fail.
4. Written and compared in chunks: a large array is in memory twice during the proof, never three times.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO

from gyoshu_ckpt.codecs.interface import CannotEncode, Codec, SaveContext, instance_of

if TYPE_CHECKING:
    import numpy as np

_CHUNK_BYTES = 16 * 2**20


class NpyCodec(Codec):
    """One array in NumPy's own format."""

    name = "npy"
    suffixes = (".npy",)
    media_type = "application/x-npy"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Exactly an ndarray, without Python objects in it."""
        return instance_of(value, "numpy", "ndarray") and not value.dtype.hasobject

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Header, then the bytes in chunks."""
        from numpy.lib import format as npy

        if value.dtype.metadata:
            raise CannotEncode("its dtype has metadata, which .npy drops")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # long field lists need version 2 of the format
            npy.write_array(file, value, allow_pickle=False)

    def load(self, file: BinaryIO, version: int) -> Any:
        """Read into a new, writable array."""
        from numpy.lib import format as npy

        # numpy allows 10,000 characters of header for fear of its parser; a wide structured dtype has more.
        return npy.read_array(file, allow_pickle=False, max_header_size=2**20)

    def difference(self, original: Any, loaded: Any) -> str | None:
        """Layout and bits."""
        if type(original) is not type(loaded):
            return f"it came back as {type(loaded).__name__}"
        return array_difference(original, loaded)


def array_difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> str | None:
    """None if two arrays without objects have the same dtype, shape, order and bits."""
    found = dtype_difference(one.dtype, other.dtype)
    if found is not None:
        return found
    if one.shape != other.shape:
        return f"the shape {one.shape} came back as {other.shape}"
    if _only_fortran(one) != _only_fortran(other):
        return "Fortran order was lost"
    return None if bits_equal(one, other) else "values came back changed"


def dtype_difference(one: np.dtype[Any], other: np.dtype[Any]) -> str | None:
    """None if two dtypes are the same, also in what ``==`` overlooks."""
    same = one == other and one.isalignedstruct == other.isalignedstruct and one.metadata == other.metadata
    return None if same else f"the dtype {one} came back as {other}"


def bits_equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], *, any_nan: bool = False) -> bool:
    """Whether arrays of the same dtype and shape hold the same bits, whatever their strides.

    ``any_nan``: every NaN counts as the same, for those to whom it means "missing".
    """
    import numpy as np

    if one.dtype.names is not None:  # field by field: the padding between fields may be anything
        return all(bits_equal(one[field], other[field]) for field in one.dtype.names)
    width = one.dtype.itemsize
    if width == 0 or one.size == 0:
        return True
    word = np.dtype(f"u{math.gcd(width, 8)}")  # the widest words that fit: eight times faster than bytes
    if one.flags.f_contiguous and other.flags.f_contiguous:
        one, other = one.T, other.T
    if one.flags.c_contiguous and other.flags.c_contiguous:
        one, other = one.reshape(-1), other.reshape(-1)  # views; chunks of them are, too
    rows = max(_CHUNK_BYTES // (width * math.prod(one.shape[1:])), 1)
    for start in range(0, len(one), rows):
        left, right = (np.ascontiguousarray(array[start : start + rows]) for array in (one, other))
        if np.array_equal(left.view(word), right.view(word)):
            continue
        if not any_nan or left.dtype.kind != "f":
            return False
        numbers = ~(np.isnan(left) & np.isnan(right))
        if not np.array_equal(left[numbers].view(word), right[numbers].view(word)):
            return False
    return True


def _only_fortran(array: np.ndarray[Any, Any]) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


NPY = NpyCodec()
