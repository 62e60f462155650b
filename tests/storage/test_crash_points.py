"""SIGKILL before every system call that changes a file, during save, prune and resume.

A first run under strace finds the calls; then each gets a run of its own that is killed just before it.
After each kill: the newest valid checkpoint is the old or the new one and is whole, nothing that has a final
name is torn, the lock is free, a fresh save works, and a prune clears away what the dead process left.

Not covered: loss of power (see ``docs``: fsync order is tested in `test_durable_files`), and a write that the
kernel cut in two (`test_journal`; every other write goes to a temp file).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from gyoshu_ckpt.storage.artifacts import publish_artifacts
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.durable_files import is_leftover
from gyoshu_ckpt.storage.journal import read_journal
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.objects import ObjectStore
from gyoshu_ckpt.storage.pruning import prune_title
from gyoshu_ckpt.storage.run_lock import lock_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("crash_driver.py")
CHUNKS = 4  # for xdist to spread
CHANGING = (
    "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,rename,renameat,renameat2,link,linkat,unlink,unlinkat,"
    "mkdir,mkdirat,rmdir,fsync,fdatasync,sync_file_range,ftruncate,truncate,fallocate,chmod,fchmod,fchmodat,ioctl,"
    "symlink,symlinkat,copy_file_range,sendfile,utimensat,mknod,mknodat,fchown,fchownat"
)
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<rest>.*)")
OPENED_TO_CHANGE = ("O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR")
CHANGES_WITH = {
    "open": OPENED_TO_CHANGE,
    "openat": OPENED_TO_CHANGE,
    "ioctl": ("FICLONE",),
}  # all others always


class Point(NamedTuple):
    """The ``nth`` call of that name by the main thread: strace counts by thread and by name."""

    name: str
    nth: int
    shown: str


def driver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crash_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRIVEN = driver()
TITLE, RUN = DRIVEN.TITLE, DRIVEN.RUN


@pytest.fixture(scope="session")
def strace() -> str:
    found = shutil.which("strace")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI has to have strace: crash points are not optional there")
        pytest.skip("CRASH POINTS NOT TESTED: strace is not installed (apt-get install strace)")
    return found


def prepare(root: Path, scenario: str) -> None:
    """Three checkpoints, the newest published; what the scenario changes is still to be done."""
    layout = StoreLayout.at(root)
    layout.run_dir(TITLE, RUN).mkdir(parents=True)
    for _ in range(3):
        DRIVEN.save(layout)
    prune_title(layout, TITLE, 9)  # makes the lock files, as any command before did
    if scenario == "resume":
        for name in DRIVEN.content(3):
            layout.artifact(TITLE, RUN, f"{DRIVEN.STAGE}/{name}").unlink()


def run_driver(strace: str, scenario: str, root: Path, log: Path, *inject: str) -> int:
    command = [  # no --seccomp-bpf: with it strace 6.1 forgets to inject
        strace,
        "-f",
        "-qq",
        "-y",
        "-s",
        "64",
        "-o",
        str(log),
        "-e",
        f"trace={CHANGING}",
        *inject,
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [*command, sys.executable, "-S", str(DRIVER), scenario, str(root)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode not in {0, -signal.SIGKILL}:
        raise AssertionError(f"the driver failed by itself:\n{done.stderr}")
    return done.returncode


def find_points(log: Path, root: Path) -> list[Point]:
    points: list[Point] = []
    counts: dict[str, int] = {}
    main = None
    for line in log.read_text(errors="replace").splitlines():
        call = CALL.match(line)
        if call is None:
            continue
        main = main or call["pid"]
        changes_the_store = str(root) in line and any(
            word in line for word in CHANGES_WITH.get(call["name"], [""])
        )
        if call["pid"] != main:
            assert not changes_the_store, f"a helper thread changes the store, and is not killed here: {line}"
            continue
        counts[call["name"]] = counts.get(call["name"], 0) + 1
        if changes_the_store:
            points.append(Point(call["name"], counts[call["name"]], line))
    return points


def last_call(log: Path) -> str:
    """The call before which the process died: strace shows it without a result."""
    [unfinished] = [line for line in log.read_text(errors="replace").splitlines() if line.endswith(" = ?")][
        -1:
    ]
    return unfinished


def same_call(one: str, other: str) -> bool:
    """Whether two lines show the same call on the same file, whatever pid and temp name the runs had."""

    def essence(line: str) -> str:
        call = CALL.match(line)
        assert call is not None, line
        rest = re.sub(r"\.[0-9a-f]{16}\.gyoshu-tmp", "TEMP", call["rest"])
        return call["name"] + (
            rest.partition(",")[0] if "write" in call["name"] else re.sub(r"\) += .*", "", rest)
        )

    return essence(one) == essence(other)


def assert_old_or_new(root: Path, scenario: str, point: Point) -> None:
    layout = StoreLayout.at(root)
    store = CheckpointStore(layout, TITLE, RUN)
    found = store.newest_valid()
    assert found.manifest is not None, point
    assert found.manifest.sequence in ({3, 4} if scenario == "save" else {3}), point
    assert store.verify(found.manifest.checkpoint_id) == [], point
    for (
        entry
    ) in store.entries():  # a folder without a manifest is a save or a removal cut short; never a torn one
        assert entry.problem is None or entry.problem.endswith("is missing"), (point, entry.problem)
    for path in layout.objects_dir(TITLE).rglob("*"):
        if path.is_file() and not is_leftover(path.name):
            ObjectStore(layout, TITLE).verify(path.parent.name + path.name, path.stat().st_size)
    for name in DRIVEN.content(0):
        visible = layout.artifact(TITLE, RUN, f"{DRIVEN.STAGE}/{name}")
        if visible.exists():
            assert visible.read_bytes() in {DRIVEN.content(3)[name], DRIVEN.content(4)[name]}, point
        else:
            assert scenario == "resume", point
    reading = read_journal(layout.journal(TITLE, RUN), layout.reports)
    assert (reading.damaged_lines, reading.torn_tail) == (0, False), point
    assert len(reading.records) in {3, 4}, point
    assert_work_goes_on(layout, store, point)


def assert_work_goes_on(layout: StoreLayout, store: CheckpointStore, point: Point) -> None:
    with lock_run(layout, TITLE, RUN, command="test"):
        DRIVEN.save(layout)
        fresh = store.newest_valid().manifest
        assert fresh is not None, point
        assert fresh.sequence == store.next_sequence() - 1, point
        assert publish_artifacts(layout, fresh).left_alone == (), point
    result = prune_title(layout, TITLE, 1)
    assert result.swept is not None, point
    assert list(layout.reports.rglob("*.gyoshu-tmp")) == [], point
    assert store.newest_valid() == (type(store.newest_valid()))(fresh, ()), point
    files = [path for path in layout.objects_dir(TITLE).rglob("*") if path.is_file()]
    assert len(files) == len(fresh.artifacts), point


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("scenario", ["save", "prune", "resume"])
def test_a_kill_at_every_point_leaves_old_or_new(
    strace: str, tmp_path: Path, scenario: str, chunk: int, record_property: pytest.RecordProperty
) -> None:
    prepare(tmp_path / "template", scenario)
    template, root, log = tmp_path / "template", tmp_path / "store", tmp_path / "strace.log"

    def fresh_store() -> None:
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", str(template), str(root)], check=True)  # -a keeps hard links hard

    fresh_store()
    assert run_driver(strace, scenario, root, log) == 0
    points = find_points(log, root)
    mine = points[chunk::CHUNKS]
    print(f"{scenario}: {len(points)} crash points, {len(mine)} of them here")
    record_property("crash_points", len(mine))
    assert len(points) >= 20, "the counting run found next to nothing: strace's output has changed"
    for point in mine:
        fresh_store()
        inject = f"inject={point.name}:signal=SIGKILL:when={point.nth}"
        code = run_driver(strace, scenario, root, log, "-e", inject)
        assert code == -signal.SIGKILL, f"not deterministic: {point} was never reached"
        assert same_call(last_call(log), point.shown), (
            "not deterministic: another call was hit than the one meant"
        )
        assert_old_or_new(root, scenario, point)


def test_the_points_found_are_the_calls_that_matter(strace: str, tmp_path: Path) -> None:
    kinds: dict[str, set[str]] = {}
    for scenario in ("save", "prune", "resume"):
        root = tmp_path / scenario
        prepare(root, scenario)
        run_driver(strace, scenario, root, tmp_path / "log")
        points = find_points(tmp_path / "log", root)
        kinds[scenario] = {re.sub(r"(at2?|64)$", "", point.name) for point in points}
    assert kinds["save"] >= {"open", "write", "fsync", "rename", "mkdir", "link", "ioctl"}
    assert kinds["prune"] >= {"unlink", "fsync"}
    assert kinds["resume"] >= {"open", "write", "fsync", "rename", "mkdir", "link", "unlink"}
