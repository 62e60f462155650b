"""What has been done to functions and classes since they were defined: a resume defines them from source, as new.

Kept are a class's own data attributes, global functions that were put in place of its methods, and of a function
its attributes and default values (``def count(cache={})`` remembers; ``def f(k=K)`` means the K of back then).
A part that is the value of a global name is kept as that name, so that it is the same object afterwards too.

Not handled: attributes that were deleted, members of enums, and parts that cannot be saved: those come back as the
source makes them.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_OF_A_FUNCTION = ("__defaults__", "__kwdefaults__")


@dataclass(frozen=True, slots=True)
class GlobalName:
    """Stands for the value of a global name."""

    name: str


def capture(namespace: Mapping[str, Any], names: frozenset[str]) -> dict[str, dict[str, Any]]:
    """By name of the function or class: its parts. Definitions without any are left out."""
    known = {id(value): name for name, value in namespace.items() if not isinstance(value, _PLAIN)}
    state: dict[str, dict[str, Any]] = {}
    for name in sorted(names):
        value = namespace.get(name)
        if getattr(value, "__module__", None) != "__main__":
            continue
        parts: dict[str, Any] = {}
        if isinstance(value, types.FunctionType):
            parts = _parts_of_function(value)
        elif isinstance(value, type) and not issubclass(value, enum.Enum):
            parts = _parts_of_class(value, known)
        if parts:
            state[name] = {part: _by_name(kept, known) for part, kept in parts.items()}
    return state


def apply(namespace: Mapping[str, Any], state: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the parts back where the definitions are."""
    for name, parts in state.items():
        target = namespace.get(name)
        for part, kept in parts.items():
            try:
                value = _resolved(kept, namespace)
            except KeyError:
                continue  # the global is gone: what the source made of it stays
            with suppress(AttributeError, TypeError):  # a metaclass that does not allow it
                setattr(target, part, value)


def _parts_of_function(function: types.FunctionType) -> dict[str, Any]:
    parts = {name: getattr(function, name) for name in _OF_A_FUNCTION if getattr(function, name)}
    return parts | {name: value for name, value in vars(function).items() if name != "__wrapped__"}


def _parts_of_class(kind: type, known: Mapping[int, str]) -> dict[str, Any]:
    parts = {}
    for name, value in vars(kind).items():
        if name.startswith(("__", "_abc_")):
            continue
        is_put_there = isinstance(value, types.FunctionType) and id(value) in known
        if is_put_there or not (hasattr(type(value), "__get__") or isinstance(value, type)):
            parts[name] = value
    return parts


def _by_name(value: Any, known: Mapping[int, str]) -> Any:
    if id(value) in known and not isinstance(value, _PLAIN):
        return GlobalName(known[id(value)])
    if type(value) is tuple:  # defaults come in one
        return tuple(_by_name(each, known) for each in value)
    return value


def _resolved(value: Any, namespace: Mapping[str, Any]) -> Any:
    if isinstance(value, GlobalName):
        return namespace[value.name]
    if type(value) is tuple:
        return tuple(_resolved(each, namespace) for each in value)
    return value
