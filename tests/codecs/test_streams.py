from __future__ import annotations

import io

import numpy as np
import pytest

from gyoshu_ckpt.codecs.streams import ForwardFile


def test_everything_reaches_the_target_and_is_counted() -> None:
    target = io.BytesIO()
    file = ForwardFile(target)
    assert file.write(b"abc") == 3
    assert file.write(np.arange(2, dtype="u4")) == 8  # bytes, not items
    assert file.tell() == 11
    assert target.getvalue() == b"abc" + np.arange(2, dtype="u4").tobytes()


def test_closing_leaves_the_target_open() -> None:
    target = io.BytesIO()
    with ForwardFile(target) as file:
        file.write(b"x")
    assert target.getvalue() == b"x"


def test_it_cannot_be_read_or_rewound() -> None:
    file = ForwardFile(io.BytesIO())
    assert not file.readable()
    assert not file.seekable()
    with pytest.raises(io.UnsupportedOperation):
        file.seek(0)


def test_a_fault_of_the_target_is_remembered() -> None:
    class Full:
        def write(self, data: object) -> int:
            raise OSError(28, "no space")

    file = ForwardFile(Full())
    with pytest.raises(OSError, match="no space"):
        file.write(b"x")
    assert isinstance(file.fault, OSError)
    assert file.tell() == 0
