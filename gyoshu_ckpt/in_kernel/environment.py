"""What the kernel is: interpreter, packages in use, and the state of its random generators."""

from __future__ import annotations

import platform
import random
import sys
from typing import Any


def packages_in_use() -> dict[str, str]:
    """Versions of the top-level packages that this kernel has imported, as they state them themselves.

    Asking the installed metadata instead would take a tenth of a second at every checkpoint.
    """
    versions: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        if "." in name or name.startswith("_"):
            continue
        # vars, not getattr: a module may have a __getattr__ that imports things or warns.
        version = vars(module).get("__version__") if hasattr(module, "__dict__") else None
        if isinstance(version, str) and len(version) < 100:
            versions[name] = version
    return dict(sorted(versions.items()))


def describe_platform() -> str:
    """Operating system, machine and libc in one line."""
    return platform.platform()


def capture_random_state() -> dict[str, Any]:
    """The state of ``random``, and of numpy's global generator if numpy is in use."""
    state: dict[str, Any] = {"random": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    return state


def apply_random_state(state: dict[str, Any]) -> None:
    """The inverse of :func:`capture_random_state`."""
    random.setstate(state["random"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
