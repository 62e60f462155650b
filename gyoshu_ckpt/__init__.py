"""gyoshu-ckpt: checkpoint, watchdog and resume for Jupyter notebooks.

In a notebook: ``import gyoshu_ckpt as gy``. Everything is loaded on first use, so importing this costs a
kernel next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gyoshu_ckpt.version import __version__

if TYPE_CHECKING:
    from gyoshu_ckpt.in_kernel.stage_files import artifact_path

__all__ = ["__version__", "artifact_path"]

_HOME_OF = {"artifact_path": "gyoshu_ckpt.in_kernel.stage_files"}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        import importlib

        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
