from __future__ import annotations

import collections
import datetime
import enum
import functools
import gc
import io
import logging
import operator
import pathlib
import pickle
import re
import subprocess
import sys
import textwrap
from typing import Any

import joblib
import matplotlib.figure
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn.ensemble
import sklearn.linear_model
import sklearn.pipeline
import sklearn.preprocessing

from gyoshu_ckpt.codecs import comparison
from gyoshu_ckpt.codecs.interface import CannotEncode, SaveContext
from gyoshu_ckpt.codecs.pickles import JOBLIB, PICKLE, gc_paused, is_restorable

X = np.random.default_rng(0).random((20, 3))
Y = (X[:, 0] > 0.5).astype(int)


class Colour(enum.Enum):
    RED = 1


class Node:
    def __init__(self) -> None:
        self.children: list[Node] = []
        self.parent: Node | None = None


def family() -> Node:
    parent, child = Node(), Node()
    parent.children.append(child)
    child.parent = parent
    return parent


def local_class() -> Any:
    class Local:
        def __init__(self) -> None:
            self.x = 1

    return Local()


VALUES: dict[str, Any] = {
    "tuple": (1, 2),
    "set": {1, "a", (2, 3)},
    "datetime": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "path": pathlib.Path("/a/b"),
    "regex": re.compile("a+"),
    "partial": functools.partial(int, base=2),
    "itemgetter": operator.itemgetter(1),
    "logger": logging.getLogger("some.name"),
    "defaultdict": collections.defaultdict(list, a=[1]),
    "defaultdict-lambda": collections.defaultdict(lambda: 3, a=[1]),
    "namedtuple": collections.namedtuple("Pair", "a b")(1, 2),
    "enum": Colour.RED,
    "class": Colour,
    "function": family,
    "builtin": len,
    "module": np,
    "lambda": lambda x: x + 1,
    "closure": functools.wraps(len)(lambda: X),
    "cycle": family(),
    "local-class": local_class(),
    "exception": ValueError("a", 1),
    "dict-keys": {"a": 1}.keys(),
    "iterator": iter([1, 2, 3]),
    "bytearray": bytearray(b"abc"),
    "ellipsis": ...,
    "type": int,
    "generic-alias": list[int],
    "random-state": np.random.RandomState(3).get_state(),
    "generator": np.random.default_rng(3),
    "sparse": scipy.sparse.csr_matrix(np.eye(3)),
    "regression": sklearn.linear_model.LogisticRegression().fit(X, Y),
    "forest": sklearn.ensemble.RandomForestClassifier(n_estimators=3, random_state=0).fit(X, Y),
    "pipeline": sklearn.pipeline.make_pipeline(
        sklearn.preprocessing.StandardScaler(), sklearn.linear_model.Ridge()
    ).fit(X, Y),
    "estimator-of-frame": sklearn.preprocessing.StandardScaler().fit(pd.DataFrame(X, columns=list("abc"))),
    "function-transformer": sklearn.preprocessing.FunctionTransformer(lambda x: x * 2),
    "timestamp": pd.Timestamp("2020", tz="Europe/Berlin"),
    "index": pd.MultiIndex.from_product([[1, 2], ["a"]]),
    "frames": {"a": pd.DataFrame({"x": [1, None]}), "b": pd.Series(["p"], dtype="category")},
    "groups": dict(list(pd.DataFrame({"k": [1, 2], "v": [3, 4]}).groupby("k"))),
    "offset": pd.offsets.BusinessDay(2),
    "arrow": pa.array([1, None]),
    "schema": pa.schema({"a": pa.int64()}),
    "lazy": pl.DataFrame({"a": [1]}).lazy(),
    "axes": matplotlib.figure.Figure().subplots(),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_scientists_have_comes_back(value: Any, through: Any) -> None:
    codec, loaded = through(value)
    assert codec == "pickle"
    assert type(loaded).__name__ == type(value).__name__


def test_an_estimator_predicts_the_same(through: Any) -> None:
    _, loaded = through(VALUES["forest"])
    assert np.array_equal(loaded.predict_proba(X), VALUES["forest"].predict_proba(X))


def test_cycles_and_sharing_survive(through: Any) -> None:
    _, parent = through(family())
    assert parent.children[0].parent is parent


def test_the_file_is_a_pickle_for_everybody(written: Any) -> None:
    assert pickle.load(written(PICKLE, {"a": (1,)})) == {"a": (1,)}


class Forgetful:
    """Loses what it should keep."""

    def __init__(self) -> None:
        self.kept = [1, 2, 3]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept = []


class Changes:
    """Comes back as something else."""

    def __reduce__(self) -> Any:
        return dict, ()


@pytest.mark.parametrize("value", [Forgetful(), [Forgetful()], Changes(), {"a": Changes()}])
def test_a_load_that_is_not_the_same_is_caught(value: Any, written: Any) -> None:
    file = written(PICKLE, value)
    assert PICKLE.prove(value, file, SaveContext()) is not None


def test_a_set_in_another_order_is_the_same(written: Any) -> None:
    awkward = {0, 8}  # the same slot of a small table: the order of insertion shows
    awkward.discard(0)
    awkward.add(0)
    assert PICKLE.prove([awkward], written(PICKLE, [awkward]), SaveContext()) is None


def test_the_collector_is_off_while_loading_and_on_again() -> None:
    class Watch:
        def __reduce__(self) -> Any:
            return gc.isenabled, ()

    assert PICKLE.load(io.BytesIO(pickle.dumps(Watch())), 1) is False
    assert gc.isenabled()
    with gc_paused(), gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_the_user_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_joblib_reads_what_it_is_asked_for(tmp_path: Any, written: Any, through: Any) -> None:
    model = VALUES["pipeline"]
    assert through(model, "model.joblib")[0] == "joblib"
    path = tmp_path / "model.joblib"
    path.write_bytes(written(JOBLIB, model).getvalue())
    assert np.array_equal(joblib.load(path).predict(X), model.predict(X))


SHARED = np.arange(5.0)


@pytest.mark.parametrize(
    "value",
    [
        [SHARED, SHARED],
        np.arange(3, dtype=">f8"),
        np.array([None, 1], dtype=object),
        lambda x: x,
        local_class(),
        {"nested": pd.DataFrame({"a": ["x", None]})},
    ],
    ids=["shared", "byte-order", "objects", "lambda", "local", "frame"],
)
def test_what_joblib_would_lose_is_a_pickle_that_joblib_reads(value: Any, through: Any, written: Any) -> None:
    _, loaded = through(value, "model.joblib")
    assert comparison.difference(value, loaded) is None
    assert type(joblib.load(written(PICKLE, value))).__name__ == type(value).__name__


def test_joblib_is_not_taken_unasked(through: Any) -> None:
    assert through(VALUES["regression"])[0] == "pickle"


def test_is_restorable_needs_the_very_object(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        class Inner:
            pass

        def method(self) -> None:
            pass

    for thing, name in [(Model, "Model"), (Model.Inner, "Model.Inner"), (Model.method, "Model.method")]:
        thing.__module__, thing.__qualname__ = "__main__", name
    names = frozenset({"Model"})
    assert not is_restorable(Model, names)  # not there
    monkeypatch.setattr(sys.modules["__main__"], "Model", Model, raising=False)
    assert is_restorable(Model, names)
    assert is_restorable(Model.Inner, names)
    assert is_restorable(Model.method, names)
    assert not is_restorable(Model, frozenset())
    assert not is_restorable(int, names)
    monkeypatch.setattr(sys.modules["__main__"], "Model", object)
    assert not is_restorable(Model, names)  # re-defined since


# A notebook's __main__, and the fresh kernel that resumes it: two processes and a file.

DEFINITIONS = """
import dataclasses, enum

class Model:
    registry = []
    def __init__(self, x): self.x = x
    def double(self): return helper(self.x)
    class Part: pass

@dataclasses.dataclass
class Row:
    a: int

class Kind(enum.Enum):
    GOOD = 1

def helper(x): return 2 * x
"""

SAVE = """
import sys, io
from gyoshu_ckpt.codecs.interface import SaveContext
from gyoshu_ckpt.codecs.pickles import PICKLE
value = {value}
context = SaveContext(frozenset({restorable!r}))
methods, registry = Model.double, Model.registry
with open(sys.argv[1], "wb") as file:
    PICKLE.save(value, file, context)
with open(sys.argv[1], "rb") as file:
    assert PICKLE.prove(value, file, context) is None
assert Model.double is methods and Model.registry is registry, "the proof changed the user's class"
"""

RESUME = """
import sys
from gyoshu_ckpt.codecs.pickles import PICKLE
with open(sys.argv[1], "rb") as file:
    value = PICKLE.load(file, 1)
{check}
"""

ALL = ("Model", "Row", "Kind", "helper")


def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("value", "check"),
    [
        ("Model(3)", "assert isinstance(value, Model) and value.double() == 6"),
        ("[Row(1), Kind.GOOD]", "assert value == [Row(1), Kind.GOOD] and value[1] is Kind.GOOD"),
        ("(Model, helper)", "assert value[0] is Model and value[1] is helper"),
        ("Model.Part()", "assert isinstance(value, Model.Part)"),
        ("lambda x: helper(x) + 1", "assert value(2) == 5"),
        ("Model(3).double", "assert value() == 6 and type(value.__self__) is Model"),
    ],
)
def test_restorable_names_are_stored_by_reference(tmp_path: Any, value: str, check: str) -> None:
    path = str(tmp_path / "value.pkl")
    saved = run(DEFINITIONS + SAVE.format(value=value, restorable=ALL), path)
    assert saved.returncode == 0, saved.stderr
    resumed = run(DEFINITIONS + RESUME.format(check=check), path)
    assert resumed.returncode == 0, resumed.stderr
    without = run(RESUME.format(check=""), path)
    assert "AttributeError" in without.stderr  # so it was by name


@pytest.mark.parametrize(
    ("value", "check"),
    [
        ("Model(3)", "assert value.double() == 6 and type(value).__name__ == 'Model'"),
        ("[Row(1), Row(2)]", "assert value[0].a == 1 and type(value[0]) is type(value[1])"),
        ("Kind.GOOD", "assert value.name == 'GOOD'"),
        ("helper", "assert value(2) == 4"),
        ("lambda x: helper(x) + 1", "assert value(2) == 5"),
    ],
)
def test_everything_else_of_main_is_stored_by_value(tmp_path: Any, value: str, check: str) -> None:
    path = str(tmp_path / "value.pkl")
    saved = run(DEFINITIONS + SAVE.format(value=value, restorable=()), path)
    assert saved.returncode == 0, saved.stderr
    resumed = run(RESUME.format(check=check), path)  # nothing of the notebook is defined here
    assert resumed.returncode == 0, resumed.stderr


def test_a_class_that_was_redefined_is_stored_by_value(tmp_path: Any) -> None:
    path = str(tmp_path / "value.pkl")
    value = "Model(3)\nold = value\nclass Model:\n    registry = []\n    double = None\nvalue = old"
    saved = run(DEFINITIONS + SAVE.format(value=value, restorable=ALL), path)
    assert saved.returncode == 0, saved.stderr
    resumed = run(DEFINITIONS + RESUME.format(check="assert type(value) is not Model and value.x == 3"), path)
    assert resumed.returncode == 0, resumed.stderr


HIDDEN = textwrap.dedent(
    """
    class Single:
        def __reduce__(self): return "single"
    single = Single()
    """
)


def test_a_name_that_a_resume_will_not_have_is_found_while_saving(tmp_path: Any) -> None:
    saved = run(
        HIDDEN + DEFINITIONS + SAVE.format(value="[single]", restorable=ALL), str(tmp_path / "value.pkl")
    )
    assert "refers to single, which a resume does not define again" in saved.stderr


JOBLIB_MAIN = """
from gyoshu_ckpt.codecs.interface import CannotEncode, SaveContext
from gyoshu_ckpt.codecs.pickles import JOBLIB
import io
JOBLIB.save(Model(3), io.BytesIO(), SaveContext(frozenset({"Model"})))
for value in (Model(3), helper, [Kind.GOOD]):
    try:
        JOBLIB.save(value, io.BytesIO(), SaveContext())
    except CannotEncode as refusal:
        print(refusal)
"""


def test_joblib_refuses_names_of_main_that_a_resume_will_not_have() -> None:
    done = run(DEFINITIONS + JOBLIB_MAIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("by a name that a resume does not have") == 3


def test_joblib_refuses_to_hide_names_in_object_arrays(written: Any) -> None:
    with pytest.raises(CannotEncode, match="arrays of objects"):
        written(JOBLIB, {"a": np.array([None])})
