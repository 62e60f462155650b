"""Checkpoints of one run: committed manifests and the objects that they name.

Rules
1. Referents before references: every object is verified on disk before the manifest that names it is written.
   The manifest is written last and durably; its rename is the commit.
2. Save refuses what it could not read back: a manifest is read again by the code that reads it on resume,
   compared, and taken away again when it differs.
3. A manifest is believed only where it lies: title, run and checkpoint id must agree with its path.
4. Only ``saved`` checkpoints are places to resume from. Incidents are evidence, and are passed over silently.
5. A checkpoint folder without a manifest is a save that a crash cut short.
6. What damage is, and what is only out of reach (no permission, no file handles), are kept apart: a damaged
   checkpoint is passed over with a reason, an unreachable one stops the work.

Not handled here: who may write (`run_lock`), the journal line after a commit (the caller's), and sweeping
(`pruning`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.manifest import (
    Manifest,
    ManifestDraft,
    Status,
    StoredValue,
    read_manifest,
    seal,
)
from gyoshu_ckpt.core.resume import Skipped
from gyoshu_ckpt.core.retention import Judged, Standing, choose_to_remove
from gyoshu_ckpt.errors import (
    Damaged,
    GyoshuError,
    InternalBug,
    ManifestDamaged,
    NewerFormat,
    NoSuchRun,
    ObjectDamaged,
    StoreUnavailable,
)
from gyoshu_ckpt.storage.durable_files import (
    make_directories,
    open_regular,
    remove_durably,
    translate_os_errors,
    write_durably,
)
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore, StoredObject
from gyoshu_ckpt.storage.os_faults import is_disk_fault

LARGEST_MANIFEST = 64 * 2**20
_HASHING_THREADS = 4


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint in a listing: its manifest, or why that cannot be read. Objects are not looked at."""

    checkpoint_id: str
    manifest: Manifest | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """The newest checkpoint to resume from, if any, and the newer ones that could not be used."""

    manifest: Manifest | None
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What a prune of one run removed, or would remove."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


