from __future__ import annotations

import collections
import datetime
import io

import numpy as np
import pytest

from gyoshu_ckpt.codecs.interface import Codec, instance_of, type_name
from gyoshu_ckpt.codecs.plain import TEXT


def test_a_codec_without_its_methods_cannot_be_made() -> None:
    class Nothing(Codec):
        name = "nothing"

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # type: ignore[abstract]


def test_prove_loads_and_compares() -> None:
    from gyoshu_ckpt.codecs.interface import SaveContext

    assert TEXT.prove("abc", io.BytesIO(b"abc"), SaveContext()) is None
    assert TEXT.prove("abc", io.BytesIO(b"abd"), SaveContext()) is not None


def test_is_same_is_the_absence_of_a_difference() -> None:
    assert TEXT.is_same("a", "a")
    assert not TEXT.is_same("a", "b")


def test_instance_of_does_not_import() -> None:
    assert not instance_of(3, "a_module_that_does_not_exist", "Thing")


@pytest.mark.parametrize(("exactly", "expected"), [(True, False), (False, True)])
def test_instance_of_and_subclasses(exactly: bool, expected: bool) -> None:
    assert instance_of(collections.OrderedDict(), "builtins", "dict", exactly=exactly) is expected


def test_instance_of_with_a_half_imported_module() -> None:
    assert not instance_of(3, "sys", "NotThere", exactly=False)


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "int"), (datetime.date(2020, 1, 1), "datetime.date"), (np.zeros(1), "numpy.ndarray")],
)
def test_type_name(value: object, name: str) -> None:
    assert type_name(value) == name
