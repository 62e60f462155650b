"""Whether a value that was read back is the value that was saved, for values of any kind.

Equality cannot be asked of the values: ``1 == True``, ``nan != nan``, and an ``__eq__`` may raise, return an
array or have effects. So the walk looks at what pickle looks at:

1. builtin values by type and bits; lists, tuples, dicts (with their order) and sets by their members;
2. arrays by dtype, shape and bytes;
3. any other object by its type and by what its class gives to pickle (``__reduce_ex__``): what a class leaves
   out on purpose (a cache, a lock) is not missed;
4. an object that was in two places has to be one object in two places again;
5. a value that differs from *itself* by these rules (its class puts a time or a random number in its pickle)
   cannot be compared and is accepted by its type.

Not handled: two arrays that are views of the same memory come back as two arrays.
"""

from __future__ import annotations

import copyreg
import struct
import types
from collections.abc import Iterable, Iterator
from typing import Any

from gyoshu_ckpt.codecs.interface import instance_of, type_name

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range)
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType)

_Pair = tuple[Any, Any, str]


def difference(original: Any, loaded: Any) -> str | None:
    """None if the two are the same; else the first difference found, as the end of a sentence."""
    found = _first_difference(original, loaded, itself=False)
    if found is not None and _first_difference(original, original, itself=True) is not None:
        return None  # rule 5
    return found


def same_atom(one: Any, other: Any) -> bool:
    """Whether two values of the same builtin type are the same, down to the bits of a NaN."""
    return bool(_atom_key(one) == _atom_key(other))


def _first_difference(original: Any, loaded: Any, *, itself: bool) -> str | None:
    pending: list[_Pair] = [(original, loaded, "it")]  # a list, not recursion: nesting may be deep
    partner: dict[int, Any] = {}
    alive: list[Any] = []  # what __reduce_ex__ made must live on, or its id would be given to another
    while pending:
        one, other, where = pending.pop()
        if one is other and (not itself or isinstance(one, _BY_NAME)):
            continue
        if not _same_class(type(one), type(other)):
            return f"{where} was of type {type_name(one)} and came back as {type_name(other)}"
        if type(one) in _ATOMS:
            if not same_atom(one, other):
                return f"{where} came back with another value"
            continue
        if isinstance(one, _BY_NAME):
            if not _same_definition(one, other):
                return f"{where} came back as another {type_name(one)}"
            continue
        if id(one) in partner:
            if partner[id(one)] is not other and _is_mutable(one):
                return f"{where} was shared with another place and came back as a copy"
            if partner[id(one)] is other:
                continue
        partner[id(one)] = other
        alive += (one, other)
        members = _members(one, other, where)
        if isinstance(members, str):
            return members
        pending.extend(members)
    return None


def _members(one: Any, other: Any, where: str) -> str | Iterable[_Pair]:
    """The pairs to look at next, or a difference."""
    kind = type(one)
    if kind is list or kind is tuple:
        if len(one) != len(other):
            return f"{where} had {len(one)} items and came back with {len(other)}"
        return ((a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
    if kind is dict:
        if len(one) != len(other):
            return f"{where} had {len(one)} keys and came back with {len(other)}"
        return _dict_pairs(one, other, where)
    if kind is set or kind is frozenset:
        return () if _same_set(one, other) else f"{where} came back with other members"
    if kind is bytearray:
        return () if one == other else f"{where} came back with other bytes"
    if instance_of(one, "numpy", "ndarray"):
        return _array_members(one, other, where)
    if instance_of(one, "numpy.ma", "MaskedArray"):  # its pickle fills in the default fill_value
        return [(getattr(one, part), getattr(other, part), where) for part in ("data", "mask", "fill_value")]
    return _object_members(one, other, where)


def _dict_pairs(one: dict[Any, Any], other: dict[Any, Any], where: str) -> Iterator[_Pair]:
    for (key, value), (other_key, other_value) in zip(one.items(), other.items(), strict=True):
        label = f"{where}[{key!r}]" if type(key) in _ATOMS else f"{where}[…]"
        yield key, other_key, f"a key of {where}"
        yield value, other_value, label


def _array_members(one: Any, other: Any, where: str) -> str | Iterable[_Pair]:
    from gyoshu_ckpt.codecs import arrays

    if not one.dtype.hasobject:
        found = arrays.array_difference(one, other)
        return () if found is None else f"{where}: {found}"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{where} came back with another shape or dtype"
    return [(one.ravel().tolist(), other.ravel().tolist(), where)]


def _object_members(one: Any, other: Any, where: str) -> str | Iterable[_Pair]:
    pieces, other_pieces = _reduced(one), _reduced(other)
    if pieces is None or other_pieces is None:
        return ()  # only cloudpickle knows this kind; it was loaded and has the right type
    return [(a, b, where) for a, b in zip(pieces, other_pieces, strict=True)]


def _reduced(value: Any) -> list[Any] | None:
    """The pieces of which pickle would build ``value`` again."""
    reducer = copyreg.dispatch_table.get(type(value))
    try:
        made: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        if isinstance(made, str):
            return [made, None, None, None, None, None]
        pieces = [*made, None, None, None, None][:6]
        return [list(p) if i in (3, 4) and p is not None else p for i, p in enumerate(pieces)]
    except Exception:  # user code, or a kind that plain pickle refuses
        return None


def _is_mutable(value: Any) -> bool:
    """Whether anyone could notice that ``value`` is no longer shared. What has no state cannot change."""
    if isinstance(value, (list, dict, set, bytearray)) or instance_of(
        value, "numpy", "ndarray", exactly=False
    ):
        return True
    pieces = None if isinstance(value, (tuple, frozenset)) else _reduced(value)
    return pieces is not None and any(piece is not None for piece in pieces[2:5])


def _same_class(one: type, other: type) -> bool:
    """The same class, or the copy that a by-value pickle made of it (without its ``__qualname__``)."""
    return one is other or (one.__module__, one.__name__) == (other.__module__, other.__name__)


def _same_definition(one: Any, other: Any) -> bool:
    if isinstance(one, types.FunctionType):
        return bool(one.__qualname__ == other.__qualname__ and one.__code__ == other.__code__)
    if isinstance(one, type):
        return _same_class(one, other)
    return bool(one == other)


def _same_set(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    atoms = {_atom_key(member) for member in one if type(member) in _ATOMS}
    if atoms != {_atom_key(member) for member in other if type(member) in _ATOMS}:
        return False
    # Members of other kinds have no order to be paired by: their types have to do.
    rest, other_rest = (sorted(type_name(m) for m in s if type(m) not in _ATOMS) for s in (one, other))
    return rest == other_rest


def _atom_key(value: Any) -> Any:
    if type(value) is float:
        return float, struct.pack("<d", value)
    if type(value) is complex:
        return complex, struct.pack("<dd", value.real, value.imag)
    if type(value) is range:
        return range, value.start, value.stop, value.step
    return type(value), value
