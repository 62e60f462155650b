"""Everything else: pickle protocol 5 through cloudpickle, and joblib when the user asks for ``.joblib``.

Rules
1. What lives in ``__main__`` and will be defined again by a resume (``context.restorable_globals``) is stored
   by name, so that ``isinstance`` holds afterwards. Everything else of ``__main__`` is stored by value.
2. The proof loads in the same process under two restrictions. It refuses names of ``__main__`` that a resume
   will not have; and by-value classes are built anew, because cloudpickle would otherwise find the living
   class and overwrite its methods and attributes with copies.
3. The same bytes when pickled again are proof enough. If they differ (a set in another order, an interned
   string), the values are compared piece by piece (`comparison`).
4. A figure is stored without its window: pickle would open it in pyplot on load.
5. `JOBLIB` writes what ``joblib.dump`` writes, except where joblib would lose something: then `PICKLE` takes
   the same file name, because ``joblib.load`` reads plain pickles too.

6. A by-value function of the notebook reads the notebook's globals after a resume too.

Not handled: what two *variables* share inside comes back twice (the recorder keeps whole objects one).
"""

from __future__ import annotations

import gc
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from gyoshu_ckpt.codecs import comparison
from gyoshu_ckpt.codecs.interface import CannotEncode, Codec, SaveContext, instance_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PROTOCOL = 5
_COMPARE_BYTES = 2**20

# Makers of by-value classes in cloudpickle, and which argument is the id under which it finds a living class.
_TRACKER_ARGUMENT = {"_make_skeleton_class": 4, "_make_skeleton_enum": 5, "_make_typevar": 5}


class PickleCodec(Codec):
    """Any value that pickle or cloudpickle can store."""

    name = "pickle"
    suffixes = (".pkl", ".pickle", ".joblib")
    media_type = "application/x-pickle"
    trust = "code"
    priority = 1000

    def accepts(self, value: Any) -> bool:
        """Whether it can be stored shows when it is tried."""
        return True

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Straight to the file: large buffers are not copied."""
        _pickler_class()(file, context).dump(value)

    def load(self, file: BinaryIO, version: int) -> Any:
        """Run the pickle."""
        with gc_paused():
            return pickle.Unpickler(file).load()

    def load_for_proof(self, file: BinaryIO, context: SaveContext) -> Any:
        """As :meth:`load` would in the fresh kernel of a resume (rule 2)."""
        with gc_paused():
            return _ProvingUnpickler(file, context).load()

    def prove(self, original: Any, file: BinaryIO, context: SaveContext) -> str | None:
        """Load as a resume would, then pickle again and compare."""
        loaded = self.load_for_proof(file, context)
        if type(original) is type(loaded) and _pickles_to(loaded, file, context):
            return None
        return self.difference(original, loaded)

    def difference(self, original: Any, loaded: Any) -> str | None:
        """By type and by what pickle sees."""
        return comparison.difference(original, loaded)


class JoblibCodec(Codec):
    """What ``joblib.dump`` writes; for those who asked for a ``.joblib`` file."""

    name = "joblib"
    suffixes = (".joblib",)
    media_type = "application/x-joblib"
    trust = "code"
    priority = 900
    only_on_request = True

    def accepts(self, value: Any) -> bool:
        """Whether it can be stored shows when it is tried."""
        return True

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """As ``joblib.dump``, but refusing what a resume could not find by name."""
        _joblib_pickler_class()(file, context).dump(value)

    def load(self, file: BinaryIO, version: int) -> Any:
        """As ``joblib.load``."""
        import joblib

        with gc_paused():
            return joblib.load(file)

    def difference(self, original: Any, loaded: Any) -> str | None:
        """By type and by what pickle sees; joblib copies shared arrays and swaps foreign byte orders."""
        return comparison.difference(original, loaded)


@contextmanager
def gc_paused() -> Iterator[None]:
    """No collection meanwhile: it would walk all that was loaded so far, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_restorable(value: Any, restorable: frozenset[str]) -> bool:
    """Whether ``value`` is the very function or class that ``__main__`` has under a restorable name."""
    qualified = getattr(value, "__qualname__", None)
    if getattr(value, "__module__", None) != "__main__" or not isinstance(qualified, str):
        return False
    first, *rest = qualified.split(".")
    if first not in restorable:
        return False
    found = getattr(sys.modules["__main__"], first, None)
    for name in rest:
        found = getattr(found, name, None)
    return found is value


