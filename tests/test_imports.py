"""Imports go one way, the core is pure, and what runs inside a kernel is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each room may import from those that are listed for it, and from itself.
ALLOWED = {
    "errors": set(),
    "version": set(),
    "core": {"errors"},
    "settings": {"errors", "core"},
    "storage": {"errors", "core"},
    "codecs": {"errors", "core"},
    "in_kernel": {"errors", "version", "core", "storage", "codecs"},
    "notebook": {"errors", "core", "storage", "codecs"},
    "reporting": {"errors", "core", "storage", "codecs"},
    "supervisor": {
        "errors",
        "version",
        "settings",
        "core",
        "storage",
        "codecs",
        "in_kernel",
        "notebook",
        "reporting",
        "bridge",
    },
    "cli": {
        "errors",
        "version",
        "settings",
        "core",
        "storage",
        "codecs",
        "in_kernel",
        "notebook",
        "reporting",
        "supervisor",
    },
    "bridge": set(),
    "api": {"version", "in_kernel"},
}
IMPURE = {
    "os",
    "time",
    "threading",
    "logging",
    "socket",
    "subprocess",
    "pathlib",
    "tempfile",
    "shutil",
    "datetime",
}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "kernel_bridge":
        return "bridge"
    if parts[0] != "gyoshu_ckpt":
        return None
    return parts[1] if len(parts) > 1 else "api"


def modules() -> list[Path]:
    found = [*(ROOT / "gyoshu_ckpt").rglob("*.py"), *(ROOT / "kernel_bridge").rglob("*.py")]
    assert len(found) > 40
    return found


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    room = room_of(dotted)
    assert room in ALLOWED, f"{dotted} lies in no room of the house"
    for imported in imports_of(path):
        other = room_of(imported)
        assert other is None or other == room or other in ALLOWED[room], f"{dotted} imports {imported}"


@pytest.mark.parametrize("path", sorted((ROOT / "gyoshu_ckpt/core").glob("*.py")), ids=lambda path: path.stem)
def test_the_core_has_no_clock_no_disk_and_no_threads(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports_of(path)} & IMPURE


HEAVY = {
    "pandas",
    "pyarrow",
    "numpy",
    "click",
    "pydantic",
    "matplotlib",
    "polars",
    "nbformat",
    "jupyter_client",
    "rich",
}


@pytest.mark.parametrize(
    "module",
    [
        "gyoshu_ckpt",
        "gyoshu_ckpt.in_kernel.recorder",
        "gyoshu_ckpt.in_kernel.restoring",
        "gyoshu_ckpt.in_kernel.hello",
    ],
)
def test_what_runs_in_a_kernel_pulls_nothing_heavy_into_it(module: str) -> None:
    code = f"import {module}, sys; print(*(set(sys.modules) & {HEAVY!r}))"
    pulled = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert pulled.split() == []


def test_the_public_api_is_what_it_says() -> None:
    import gyoshu_ckpt

    for name in gyoshu_ckpt.__all__:
        assert getattr(gyoshu_ckpt, name) is not None
    with pytest.raises(AttributeError):
        gyoshu_ckpt.no_such_thing  # noqa: B018  # the attempt is the test
