"""The few lines of code that the supervisor itself runs in a kernel. They bind no name there."""

from __future__ import annotations

from gyoshu_ckpt.version import __version__

_IN_KERNEL = "__import__('gyoshu_ckpt.in_kernel.{module}', fromlist=['*'])"

GREET = _IN_KERNEL.format(module="hello") + f".greet({__version__!r})"
SAVE = _IN_KERNEL.format(module="recorder") + ".answer_save_request()"
