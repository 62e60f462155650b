"""Turns the kernel's values into objects, on request of the supervisor, and answers with a receipt.

Runs inside the kernel, in a request of its own after the stage's last cell. Only objects are written here:
they are addressed by content, so a crash at any moment leaves at most unreferenced bytes. The manifest, which
makes a checkpoint of them, is the supervisor's to write.

Every value is encoded again at every checkpoint: whether a stage changed it cannot be told from its source
(aliases, functions that reach for globals). Bytes that are in the store already are not written again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gyoshu_ckpt.codecs import encoding, files
from gyoshu_ckpt.codecs.interface import SaveContext
from gyoshu_ckpt.core.plan import OutputKind
from gyoshu_ckpt.core.save_protocol import NotSaved, Receipt, SavedObject, SaveRequest, WantedOutput
from gyoshu_ckpt.errors import GyoshuError, StoreUnavailable, UserMistake, ValueNotSavable
from gyoshu_ckpt.in_kernel import definition_state, environment, process_state
from gyoshu_ckpt.in_kernel.exchange import Exchange, user_namespace
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore

_IMMUTABLE = (int, float, complex, str, bytes, type(None))  # nobody can tell one from an equal one


def answer_save_request() -> None:
    """Read the request from the exchange, save, and leave the receipt there. The supervisor's one call."""
    exchange = Exchange.of_this_kernel()
    if exchange is None:
        raise UserMistake("this kernel was not started by gyoshu")
    run = exchange.read_run()
    layout = StoreLayout(Path(run.reports))
    request = SaveRequest.from_json(exchange.read_request())
    staging = layout.staging_dir(run.title, run.run_id, request.stage_id, request.attempt)
    recorder = Recorder(ObjectStore(layout, run.title), staging, user_namespace())
    exchange.write_receipt(recorder.save(request).to_json())


