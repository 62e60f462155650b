"""The folder through which supervisor and kernel hand each other requests and receipts.

The supervisor makes it (0700, in the run's folder) and names it to the kernel in ``GYOSHU_EXCHANGE``. Files
instead of messages, because a receipt may be long, must not be mistaken for output, and costs no round trip
to read: a stage that asks where to put a file reads ``stage.json`` and is answered.

Nothing here is trusted by the supervisor: what a receipt claims is verified on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "GYOSHU_EXCHANGE"
ARTIFACTS_VARIABLE = "GYOSHU_ARTIFACTS"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Which run of which store the kernel works for."""

    reports: str
    title: str
    run_id: str


@dataclass(frozen=True, slots=True)
class StagePlace:
    """Which stage is being worked on."""

    stage_id: str
    attempt: int


class Exchange:
    """The folder, seen from either side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_this_kernel(cls) -> Exchange | None:
        """The exchange of the supervisor that started this kernel; None when there is none."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder)) if folder else None

    def write_run(self, place: RunPlace) -> None:
        """Supervisor: once, before the kernel starts."""
        self._write("run.json", json.dumps(asdict(place)))

    def read_run(self) -> RunPlace:
        """Kernel: which run this is."""
        return RunPlace(**json.loads(self._read("run.json")))

    def write_stage(self, place: StagePlace, staging: Path) -> None:
        """Supervisor: before the first cell of a stage."""
        self._write("stage.json", json.dumps(asdict(place)))
        # Kernels in other languages have no gy.artifact_path: a link that always points to the right place.
        fresh = self.folder / "artifacts.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(staging, target_is_directory=True)
        fresh.replace(self.artifacts)

    @property
    def artifacts(self) -> Path:
        """Where the stage under way writes its files, whichever stage that is."""
        return self.folder / "artifacts"

    def read_stage(self) -> StagePlace | None:
        """Kernel: the stage under way; None in setup cells."""
        try:
            return StagePlace(**json.loads(self._read("stage.json")))
        except FileNotFoundError:
            return None

    def write_request(self, text: str) -> None:
        """Supervisor: a save request. The receipt of an earlier one is removed, so it can never be mistaken."""
        (self.folder / "receipt.json").unlink(missing_ok=True)
        self._write("request.json", text)

    def read_request(self) -> str:
        """Kernel: the save request."""
        return self._read("request.json")

    def write_receipt(self, text: str) -> None:
        """Kernel: the answer."""
        self._write("receipt.json", text)

    def read_receipt(self) -> str:
        """Supervisor: the answer."""
        return self._read("receipt.json")

    def _write(self, name: str, text: str) -> None:
        # Written whole before it gets its name: the other side may look at any time. It need not survive a
        # power failure, so it is not synced.
        fresh = self.folder / f"{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.folder / name)

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


def environment_for(exchange: Exchange) -> Mapping[str, str]:
    """What the supervisor adds to the kernel's environment."""
    return {VARIABLE: str(exchange.folder), ARTIFACTS_VARIABLE: str(exchange.artifacts)}


def user_namespace() -> dict[str, Any]:
    """The variables of the notebook."""
    import __main__

    return vars(__main__)
