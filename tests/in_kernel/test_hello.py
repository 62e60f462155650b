"""The greeting refuses a kernel that speaks another version."""

from __future__ import annotations

import pytest

from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.in_kernel.hello import greet
from gyoshu_ckpt.version import __version__


def test_the_same_version_is_welcome() -> None:
    greet(__version__)


def test_another_version_is_refused_with_both_named() -> None:
    with pytest.raises(UserMistake, match=rf"{__version__}, the supervisor 0\.0\.0"):
        greet("0.0.0")
