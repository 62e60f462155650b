"""One writer per run, across processes, freed by death."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gyoshu_ckpt.errors import BadName, LockHeld, NoSuchRun, StoreUnavailable
from gyoshu_ckpt.storage import run_lock as run_lock_module
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.run_lock import create_run, holder_of, lock_run, title_lock

pytestmark = pytest.mark.timeout(60)

HOLD = """
import sys
from pathlib import Path
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.run_lock import create_run, lock_run, title_lock
layout = StoreLayout.at(Path(sys.argv[1]))
what = sys.argv[2]
if what == "create":
    held = create_run(layout, "t", command="gyoshu run t.ipynb", clock=lambda: "2026-03-01T10:32:07+00:00")
elif what == "title":
    held = title_lock(layout, "t")
else:
    held = lock_run(layout, "t", what, command="gyoshu continue", clock=lambda: "2026-03-01T10:32:07+00:00")
with held:
    print(getattr(held, "run_id", "held"), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout.at(tmp_path)


@contextmanager
def another_process(layout: StoreLayout, what: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lock from when this yields until its stdin ends or it is killed."""
    command = [sys.executable, "-c", HOLD, str(layout.reports.parent), what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip()
            yield process
        finally:
            process.kill()


def today() -> str:
    return "2026-03-01T11:00:00+00:00"


def tomorrow() -> str:
    return "2026-03-02T11:00:00+00:00"


def test_a_second_process_is_refused_and_told_who(layout: StoreLayout) -> None:
    with another_process(layout, "create") as process:
        with pytest.raises(LockHeld) as caught:
            lock_run(layout, "t", "run-001", command="gyoshu continue", clock=today)
        message = f"run-001 of t is in use by process {process.pid} (gyoshu run t.ipynb, since 10:32)"
        assert caught.value.message == message
        assert caught.value.exit_code == 75
        with pytest.raises(LockHeld, match="since 2026-03-01 10:32"):
            lock_run(layout, "t", "run-001", command="gyoshu continue", clock=tomorrow)
        holder = holder_of(layout, "t", "run-001")
        assert holder is not None
        assert holder.pid == process.pid


def test_death_frees_the_lock(layout: StoreLayout) -> None:
    with another_process(layout, "create") as process:
        process.kill()
        process.wait()
        assert layout.lock_holder("t", "run-001").exists()  # nobody was left to remove it
        assert holder_of(layout, "t", "run-001") is None
        with lock_run(layout, "t", "run-001", command="gyoshu continue") as lock:
            assert lock.holder.pid == os.getpid()


def test_an_orderly_end_frees_the_lock(layout: StoreLayout) -> None:
    with another_process(layout, "create") as process:
        process.communicate("")
        assert process.returncode == 0
        assert not layout.lock_holder("t", "run-001").exists()
        lock_run(layout, "t", "run-001", command="gyoshu continue").release()


def test_a_zombie_holds_nothing(layout: StoreLayout) -> None:
    with another_process(layout, "create") as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet reaped
        assert holder_of(layout, "t", "run-001") is None


def test_two_takers_in_one_process(layout: StoreLayout) -> None:
    with create_run(layout, "t", command="a") as lock:
        assert lock.run_id == "run-001"
        with pytest.raises(LockHeld, match=f"process {os.getpid()}"):
            lock_run(layout, "t", "run-001", command="b")
    lock.release()
    lock_run(layout, "t", "run-001", command="b").release()


def test_runs_that_start_at_once_get_numbers_of_their_own(layout: StoreLayout) -> None:
    command = [sys.executable, "-c", HOLD, str(layout.reports.parent), "create"]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **options) for _ in range(4)]
    shown = sorted(process.communicate()[0].strip() for process in processes)
    assert shown == ["run-001", "run-002", "run-003", "run-004"]


def test_the_title_lock_waits_for_its_time_only(layout: StoreLayout) -> None:
    with create_run(layout, "t", command="a"), another_process(layout, "title"):
        with (
            pytest.raises(LockHeld, match="'t' is being changed by another process"),
            title_lock(layout, "t", timeout=0.2),
        ):
            pass
        assert holder_of(layout, "t", "run-001") is not None


def test_a_reused_pid_is_another_process(layout: StoreLayout) -> None:
    with create_run(layout, "t", command="a"):
        path = layout.lock_holder("t", "run-001")
        holder = json.loads(path.read_text())
        assert holder_of(layout, "t", "run-001") is not None
        path.write_text(json.dumps(holder | {"started": holder["started"] - 1}))
        assert holder_of(layout, "t", "run-001") is None
        with pytest.raises(LockHeld, match="in use by another process"):  # the lock is the truth
            lock_run(layout, "t", "run-001", command="b")


@pytest.mark.parametrize("junk", [b"", b"[]", b"{}", b"\xff", b'{"pid": "x"}', b"[" * 60_000])
def test_a_damaged_holder_file_names_nobody(layout: StoreLayout, junk: bytes) -> None:
    create_run(layout, "t", command="a").release()
    layout.lock_holder("t", "run-001").write_bytes(junk)
    assert holder_of(layout, "t", "run-001") is None


def test_what_a_holder_file_says_cannot_steer_a_terminal(layout: StoreLayout) -> None:
    with create_run(layout, "t", command="evil \x1b[2J"), pytest.raises(LockHeld) as caught:
        lock_run(layout, "t", "run-001", command="b")
    assert caught.value.message.isprintable()


def test_links_are_refused(layout: StoreLayout, tmp_path: Path) -> None:
    create_run(layout, "t", command="a").release()
    path = layout.run_lock("t", "run-001")
    path.unlink()
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(StoreUnavailable, match="cannot serve as a lock"):
        lock_run(layout, "t", "run-001", command="b")
    assert not (tmp_path / "precious").exists()
    path.unlink()
    layout.title_lock("t").unlink()
    os.mkfifo(layout.title_lock("t"))
    with pytest.raises(StoreUnavailable, match="cannot serve as a lock"):
        lock_run(layout, "t", "run-001", command="b")


def test_a_linked_run_is_no_run(layout: StoreLayout, tmp_path: Path) -> None:
    create_run(layout, "t", command="a").release()
    (tmp_path / "outside").mkdir()
    layout.run_dir("t", "run-002").symlink_to(tmp_path / "outside")
    with pytest.raises(NoSuchRun):
        lock_run(layout, "t", "run-002", command="b")
    with pytest.raises(StoreUnavailable, match="is a symbolic link"):
        run_lock_module.take_run_lock(layout, "t", "run-002", command="b")


def test_what_is_not_there(layout: StoreLayout) -> None:
    with pytest.raises(NoSuchRun):
        lock_run(layout, "t", "run-001", command="b")
    with pytest.raises(NoSuchRun), title_lock(layout, "t"):
        pass
    with pytest.raises(BadName):
        create_run(layout, "../up", command="b")
    assert holder_of(layout, "t", "run-001") is None


def test_lock_files_are_private(layout: StoreLayout) -> None:
    with create_run(layout, "t", command="a"):
        for path in (
            layout.run_lock("t", "run-001"),
            layout.lock_holder("t", "run-001"),
            layout.title_lock("t"),
        ):
            assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("fault", "is_taken"), [(StoreUnavailable("full"), True), (KeyboardInterrupt(), False)]
)
def test_a_holder_file_that_cannot_be_written(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch, fault: BaseException, is_taken: bool
) -> None:
    """A full disk keeps nobody from locking, because prune has to; an interrupt gives the lock back."""

    def refuse(*args: object, **options: object) -> None:
        raise fault

    create_run(layout, "t", command="a").release()
    with monkeypatch.context() as patch:
        patch.setattr(run_lock_module, "replace_quickly", refuse)
        if is_taken:
            with (
                lock_run(layout, "t", "run-001", command="b"),
                pytest.raises(LockHeld, match="by another process"),
            ):
                lock_run(layout, "t", "run-001", command="c")
        else:
            with pytest.raises(KeyboardInterrupt):
                lock_run(layout, "t", "run-001", command="b")
    lock_run(layout, "t", "run-001", command="b").release()


def test_a_filesystem_without_flock_is_refused_not_emulated(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def missing(fd: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.raises(StoreUnavailable):
        create_run(layout, "t", command="a")