class Recorder:
    """Saves what one request asks for."""

    def __init__(self, store: ObjectStore, staging: Path, namespace: Mapping[str, Any]) -> None:
        self._store = store
        self._staging = staging
        self._namespace = namespace
        self._saved: dict[str, SavedObject] = {}  # by variable name: an output is often a variable too
        self._not_saved: list[NotSaved] = []
        self._owners: dict[int, str] = {}  # by id of the object: the variable that it is saved for

    def save(self, request: SaveRequest) -> Receipt:
        """Save outputs, variables and random state. A store that refuses is told in the receipt."""
        context = SaveContext(restorable_globals=request.restorable_globals)
        artifacts: list[SavedObject] = []
        variables: list[SavedObject] = []
        random_state = process = definitions = None
        fault: str | None = None
        try:
            for output in request.outputs:
                artifacts.extend(self._without_collision(output, self._output(output, context), artifacts))
            for name in request.variables:
                variables.extend(self._variable(name, context, request.file_names.get(name), required=True))
            for name in request.optional_variables:
                variables.extend(self._variable(name, context, None, required=False))
            random_state = self._encode("random state", environment.capture_random_state(), context)[0]
            process = self._state("process state", process_state.capture(), context)
            definitions = self._definitions(request, context)
        except StoreUnavailable as refusal:
            fault = refusal.message
        return Receipt(
            artifacts=tuple(artifacts),
            variables=tuple(variables),
            random_state=random_state,
            process_state=process,
            definition_state=definitions,
            not_saved=tuple(self._not_saved),
            python_path=sys.executable or "",
            python_version=".".join(map(str, sys.version_info[:3])),
            platform=environment.describe_platform(),
            packages=environment.packages_in_use(),
            fault=fault,
        )

    def _state(self, what: str, state: dict[str, Any], context: SaveContext) -> SavedObject | None:
        return self._encode(what, state, context)[0] if state else None

    def _definitions(self, request: SaveRequest, context: SaveContext) -> SavedObject | None:
        """What was done to functions and classes, less what cannot be saved."""
        what = "state of definitions"
        state = definition_state.capture(self._namespace, request.restorable_globals)
        try:
            return self._state(what, state, context)
        except ValueNotSavable:
            savable = {
                name: {part: value for part, value in parts.items() if self._is_savable(value, context)}
                for name, parts in state.items()
            }
            return self._state(what, {name: parts for name, parts in savable.items() if parts}, context)

    def _is_savable(self, value: Any, context: SaveContext) -> bool:
        try:
            self._encode("a part of a definition", value, context)
        except ValueNotSavable:
            return False
        return True

    def save_files(self, request: SaveRequest) -> Receipt:
        """Only the declared files and folders: all that can be had of a kernel in another language."""
        artifacts: list[SavedObject] = []
        fault: str | None = None
        try:
            for output in request.outputs:
                artifacts.extend(self._written_files(output))
        except StoreUnavailable as refusal:
            fault = refusal.message
        return Receipt(artifacts=tuple(artifacts), not_saved=tuple(self._not_saved), fault=fault)

    def _output(self, output: WantedOutput, context: SaveContext) -> list[SavedObject]:
        if output.kind != OutputKind.VARIABLE:
            return self._written_files(output)
        if output.name not in self._namespace:
            self._miss(
                output.name,
                "nothing",
                "no such variable exists after the stage ran",
                f"assign {output.name} in the stage, or take --out {output.name} away",
            )
            return []
        try:
            saved = self._encode(output.name, self._namespace[output.name], context, output.file_name)
        except ValueNotSavable as refusal:
            self._refused(output.name, refusal)
            return []
        self._saved[output.name] = saved[0]
        return saved

    def _without_collision(
        self, output: WantedOutput, saved: list[SavedObject], before: list[SavedObject]
    ) -> list[SavedObject]:
        """``--out df --out df.parquet``: only now is it known that both would have the same file name."""
        taken = {one.file_name for one in before} & {one.file_name for one in saved}
        if not taken:
            return saved
        name = min(taken)
        self._miss(
            output.name,
            output.kind,
            f"another output of the stage has the file name {name} already",
            f"give one of them another name, for example --out {output.name}=other-{name}",
        )
        return []

    def _written_files(self, output: WantedOutput) -> list[SavedObject]:
        path = self._staging / output.name
        folder = output.kind == OutputKind.FOLDER
        try:
            stored = (
                files.encode_folder(path, self._store.writer)
                if folder
                else [files.encode_file(path, self._store.writer)]
            )
        except (ValueNotSavable, UserMistake) as refusal:
            self._refused(output.name, refusal)
            return []
        return [
            _saved(output.name, part, f"{output.name}/{part.file_name}" if folder else output.name)
            for part in stored
        ]

    def _variable(
        self, name: str, context: SaveContext, file_name: str | None, *, required: bool
    ) -> list[SavedObject]:
        if name not in self._namespace:  # deleted since, or bound on a path that was not taken
            return []
        value = self._namespace[name]
        owner = None if isinstance(value, _IMMUTABLE) else self._owners.setdefault(id(value), name)
        if owner is not None and owner != name and owner in self._saved:
            return [replace(self._saved[owner], name=name, same_as=owner)]
        if name not in self._saved:
            try:
                self._saved[name] = self._encode_as_declared(name, context, file_name)
            except ValueNotSavable as refusal:
                if required:
                    self._refused(name, refusal)
                return []
        return [self._saved[name]]

    def _encode_as_declared(self, name: str, context: SaveContext, file_name: str | None) -> SavedObject:
        """With the codec of the stage that declared it, so that an unchanged value is the same object again."""
        value = self._namespace[name]
        if file_name is not None:
            try:
                return self._encode(name, value, context, file_name)[0]
            except ValueNotSavable:  # a later stage has put something else there
                pass
        return self._encode(name, value, context)[0]

    def _encode(
        self, name: str, value: Any, context: SaveContext, file_name: str | None = None
    ) -> list[SavedObject]:
        encoded = encoding.encode(value, self._store.writer, context, name=name, file_name=file_name)
        return [_saved(name, part, part.file_name) for part in (encoded, *encoded.companions)]

    def _refused(self, name: str, refusal: GyoshuError) -> None:
        value = self._namespace.get(name)
        kind = type(value)
        self._miss(name, f"{kind.__module__}.{kind.__qualname__}", refusal.message, refusal.next_step or "")

    def _miss(self, name: str, type_name: str, reason: str, way_out: str) -> None:
        self._not_saved.append(NotSaved(name, type_name, reason, way_out))


def _saved(name: str, encoded: encoding.Encoded, file_name: str) -> SavedObject:
    return SavedObject(
        name=name,
        codec=encoded.codec,
        codec_version=encoded.codec_version,
        trust=encoded.trust,
        sha256=encoded.sha256,
        size_bytes=encoded.size_bytes,
        media_type=encoded.media_type,
        file_name=file_name,
    )
