"""A scripted kernel that executes code in a dictionary of this process: whole runs in milliseconds.

Only what the supervisor sends for itself is answered specially; a cell's code is really executed. A cell may
hold one of the directives below to misbehave.
"""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gyoshu_ckpt.core.save_protocol import SaveRequest
from gyoshu_ckpt.in_kernel import exchange as exchange_module
from gyoshu_ckpt.in_kernel.exchange import Exchange
from gyoshu_ckpt.in_kernel.recorder import Recorder
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore
from gyoshu_ckpt.supervisor import kernel_requests
from kernel_bridge.scripted_session import Die, Finish, Hang, ManualClock, ScriptedSession, Step, Text

HANG = "# HANG"
HANG_HARD = "# HANG HARD"
DIE = "# DIE"


class InProcessKernels:
    """Makes kernels, and remembers them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.made: list[ScriptedSession] = []
        self.namespaces: list[dict[str, Any]] = []

    def __call__(self, kernel_name: str, folder: Path, environment: Mapping[str, str]) -> ScriptedSession:
        main = types.ModuleType("__main__")
        self.namespaces.append(vars(main))
        exchange = Exchange(Path(environment[exchange_module.VARIABLE]))

        def script(code: str) -> Iterator[Step]:
            return self._steps(code, main, exchange, environment)

        session = ScriptedSession(script, self.clock)
        self.made.append(session)
        return session

    def _steps(
        self, code: str, main: types.ModuleType, exchange: Exchange, environment: Mapping[str, str]
    ) -> Iterator[Step]:
        if code == kernel_requests.GREET:
            return
        if code == kernel_requests.SAVE:
            self._answer(main, exchange)
            return
        if HANG_HARD in code:
            yield Text("hanging hard\n")
            yield Hang(obeys=("kill",))
        elif HANG in code:
            yield Text("hanging\n")
            yield Hang()
        if DIE in code:
            yield Die(9)
        printed = io.StringIO()
        error: Exception | None = None
        with self._as_this_kernel(main, environment), contextlib.redirect_stdout(printed):
            try:
                exec(compile(code, "<cell>", "exec"), vars(main))
            except Exception as problem:  # whatever the cell raises is the cell's
                error = problem
        if printed.getvalue():
            yield Text(printed.getvalue())
        if error is not None:
            yield Finish("error", type(error).__name__, str(error))

    def _answer(self, main: types.ModuleType, exchange: Exchange) -> None:
        run = exchange.read_run()
        layout = StoreLayout(Path(run.reports))
        request = SaveRequest.from_json(exchange.read_request())
        staging = layout.staging_dir(run.title, run.run_id, request.stage_id, request.attempt)
        with self._as_this_kernel(main, {}):
            receipt = Recorder(ObjectStore(layout, run.title), staging, vars(main)).save(request)
        exchange.write_receipt(receipt.to_json())

    @contextlib.contextmanager
    def _as_this_kernel(self, main: types.ModuleType, environment: Mapping[str, str]) -> Iterator[None]:
        import os

        real, sys.modules["__main__"] = sys.modules["__main__"], main
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            yield
        finally:
            sys.modules["__main__"] = real
            os.environ.clear()
            os.environ.update(before)