@cache
def _pickler_class() -> Callable[[BinaryIO, SaveContext], Any]:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
        def __init__(self, file: BinaryIO, context: SaveContext) -> None:
            super().__init__(file, protocol=PROTOCOL)
            self._restorable = context.restorable_globals

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, (type, types.FunctionType)) and is_restorable(value, self._restorable):
                return NotImplemented  # pickle then stores the name
            if instance_of(value, "matplotlib.figure", "Figure", exactly=False):
                return _without_window(value.__reduce_ex__(PROTOCOL))
            reduced = super().reducer_override(value)
            if isinstance(value, types.FunctionType) and isinstance(reduced, tuple):
                return _sharing_globals(value, reduced)
            return reduced

    return Pickler


def _sharing_globals(function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """A by-value function of the notebook goes on reading the notebook's globals, not a copy of them."""
    if function.__globals__ is not vars(sys.modules["__main__"]) or reduced[0].__name__ != "_make_function":
        return reduced
    code, _, _, _, closure = reduced[1]
    state, slots = reduced[2]
    seeds = slots["__globals__"]
    return make_function, (code, closure), (seeds, state, slots | {"__globals__": {}}), None, None, set_state


def make_function(code: types.CodeType, closure: tuple[types.CellType, ...] | None) -> types.FunctionType:
    """A function whose globals are those of the notebook it is loaded into."""
    return types.FunctionType(code, vars(sys.modules["__main__"]), None, None, closure)


def set_state(
    function: types.FunctionType, state: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
) -> None:
    """Fill in the rest. A global that the notebook does not have (yet) is taken from the pickle."""
    from cloudpickle.cloudpickle import _function_setstate

    seeds, attributes, slots = state
    namespace = vars(sys.modules["__main__"])
    for name, value in seeds.items():
        namespace.setdefault(name, value)
    _function_setstate(function, (attributes, slots))


@cache
def _joblib_pickler_class() -> Callable[[BinaryIO, SaveContext], Any]:
    from joblib.numpy_pickle import NumpyPickler

    class Pickler(NumpyPickler):  # type: ignore[misc]  # joblib ships no types
        dispatch = NumpyPickler.dispatch.copy()

        def __init__(self, file: BinaryIO, context: SaveContext) -> None:
            super().__init__(file)
            self._restorable = context.restorable_globals

        def save(self, value: Any, *args: Any, **kwargs: Any) -> Any:
            if instance_of(value, "numpy", "ndarray", exactly=False) and value.dtype.hasobject:
                raise CannotEncode("joblib hides arrays of objects from the check of names")
            return super().save(value, *args, **kwargs)

        def save_global(self, value: Any, name: str | None = None) -> Any:
            if getattr(value, "__module__", None) == "__main__" and not is_restorable(
                value, self._restorable
            ):
                raise CannotEncode(f"joblib stores {name or value!r} by a name that a resume does not have")
            return super().save_global(value, name)

        dispatch[types.FunctionType] = save_global

    return Pickler


class _ProvingUnpickler(pickle.Unpickler):
    """Loads as a fresh kernel would, without touching what lives in this one."""

    def __init__(self, file: BinaryIO, context: SaveContext) -> None:
        super().__init__(file)
        self._restorable = context.restorable_globals

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__" and name.split(".")[0] not in self._restorable:
            raise CannotEncode(f"it refers to {name}, which a resume does not define again")
        found = super().find_class(module, name)
        if module.startswith("cloudpickle") and name in _TRACKER_ARGUMENT:
            return _untracked(found, _TRACKER_ARGUMENT[name])
        return found


def _untracked(make: Callable[..., Any], position: int) -> Callable[..., Any]:
    def made_anew(*arguments: Any) -> Any:
        return make(*arguments[:position], None, *arguments[position + 1 :])

    return made_anew


def _without_window(reduced: Any) -> Any:
    make, arguments, state, *rest = reduced
    if isinstance(state, dict):
        state = {key: value for key, value in state.items() if key != "_restore_to_pylab"}
    return (make, arguments, state, *rest)


class _OtherBytes(Exception):
    """The second pickle is not the first: no need to go on."""


class _Matching:
    """A file that takes only what another file holds."""

    def __init__(self, expected: BinaryIO) -> None:
        self._expected = expected

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _COMPARE_BYTES):
            piece = view[start : start + _COMPARE_BYTES]
            if self._expected.read(len(piece)) != piece:
                raise _OtherBytes
        return len(view)


def _pickles_to(value: Any, file: BinaryIO, context: SaveContext) -> bool:
    file.seek(0)
    try:
        _pickler_class()(_Matching(file), context).dump(value)  # type: ignore[arg-type]  # only write is used
    except Exception:  # _OtherBytes, or user code that cannot pickle what it has unpickled
        return False
    return file.read(1) == b""


PICKLE = PickleCodec()
JOBLIB = JoblibCodec()
