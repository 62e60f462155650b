"""The first thing that a supervised kernel executes: proves that gyoshu is there, and of the same version."""

from __future__ import annotations

from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.in_kernel import flow, process_state
from gyoshu_ckpt.version import __version__


def greet(supervisor_version: str) -> None:
    """Refuse a kernel whose gyoshu speaks another version; then install the back pressure on output."""
    if supervisor_version != __version__:
        raise UserMistake(
            f"this kernel has gyoshu-ckpt {__version__}, the supervisor {supervisor_version}",
            next_step="install the same version in both environments",
        )
    process_state.remember_start()
    flow.install()
