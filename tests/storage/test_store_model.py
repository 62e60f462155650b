"""Saves, incidents, prunes, sweeps and damage in any order, against a model of what can be resumed from."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.pruning import prune_title

VALUES = st.sampled_from([b"a", b"bb", b"ccc", b"dddd", b"eeeee"])


class StoreMachine(RuleBasedStateMachine):
    """The model: which values each saved checkpoint needs, which are damaged, which manifests are."""

    research_at: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="gyoshu-model-"))
        self.research = self.research_at(self.root)
        self.needs: dict[int, frozenset[bytes]] = {}
        self.incidents: set[int] = set()
        self.broken_manifests: set[int] = set()
        self.broken_values: set[bytes] = set()
        self.highest = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def valid(self) -> list[int]:
        return [
            n
            for n, needs in sorted(self.needs.items())
            if n not in self.broken_manifests and not needs & self.broken_values
        ]

    @initialize()
    def a_run_begins(self) -> None:
        self.research.layout.run_dir(self.research.title, self.research.run_id).mkdir(parents=True)

    @rule(values=st.frozensets(VALUES, max_size=3))
    def save(self, values: frozenset[bytes]) -> None:
        named = {f"v{len(value)}": value for value in values}
        artifacts = {f"f{len(value)}": value for value in values}
        manifest = self.research.save(named, artifacts)
        assert publish_artifacts(self.research.layout, manifest, overwrite=True).left_alone == ()
        self.broken_values -= values  # a commit of the same content mends the object
        self.highest = manifest.sequence
        self.needs[manifest.sequence] = values

    @rule()
    def incident(self) -> None:
        self.highest = self.research.incident().sequence
        self.incidents.add(self.highest)

    @precondition(lambda self: self.needs)
    @rule(data=st.data(), keep=st.integers(0, 200))
    def damage_a_manifest(self, data: Any, keep: int) -> None:
        n = data.draw(st.sampled_from(sorted(self.needs)))
        path = self.research.manifest_path(f"ckpt-{n:03d}")
        path.write_bytes(path.read_bytes()[:keep])
        self.broken_manifests.add(n)

    @precondition(lambda self: any(self.needs.values()))
    @rule(data=st.data(), remove=st.booleans())
    def damage_an_object(self, data: Any, remove: bool) -> None:
        value = data.draw(st.sampled_from(sorted(frozenset().union(*self.needs.values()))))
        if value in self.broken_values or not self.is_stored(value):
            return
        path = self.path_of(value)
        path.unlink()
        if not remove:
            path.write_bytes(b"x" * len(value))
        self.broken_values.add(value)

    @rule(keep_last=st.integers(1, 3))
    def prune(self, keep_last: int) -> None:
        valid = self.valid()
        result = prune_title(self.research.layout, self.research.title, keep_last)
        gone = set(valid[:-keep_last])
        if valid:
            gone |= set(self.needs) - set(valid)
        incidents_gone = set(sorted(self.incidents)[:-keep_last])
        assert {int(one[5:]) for one in result.runs["run-001"].removed} == gone | incidents_gone
        self.incidents -= incidents_gone
        for n in gone:
            del self.needs[n]
        self.broken_manifests -= gone
        readable = [needs for n, needs in self.needs.items() if n not in self.broken_manifests]
        referenced = frozenset().union(*readable)
        for value in (b"a", b"bb", b"ccc", b"dddd", b"eeeee"):
            if value not in referenced:
                assert not self.is_stored(value)
                if any(value in needs for needs in self.needs.values()):
                    self.broken_values.add(value)  # only a damaged manifest names it: swept
                else:
                    self.broken_values.discard(value)
        assert self.research.leftovers() == []

    @invariant()
    def the_newest_valid_one_is_found(self) -> None:
        found = self.research.checkpoints.newest_valid()
        valid = self.valid()
        assert (found.manifest.sequence if found.manifest else None) == (valid[-1] if valid else None)
        newer = [n for n in sorted(self.needs, reverse=True) if not valid or n > valid[-1]]
        assert [int(skipped.checkpoint_id[5:]) for skipped in found.skipped] == newer
        if found.manifest:
            assert self.research.checkpoints.verify(found.manifest.checkpoint_id) == []

    def path_of(self, value: bytes) -> Path:
        import hashlib

        return self.research.layout.object(self.research.title, hashlib.sha256(value).hexdigest())

    def is_stored(self, value: bytes) -> bool:
        return self.path_of(value).exists()


@pytest.mark.timeout(300)
def test_the_store_behaves_like_its_model(research_at: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    StoreMachine.research_at = research_at
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=40, stateful_step_count=20, deadline=None)
    )