class CheckpointStore:
    """The checkpoints of one run."""

    def __init__(self, layout: StoreLayout, title: str, run_id: str) -> None:
        self._layout = layout
        self._title = ids.check_title(title)
        self._run_id = ids.check_run_id(run_id)
        self._objects = ObjectStore(layout, title)
        self._proven: set[StoredObject] = (
            set()
        )  # objects that this instance has read back since they were written

    def next_sequence(self, after: int = 0) -> int:
        """The number after the highest in use, and after ``after``: what the journal says was used once."""
        numbers = map(ids.number_of, self._layout.checkpoints(self._title, self._run_id))
        return max([after, *numbers]) + 1

    def commit(self, draft: ManifestDraft) -> Manifest:
        """Make ``draft`` a checkpoint: when this returns, a resume finds it; if it raises, none was made."""
        problem = self._first_problem(draft, self._proven)
        if problem is not None:
            raise ObjectDamaged(
                f"{draft.checkpoint_id} was not saved: {problem}; the checkpoint before it is untouched",
                next_step="gyoshu continue",
            )
        return self._write(draft)

    def write_emergency(self, draft: ManifestDraft) -> Manifest:
        """Record an incident. Its objects are not read: time may be short, and nobody resumes from it."""
        if draft.status is Status.SAVED:
            raise InternalBug(f"{draft.checkpoint_id} says saved, but comes as an incident")
        return self._write(draft)

    def load(self, checkpoint_id: str) -> Manifest:
        """A manifest, believed only if it agrees with where it lies. Its objects are not looked at."""
        path = self._layout.manifest(self._title, self._run_id, checkpoint_id)
        if path.parent.is_symlink() or not path.parent.is_dir():
            raise NoSuchRun(
                f"{self._run_id} of '{self._title}' has no {checkpoint_id}",
                next_step=f"gyoshu show {self._run_id}",
            )
        called = f"the manifest of {checkpoint_id}"
        below = self._layout.reports
        with (
            open_regular(path, below=below, called=called, refusal=ManifestDamaged) as file,
            translate_os_errors(f"read {called}", path, safe="nothing was changed"),
        ):
            data = file.read(LARGEST_MANIFEST + 1)
        if len(data) > LARGEST_MANIFEST:
            raise ManifestDamaged(f"{called} is larger than {LARGEST_MANIFEST} bytes")
        try:
            manifest = read_manifest(data)
        except ManifestDamaged as problem:
            raise type(problem)(
                f"{called} is damaged: {problem.message}", next_step=problem.next_step
            ) from None
        found = (manifest.report_title, manifest.run_id, manifest.checkpoint_id)
        if found != (self._title, self._run_id, checkpoint_id):
            raise ManifestDamaged(f"{called} belongs to {' '.join(found)}")
        return manifest

    def entries(self) -> list[CheckpointEntry]:
        """Every checkpoint of the run, newest last."""
        found = []
        for checkpoint_id in self._layout.checkpoints(self._title, self._run_id):
            try:
                found.append(CheckpointEntry(checkpoint_id, self.load(checkpoint_id), None))
            except NoSuchRun:
                continue  # pruned while we were looking
            except Damaged as problem:
                found.append(CheckpointEntry(checkpoint_id, None, problem.message))
        return found

    def verify(self, checkpoint_id: str) -> list[str]:
        """Read the manifest and all its objects; the problems found, none when it is whole."""
        try:
            manifest = self.load(checkpoint_id)
        except Damaged as problem:
            return [problem.message]
        return self._problems_with(_objects_of(manifest))

    def newest_valid(self, stands: Callable[[Manifest], str | None] | None = None) -> Found:
        """The newest saved checkpoint that is whole and of which ``stands`` names no reason against it."""
        skipped: list[Skipped] = []
        intact: set[StoredObject] = set()
        for checkpoint_id in reversed(self._layout.checkpoints(self._title, self._run_id)):
            try:
                manifest = self.load(checkpoint_id)
                if manifest.status is not Status.SAVED:
                    continue
                reason = stands(manifest) if stands else None
                reason = reason or self._first_problem(manifest, intact)
            except NoSuchRun:
                continue  # pruned while we were looking
            except Damaged as problem:
                reason = problem.message
            except StoreUnavailable as problem:
                if not is_disk_fault(problem):
                    raise
                reason = problem.message  # the medium lost it: an older one may lie on a better spot
            if reason is None:
                return Found(manifest, tuple(skipped))
            skipped.append(Skipped(checkpoint_id, reason))
        return Found(None, tuple(skipped))

    def prune(self, keep_last: int, dry_run: bool = False) -> PruneResult:
        """Remove what `core.retention` chooses. Objects stay until a sweep finds that nothing names them."""
        judged = self._judge()
        removed = choose_to_remove(judged, keep_last)
        if not dry_run:
            for checkpoint_id in removed:
                folder = self._layout.checkpoint_dir(self._title, self._run_id, checkpoint_id)
                remove_durably(folder, below=self._layout.reports)
        kept = tuple(entry.checkpoint_id for entry in judged if entry.checkpoint_id not in removed)
        return PruneResult(removed, kept)

    def _judge(self) -> list[Judged]:
        intact: set[StoredObject] = set()
        judged = []
        for checkpoint_id in self._layout.checkpoints(self._title, self._run_id):
            try:
                manifest = self.load(checkpoint_id)
                if manifest.status is not Status.SAVED:
                    standing = Standing.INCIDENT
                else:
                    standing = Standing.DAMAGED if self._first_problem(manifest, intact) else Standing.VALID
            except NewerFormat:
                standing = Standing.FOREIGN
            except Damaged:
                standing = Standing.DAMAGED
            judged.append(Judged(checkpoint_id, standing))
        return judged

    def _write(self, draft: ManifestDraft) -> Manifest:
        if (draft.report_title, draft.run_id) != (self._title, self._run_id):
            raise InternalBug(f"{draft.checkpoint_id} of {draft.run_id} came to the store of {self._run_id}")
        if draft.checkpoint_id in self._layout.checkpoints(self._title, self._run_id):
            raise InternalBug(f"{draft.checkpoint_id} is there already; a number is never used twice")
        try:
            manifest, data = seal(draft)
        except ValueError as problem:  # a number or a string that JSON cannot carry exactly
            raise InternalBug(f"{draft.checkpoint_id} has no canonical form: {problem}") from None
        folder = self._layout.checkpoint_dir(self._title, self._run_id, draft.checkpoint_id)
        path = self._layout.manifest(self._title, self._run_id, draft.checkpoint_id)
        try:
            make_directories(folder, self._layout.reports)
            write_durably(path, data, below=self._layout.reports)
            if self.load(draft.checkpoint_id) != manifest:
                raise ManifestDamaged(f"{draft.checkpoint_id} was not saved: it reads back as something else")
        except BaseException:
            with suppress(GyoshuError):  # on a full or read-only disk; a folder without manifest does no harm
                remove_durably(folder, below=self._layout.reports)
            raise
        return manifest

    def _first_problem(self, draft: ManifestDraft, intact: set[StoredObject]) -> str | None:
        """``intact`` remembers objects that were read already: checkpoints share most of theirs."""
        unread = _objects_of(draft) - intact
        problems = self._problems_with(unread)
        if problems:
            return problems[0]
        intact.update(unread)
        return None

    def _problems_with(self, stored: Set[StoredObject]) -> list[str]:
        def problem_with(one: StoredObject) -> str | None:
            try:
                self._objects.verify(one.sha256, one.size_bytes)
            except ObjectDamaged as problem:
                return problem.message
            return None

        if not stored:
            return []
        ordered = sorted(stored, key=lambda one: (one.sha256, one.size_bytes))
        # SHA-256 releases the GIL, so several objects are hashed at once.
        with ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="gyoshu-verify") as pool:
            return [problem for problem in pool.map(problem_with, ordered) if problem is not None]


def referenced_objects(
    layout: StoreLayout, title: str, without: Mapping[str, Container[str]] | None = None
) -> set[str]:
    """What the readable manifests of all runs of a title name, ``without`` some (run id -> checkpoint ids).

    A damaged manifest can never be resumed from, so it holds no objects. One that a newer gyoshu wrote, or
    that is merely out of reach, might: then this raises, and nothing may be swept.
    """
    referenced: set[str] = set()
    for run_id in layout.runs(title):
        store = CheckpointStore(layout, title, run_id)
        for checkpoint_id in layout.checkpoints(title, run_id):
            if without and checkpoint_id in without.get(run_id, ()):
                continue
            try:
                manifest = store.load(checkpoint_id)
            except NewerFormat as problem:
                raise StoreUnavailable(
                    f"{run_id}: {problem.message}", next_step=problem.next_step
                ) from problem
            except Damaged:
                continue
            referenced.update(stored.sha256 for stored in _objects_of(manifest))
    return referenced


def _objects_of(draft: ManifestDraft) -> set[StoredObject]:
    """By hash and size: a manifest that gives one object two sizes is wrong about one of them."""
    states = draft.python_env.states() if draft.python_env is not None else ()
    values: list[StoredValue] = [*draft.artifacts, *draft.variables, *states]
    return {StoredObject(value.sha256, value.size_bytes) for value in values}
