"""A damaged checkpoint is refused with a reason, and the one before it is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.core.manifest import ManifestDraft, seal
from gyoshu_ckpt.errors import ManifestDamaged

pytestmark = pytest.mark.timeout(120)

DATA = b"a value of some bytes"


@pytest.fixture
def saved(research: Any) -> Any:
    research.save({"df": b"the old value"}, {"x.csv": b"old"})
    research.save({"df": DATA}, {"x.csv": b"new"})
    return research


def assert_passed_over(research: Any) -> str:
    """The newest is refused, the one before is found; return the reason."""
    result = research.checkpoints.newest_valid()
    assert result.manifest is not None
    assert result.manifest.checkpoint_id == "ckpt-001"
    [skipped] = result.skipped
    assert skipped.checkpoint_id == "ckpt-002"
    assert research.checkpoints.verify("ckpt-002") == [skipped.reason]
    return str(skipped.reason)


def test_every_flipped_byte_of_a_manifest(saved: Any) -> None:
    path = saved.manifest_path("ckpt-002")
    whole = path.read_bytes()
    for index in range(len(whole)):
        for mask in (0xFF, 1 << index % 8):
            damaged = bytearray(whole)
            damaged[index] ^= mask
            path.write_bytes(damaged)
            assert assert_passed_over(saved)
    path.write_bytes(whole)
    assert saved.checkpoints.newest_valid().manifest.checkpoint_id == "ckpt-002"


def test_every_truncation_of_a_manifest(saved: Any) -> None:
    path = saved.manifest_path("ckpt-002")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert assert_passed_over(saved)
    path.write_bytes(whole + b"x")
    assert assert_passed_over(saved)


@pytest.mark.parametrize("junk", [b"", b"\0" * 4096, b"[" * 100_000, b"null", b'{"a":1,"a":1}', b"9" * 5000])
def test_junk_for_a_manifest(saved: Any, junk: bytes) -> None:
    saved.manifest_path("ckpt-002").write_bytes(junk)
    assert assert_passed_over(saved)


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])


def alter(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def linked_parent(path: Path) -> None:
    moved = path.parent.with_name("moved")
    path.parent.rename(moved)
    path.parent.symlink_to(moved)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nonexistent")


DAMAGES = [remove, shorten, alter, link, fifo, folder, dangling]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("damage", [*DAMAGES, linked_parent], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("data", [DATA, b"new"], ids=["variable", "artifact"])
def test_every_damage_of_an_object(saved: Any, data: bytes, damage: Callable[[Path], None]) -> None:
    damage(saved.object_path(data))
    assert "object " in assert_passed_over(saved)
    if damage is not linked_parent:  # a folder of objects that is a link is for a person to mend
        assert saved.save({"df": DATA}, {"x.csv": b"new"}).checkpoint_id == "ckpt-003"
        assert saved.checkpoints.newest_valid().manifest.checkpoint_id == "ckpt-003"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_of_a_manifest_file(saved: Any, damage: Callable[[Path], None]) -> None:
    damage(saved.manifest_path("ckpt-002"))
    assert "manifest of ckpt-002" in assert_passed_over(saved)
    assert saved.save().checkpoint_id == "ckpt-003"


def test_the_manifest_of_an_older_checkpoint_in_place_of_the_newest(saved: Any) -> None:
    shutil.copy(saved.manifest_path("ckpt-001"), saved.manifest_path("ckpt-002"))
    assert "belongs to" in assert_passed_over(saved)


ESCAPES = [
    "../../../etc/passwd",
    "/etc/passwd",
    "S01_load_data/../../x",
    "S01_load_data/a\0b",
    "S01_load_data/con",
    "S01_load_data/.hidden",
    "S01_load_data/" + "x" * 300,
    "S01_load_data\\x",
    "S02_other/x",
    "S01_load_data",
    "",
]


@pytest.mark.parametrize("path", ESCAPES, ids=ascii)
def test_a_manifest_that_points_outside_is_refused_although_its_hash_is_right(saved: Any, path: str) -> None:
    """Whoever can write to the store can make a hash; the names in a manifest are checked all the same."""
    draft = saved.draft(artifacts={"x.csv": b"new"}, sequence=3)
    escaping = draft.artifacts[0].model_copy(update={"relative_path": path})
    forged = draft.model_copy(update={"artifacts": (escaping,)})
    with pytest.raises(ManifestDamaged):
        saved.checkpoints.commit(forged)
    target = saved.manifest_path("ckpt-002")
    target.write_bytes(
        _sealed_unchecked(forged.model_copy(update={"sequence": 2, "checkpoint_id": "ckpt-002"}))
    )
    assert "relativePath" in (reason := assert_passed_over(saved)) or "artifact path" in reason


def _sealed_unchecked(draft: ManifestDraft) -> bytes:
    """What `seal` makes, for a draft that `seal` itself refuses."""
    import hashlib

    import rfc8785

    document = draft.model_dump(mode="json", by_alias=True) | {
        "integrity": {"signature": None, "keyId": None}
    }
    document["integrity"]["manifestSha256"] = hashlib.sha256(rfc8785.dumps(document)).hexdigest()
    return bytes(rfc8785.dumps(document))


def test_the_forger_would_get_a_harmless_manifest_through(saved: Any) -> None:
    """Else the test above would pass for the wrong reason."""
    draft = saved.draft(sequence=3)
    assert _sealed_unchecked(draft) == seal(draft)[1]
