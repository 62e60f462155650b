"""The manifest: what is sealed reads back, key order never matters, and every other change is noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gyoshu_ckpt.core.manifest import ManifestDraft, manifest_json_schema, read_manifest, seal
from gyoshu_ckpt.errors import ManifestDamaged

SHA = "ab" * 32


def draft(**changes: Any) -> ManifestDraft:
    value = {"codec": "npy", "codec_version": 1, "trust": "data", "sha256": SHA, "size_bytes": 12}
    fields: dict[str, Any] = {
        "checkpoint_id": "ckpt-003",
        "research_session_id": "abc",
        "report_title": "study",
        "run_id": "run-001",
        "stage_id": "S01_a",
        "attempt": 1,
        "sequence": 3,
        "parent": "ckpt-002",
        "created_at": "2026-01-01T00:00:00Z",
        "execution_count": 4,
        "status": "saved",
        "notebook": {"path": "reports/study/run-001/notebook.ipynb", "checkpoint_cell_id": "x"},
        "python_env": {
            "python_path": "/usr/bin/python3",
            "version": "3.11.7",
            "packages": {"numpy": "2.0"},
            "platform": "Linux",
            "kernel_name": "python3",
            "random_state": value,
        },
        "fingerprint": {"setup": "s", "params": "p", "stages": {"S01_a": "x"}},
        "artifacts": [
            {**value, "name": "x", "stage_id": "S01_a", "relative_path": "S01_a/x.npy", "media_type": "a/b"}
        ],
        "variables": [{**value, "name": "x", "sha256": "cd" * 32}],
        "rehydration": {"mode": "with_vars"},
    }
    return ManifestDraft.model_validate(fields | changes, strict=False)


def test_sealed_reads_back_the_same_and_names_each_object_once() -> None:
    manifest, data = seal(draft())
    assert read_manifest(data) == manifest
    assert [value.sha256 for value in manifest.stored_values()] == [SHA, "cd" * 32]
    assert json.loads(data)["researchSessionID"] == "abc"


def test_key_order_and_blanks_do_not_matter() -> None:
    manifest, data = seal(draft())
    document = json.loads(data)
    shuffled = {key: document[key] for key in reversed(document)}
    assert read_manifest(json.dumps(shuffled, indent=3).encode()) == manifest


def _paths(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(document, dict):
        return [path for key, value in document.items() for path in _paths(value, (*prefix, key))]
    if isinstance(document, list):
        return [path for key, value in enumerate(document) for path in _paths(value, (*prefix, key))]
    return [prefix]


def test_every_field_is_covered_by_the_hash() -> None:
    _, data = seal(draft())
    paths = _paths(json.loads(data))
    assert len(paths) > 40
    for path in paths:
        document = json.loads(data)
        place = document
        for step in path[:-1]:
            place = place[step]
        old = place[path[-1]]
        place[path[-1]] = old + 1 if isinstance(old, int) else f"{old or ''}0"
        with pytest.raises(ManifestDamaged):
            read_manifest(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a":1,"a":2}', "twice"),
        (b"[" * 100_000, "not JSON"),
        (b'{"schemaVersion": 2}', "newer gyoshu"),
        (b'{"schemaVersion": 1}', "Field required"),
    ],
)
def test_what_is_no_manifest(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestDamaged, match=reason):
        read_manifest(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "../run-001"},
        {"report_title": "a/b"},
        {"stage_id": "S01_a]"},
        {"sequence": 4},
        {"reason": "error"},
        {"status": "emergency"},
        {"stage_id": None},
        {"checkpoint_id": "ckpt-003\n"},
        {
            "variables": [
                {
                    "name": "x y",
                    "codec": "npy",
                    "codec_version": 1,
                    "trust": "data",
                    "sha256": SHA,
                    "size_bytes": 1,
                }
            ]
        },
        {
            "artifacts": [
                {
                    "name": "x",
                    "stage_id": "S01_a",
                    "relative_path": path,
                    "media_type": "a/b",
                    "codec": "npy",
                    "codec_version": 1,
                    "trust": "data",
                    "sha256": SHA,
                    "size_bytes": 1,
                }
                for path in ("../x", "/etc/passwd", "S02_b/x", "S01_a/../../x")
            ]
        },
    ],
)
def test_drafts_that_escape_or_contradict_themselves(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        draft(**changes)


def test_the_schema_is_published_and_names_every_field() -> None:
    schema = manifest_json_schema()
    _, data = seal(draft())
    assert set(json.loads(data)) == set(schema["properties"])
    assert schema["$schema"].startswith("https://json-schema.org/")
