"""What the rehydration cell calls: bring values back from the store, verified.

An object is hashed and decoded through the same open file, so nothing can come between the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gyoshu_ckpt.codecs import encoding
from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.in_kernel import definition_state, environment, process_state
from gyoshu_ckpt.in_kernel.exchange import Exchange, user_namespace
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore


def load(name: str, *, codec: str, version: int, sha256: str, size_bytes: int) -> Any:
    """The value that was saved as ``name``; an error of gyoshu's tree if its bytes are not those saved."""
    with _store().open_verified(sha256, size_bytes) as file:
        return encoding.decode(codec, version, file, name=name)


def restore_random_state(*, codec: str, version: int, sha256: str, size_bytes: int) -> None:
    """Set the random generators to where they stood at the checkpoint."""
    state = load("random state", codec=codec, version=version, sha256=sha256, size_bytes=size_bytes)
    environment.apply_random_state(state)


def restore_process_state(*, codec: str, version: int, sha256: str, size_bytes: int) -> None:
    """Go to the working directory, and look for modules where, the stages had chosen."""
    process_state.apply(
        load("process state", codec=codec, version=version, sha256=sha256, size_bytes=size_bytes)
    )


def restore_definition_state(*, codec: str, version: int, sha256: str, size_bytes: int) -> None:
    """Do again to functions and classes what was done to them since they were defined."""
    state = load("state of definitions", codec=codec, version=version, sha256=sha256, size_bytes=size_bytes)
    definition_state.apply(user_namespace(), state)


def _store() -> ObjectStore:
    exchange = Exchange.of_this_kernel()
    if exchange is None:
        raise UserMistake(
            "this cell was generated for a kernel that gyoshu runs",
            next_step="gyoshu continue brings the values back",
        )
    run = exchange.read_run()
    return ObjectStore(StoreLayout(Path(run.reports)), run.title)
