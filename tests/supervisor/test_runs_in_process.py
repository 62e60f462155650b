"""Whole runs without a kernel process: what is on disk and what is said, after every way to stop."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

sys.path.insert(0, str(Path(__file__).parent))
from in_process_kernel import DIE, HANG, HANG_HARD, InProcessKernels

from gyoshu_ckpt.core.history import fold
from gyoshu_ckpt.core.plan import Plan
from gyoshu_ckpt.core.run_state import RunState
from gyoshu_ckpt.errors import Damaged, GyoshuError, KernelUnavailable, LockHeld, UserMistake
from gyoshu_ckpt.settings import Settings
from gyoshu_ckpt.storage.checkpoints import CheckpointStore
from gyoshu_ckpt.storage.journal import read_journal
from gyoshu_ckpt.storage.layout import StoreLayout
from gyoshu_ckpt.storage.run_lock import lock_run
from gyoshu_ckpt.supervisor import opening, session
from gyoshu_ckpt.supervisor.session import Outcome
from kernel_bridge.interface import KernelNotAvailable
from kernel_bridge.scripted_session import ManualClock, ScriptedSession

THREE = (
    "import math",
    "%%stage S01_make_numbers --out numbers\nimport random\nnumbers = [random.random() for _ in range(3)]\nhidden = 7",
    "%%stage S02_add_up --out total\n"
    "def half(x):\n    return x / 2\ntotal = math.fsum(numbers)\nprint('[METRIC] total')",
    "%%stage S03_use_all --out answer\nanswer = half(total) + hidden + random.random()",
)


class Listener:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.events: list[str] = []

    def session_began(self, plan: Plan, run_id: str, finished: Mapping[str, int | None]) -> None:
        self.finished = dict(finished)

    def recorded(self, event: str, fields: Mapping[str, Any]) -> None:
        self.events.append(event)

    def told(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def printed(self, text: str) -> None:
        pass

    def session_ended(self) -> None:
        self.events.append("ended")


class Lab:
    """A folder with a notebook, a store and kernels."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.kernels = InProcessKernels()
        self.listener = Listener()
        self.settings = Settings(root=folder, stage_s=240, longest_stage_s=600, save_s=600)
        self.layout = StoreLayout.at(folder)
        # The session's clock is the kernel's: hours pass in a millisecond.
        monkeypatch.setitem(session.RunSession.__init__.__kwdefaults__, "clock", self.kernels.clock.now)

    def write(
        self, *cells: str, name: str = "study.ipynb", tags: Mapping[int, list[str]] | None = None
    ) -> Path:
        made = [new_code_cell(text) for text in cells]
        for place, cell in enumerate(made):
            cell["id"] = f"cell-{place}"
            cell["metadata"]["tags"] = (tags or {}).get(place, [])
        path = self.folder / name
        nbformat.write(new_notebook(cells=made), path)
        return path

    def run(self, *cells: str, **request: Any) -> Outcome:
        self.source = self.write(*cells)
        _, outcome = opening.start_run(
            opening.NewRun(self.source, **request), self.settings, self.listener, make_kernel=self.kernels
        )
        return outcome

    def go_on(self, *cells: str) -> Outcome:
        if cells:
            self.write(*cells)
        self.listener = Listener()
        return opening.continue_run(
            self.settings, "study", "run-001", self.listener, make_kernel=self.kernels
        )

    @property
    def namespace(self) -> dict[str, Any]:
        return self.kernels.namespaces[-1]

    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.layout, "study", "run-001")

    def history(self):  # type: ignore[no-untyped-def]
        return fold(read_journal(self.layout.journal("study", "run-001"), self.layout.reports).records)

    def notebook(self) -> Any:
        document = nbformat.read(self.layout.notebook("study", "run-001"), as_version=4)
        nbformat.validate(document)
        return document


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def test_a_run_from_end_to_end(lab: Lab) -> None:
    before = lab.write(*THREE).read_bytes()
    outcome = lab.run(*THREE)
    assert (outcome.state, outcome.exit_code) == ("COMPLETED", 0)
    assert [entry.manifest.stage_id for entry in lab.checkpoints().entries()] == [
        "S01_make_numbers",
        "S02_add_up",
        "S03_use_all",
    ]
    assert lab.source.read_bytes() == before
    run = lab.layout.run_dir("study", "run-001")
    assert json.loads((run / "S01_make_numbers/numbers.json").read_text()) == lab.namespace["numbers"]
    assert "S03_use_all" in (run / "progress.md").read_text()
    assert "**METRIC** total" in (run / "progress.md").read_text()
    tags = [cell.metadata.get("tags") for cell in lab.notebook().cells if cell.cell_type == "markdown"]
    assert tags == [["gyoshu-checkpoint"]] * 3
    assert any("hidden" in sentence for sentence in lab.listener.sentences)
    assert not (run / ".exchange").exists()
    assert lab.kernels.made[0].calls[-1] == "close"


@pytest.mark.parametrize("broken", [DIE, "raise ValueError('boom')", "1 / 0"])
def test_a_crash_in_the_last_stage_then_continue_gives_the_uninterrupted_result(
    lab: Lab, broken: str
) -> None:
    import random

    random.seed(1)
    outcome = lab.run(*THREE[:3], f"{THREE[3]}\n{broken}")
    assert outcome.exit_code == 1
    assert outcome.next_step is not None
    assert "gyoshu continue" in outcome.next_step
    crashed = dict(lab.namespace)
    random.seed(99)  # a fresh kernel knows nothing of the old one's random state
    outcome = lab.go_on(*THREE)
    assert outcome.exit_code == 0
    assert lab.namespace["numbers"] == crashed["numbers"]
    assert lab.namespace["hidden"] == 7
    random.seed(1)
    numbers = [random.random() for _ in range(3)]
    assert lab.namespace["answer"] == sum(numbers) / 2 + 7 + random.random()
    assert lab.history().attempts()["S03_use_all"] == 2
    assert lab.history().attempts()["S01_make_numbers"] == 1
    assert "[REHYDRATED:from=ckpt-002]" in json.dumps(lab.notebook())
    reasons = [str(entry.manifest.reason) for entry in lab.checkpoints().entries() if entry.manifest.reason]
    assert reasons == ["kernel_died" if broken == DIE else "error"]


def test_the_resumed_notebook_keeps_outputs_and_shows_the_rehydration_cell(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n1 / 0")
    lab.go_on(*THREE)
    cells = lab.notebook().cells
    kinds = [(cell.metadata.get("tags") or [cell.id])[0] for cell in cells]
    assert kinds == [
        "cell-0",
        "cell-1",
        "gyoshu-checkpoint",
        "cell-2",
        "gyoshu-checkpoint",
        "gyoshu-rehydration",
        "cell-3",
        "gyoshu-checkpoint",
    ]
    assert cells[3].outputs[0].text == "[METRIC] total\n"


def test_already_complete_says_so(lab: Lab) -> None:
    lab.run(*THREE)
    outcome = lab.go_on()
    assert outcome.exit_code == 0
    assert "already complete" in outcome.message
    assert len(lab.kernels.made) == 1


def test_a_damaged_checkpoint_is_passed_over_with_its_reason(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n1 / 0")
    lab.layout.manifest("study", "run-001", "ckpt-002").write_text("{}")
    assert lab.go_on(*THREE).exit_code == 0
    assert any("ckpt-002 is passed over" in sentence for sentence in lab.listener.sentences)
    assert lab.history().attempts()["S02_add_up"] == 2
    assert lab.history().attempts()["S01_make_numbers"] == 1


def test_the_number_of_a_pruned_checkpoint_is_not_given_again(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n1 / 0")
    shutil.rmtree(lab.layout.checkpoint_dir("study", "run-001", "ckpt-003"))  # the incident
    assert lab.go_on(*THREE).exit_code == 0
    assert lab.checkpoints().entries()[-1].checkpoint_id == "ckpt-004"


def test_nothing_valid_starts_the_run_again(lab: Lab) -> None:
    lab.run(THREE[0], f"{THREE[1]}\n1 / 0", *THREE[2:])
    assert lab.go_on(*THREE).exit_code == 0
    assert any("starts again at its first stage" in sentence for sentence in lab.listener.sentences)
    assert lab.history().attempts()["S01_make_numbers"] == 2


def test_a_changed_stage_and_what_follows_it_run_again(lab: Lab) -> None:
    lab.run(*THREE)
    outcome = lab.go_on(THREE[0], THREE[1], THREE[2].replace("fsum(numbers)", "fsum(numbers) * 0"), THREE[3])
    assert outcome.exit_code == 0
    assert lab.namespace["total"] == 0
    assert any("the source of S02_add_up has changed" in sentence for sentence in lab.listener.sentences)
    assert lab.history().attempts() == {"S01_make_numbers": 1, "S02_add_up": 2, "S03_use_all": 2}


def test_a_comment_changes_nothing(lab: Lab) -> None:
    lab.run(*THREE)
    assert "already complete" in lab.go_on(*(f"{text}\n# and a comment" for text in THREE)).message


def test_a_stage_that_hangs_is_interrupted_at_its_limit(lab: Lab) -> None:
    outcome = lab.run(THREE[0], THREE[1], f"%%stage S02_wait --max 1m\n{HANG}")
    assert (outcome.state, outcome.exit_code) == ("INTERRUPTED", 124)
    assert "S02_wait passed its limit after 1m" in outcome.message
    assert lab.kernels.made[0].calls.count("interrupt") == 1
    assert "terminate" not in lab.kernels.made[0].calls
    assert lab.notebook().cells[-1].outputs[0].text == "hanging\n"


def test_a_stage_that_ignores_everything_is_killed(lab: Lab) -> None:
    outcome = lab.run(f"%%stage S01_wait --max 1m\n{HANG_HARD}")
    assert outcome.exit_code == 124
    ladder = [call for call in lab.kernels.made[0].calls if call in {"interrupt", "terminate", "kill"}]
    assert ladder == ["interrupt", "terminate", "kill"]
    assert lab.kernels.clock.now() >= 68


def test_a_setup_value_that_stages_changed_comes_back_changed(lab: Lab) -> None:
    cells = (
        "results = {}",
        "%%stage S01_first\nresults['first'] = 1",
        "%%stage S02_second\nresults['second'] = results['first'] + 1",
    )
    lab.run(cells[0], cells[1], f"{cells[2]}\n1 / 0")
    assert lab.go_on(*cells).exit_code == 0
    assert lab.namespace["results"] == {"first": 1, "second": 2}


def test_a_value_changed_in_place_by_a_later_stage_comes_back_changed(lab: Lab) -> None:
    cells = (
        "%%stage S01_first --out rows\nrows = [1]",
        "%%stage S02_second\nalias = rows\nalias.append(2)",
        "%%stage S03_third --out n\nn = len(rows)",
    )
    lab.run(*cells[:2], f"{cells[2]}\n1 / 0")
    assert lab.go_on(*cells).exit_code == 0
    assert lab.namespace["n"] == 2
    visible = lab.layout.artifact("study", "run-001", "S01_first/rows.json")
    assert json.loads(visible.read_text()) == [1]


@pytest.mark.parametrize(
    ("first", "second", "third", "expected"),
    [
        # Functions without a definition of their own read the notebook's globals, before and after.
        ("K = 1\nf = lambda: K", "K = 2", "r = f()", 2),
        ("rows = []\nadd = {'f': lambda x: rows.append(x)}", "add['f'](1)", "add['f'](2)\nr = rows", [1, 2]),
        (
            "def make():\n    n = [0]\n    def g():\n        n[0] += K\n        return n[0]\n    return g\n"
            "K = 1\ng = make()",
            "g()\nK = 10",
            "r = g()",
            11,
        ),
        # A default, and what a class body computed, are those of the definition.
        ("K = 1\ndef h(k=K):\n    return k", "K = 2", "r = (h(), K)", (1, 2)),
        ("K = 1\nclass N:\n    rate = K", "K = 2", "r = (N.rate, K)", (1, 2)),
        # What was done to definitions since.
        ("class C:\n    lr = 1", "C.lr = 2", "r = C.lr", 2),
        (
            "class B:\n    count = 0\n    def __init__(self):\n        B.count += 1",
            "B(), B()",
            "B()\nr = B.count",
            3,
        ),
        (
            "class A:\n    def m(self):\n        return 1\ndef patched(self):\n    return 2",
            "A.m = patched",
            "r = A().m()",
            2,
        ),
        ("def fact():\n    pass\nfact.calls = 1", "fact.calls += 10", "r = fact.calls", 11),
        (
            "def memo(x, cache={}):\n    cache[x] = x\n    return len(cache)",
            "memo(1), memo(2)",
            "r = memo(3)",
            3,
        ),
        ("cfg = {'a': 1}\ndef use(c=cfg):\n    return c['a']", "pass", "cfg['a'] = 5\nr = use()", 5),
        ("import threading\nclass L:\n    lock = threading.Lock()\n    n = 1", "L.n = 2", "r = L.n", 2),
        # Two names for one object.
        ("m = {'a': 1}\nbest = m", "pass", "best['a'] = 2\nr = (m['a'], m is best)", (2, True)),
        ("m = []\nbest = m", "best = m + [1]", "best.append(2)\nr = (m, best)", ([], [1, 2])),
        # Of two imports of one name the last counts.
        ("import time\nfrom time import time", "import time", "r = type(time).__name__", "module"),
    ],
)
@pytest.mark.parametrize("crash_in", [2, 3])
def test_what_is_easily_lost_comes_back(
    lab: Lab, first: str, second: str, third: str, expected: Any, crash_in: int
) -> None:
    cells = [f"%%stage S01_a\n{first}", f"%%stage S02_b\n{second}", f"%%stage S03_c --out r\n{third}"]
    broken = list(cells)
    broken[crash_in - 1] += f"\n{DIE}"
    lab.run(*broken)
    assert lab.go_on(*cells).exit_code == 0
    assert lab.namespace["r"] == expected


def test_a_value_that_cannot_be_saved_names_itself_and_leaves_the_last_checkpoint(lab: Lab) -> None:
    outcome = lab.run(THREE[0], THREE[1], "%%stage S02_lazy --out lazy\nlazy = (n for n in numbers)")
    assert outcome.exit_code == 1
    assert "lazy" in outcome.message
    assert "generator" in outcome.message
    assert outcome.next_step
    assert lab.checkpoints().newest_valid().manifest.stage_id == "S01_make_numbers"


def test_an_output_that_was_never_assigned(lab: Lab) -> None:
    outcome = lab.run("%%stage S01_maybe --out x\nif False:\n    x = 1")
    assert outcome.exit_code == 1
    assert "x" in outcome.message
    assert "no such variable" in outcome.message


def test_files_and_folders_become_artifacts(lab: Lab) -> None:
    outcome = lab.run(
        "import gyoshu_ckpt as gy",
        "%%stage S01_write --out table.csv --out plots/\n"
        "gy.artifact_path('table.csv').write_text('a,b')\n"
        "(gy.artifact_path('plots') / 'one.txt').write_text('1')",
        "%%stage S02_read --out text\ntext = gy.artifact_path('table.csv', stage='S01_write').read_text()",
    )
    assert outcome.exit_code == 0, outcome.message
    run = lab.layout.run_dir("study", "run-001")
    assert (run / "S01_write/table.csv").read_text() == "a,b"
    assert (run / "S01_write/plots/one.txt").read_text() == "1"
    assert lab.namespace["text"] == "a,b"
    assert list((run / ".staging").iterdir()) == []


def test_two_outputs_that_come_to_have_the_same_file_name(lab: Lab) -> None:
    outcome = lab.run(
        "import gyoshu_ckpt as gy",
        "%%stage S01_write --out a.json --out a\na = [1]\ngy.artifact_path('a.json').write_text('2')",
    )
    assert outcome.exit_code == 1
    assert "another output of the stage has the file name a.json" in outcome.message


def test_a_declared_file_that_was_not_written(lab: Lab) -> None:
    outcome = lab.run("%%stage S01_write --out table.csv\npass")
    assert outcome.exit_code == 1
    assert "table.csv" in outcome.message


def test_a_missing_input_fails_before_the_first_cell(lab: Lab) -> None:
    outcome = lab.run("%%stage S01_load --in raw.csv\nraise SystemError")
    assert outcome.exit_code == 1
    assert "raw.csv" in outcome.message
    (lab.folder / "raw.csv").write_text("x")
    assert lab.go_on("%%stage S01_load --in raw.csv\npass").exit_code == 0


def test_parameters_are_kept_for_the_continue(lab: Lab) -> None:
    cells = (
        "size = 1",
        "%%stage S01_use --out twice\ntwice = size * 2",
        "%%stage S02_more --out more\nmore = twice + size",
    )
    path = lab.write(*cells[:2], f"{cells[2]}\n1 / 0", tags={0: ["parameters"]})
    opening.start_run(
        opening.NewRun(path, parameters={"size": 5}), lab.settings, lab.listener, make_kernel=lab.kernels
    )
    lab.write(*cells, tags={0: ["parameters"]})
    assert lab.go_on().exit_code == 0
    assert lab.namespace["more"] == 15


def test_a_lost_notebook_is_replaced_by_the_copy_of_the_run(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n{DIE}")
    lab.source.unlink()
    outcome = lab.go_on()
    assert outcome.message == "the kernel was killed by SIGKILL"
    assert any("using the copy that the run keeps" in sentence for sentence in lab.listener.sentences)


def test_the_copy_is_of_the_notebook_that_was_run_last(lab: Lab) -> None:
    lab.run(*THREE[:2], f"{THREE[2]}\n1 / 0", THREE[3])
    lab.go_on(*THREE[:3], f"{THREE[3]}\n{DIE}")
    lab.source.unlink()
    assert lab.go_on().message == "the kernel was killed by SIGKILL"


def test_a_lost_journal_costs_neither_parameters_nor_notebook(lab: Lab) -> None:
    cells = (
        "size = 1",
        "%%stage S01_use --out twice\ntwice = size * 2",
        "%%stage S02_more --out more\nmore = twice + size",
    )
    path = lab.write(*cells[:2], f"{cells[2]}\n1 / 0", tags={0: ["parameters"]})
    opening.start_run(
        opening.NewRun(path, parameters={"size": 5}), lab.settings, lab.listener, make_kernel=lab.kernels
    )
    lab.write(*cells, tags={0: ["parameters"]})
    lab.layout.journal("study", "run-001").unlink()
    assert lab.go_on().exit_code == 0
    assert lab.namespace["more"] == 15
    assert "the journal has lost its beginning" in lab.listener.sentences


def test_without_journal_and_identity_nothing_is_guessed(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n1 / 0")
    lab.layout.journal("study", "run-001").write_bytes(b"\0" * 100)
    lab.layout.identity("study", "run-001").write_text("{")
    with pytest.raises(Damaged, match="which notebook and parameters") as refusal:
        lab.go_on(*THREE)
    assert refusal.value.exit_code == 65


def test_a_run_in_use_is_refused_with_its_holder(lab: Lab) -> None:
    lab.run(*THREE)
    with (
        lock_run(lab.layout, "study", "run-001", command="gyoshu elsewhere"),
        pytest.raises(LockHeld, match="elsewhere"),
    ):
        lab.go_on()


def test_a_kernel_that_does_not_start(lab: Lab) -> None:
    def broken(kernel_name: str, folder: Path, environment: Mapping[str, str]) -> ScriptedSession:
        return ScriptedSession([], ManualClock(), fails_to_start=KernelNotAvailable("no kernel", "x\nboom"))

    path = lab.write(*THREE)
    with pytest.raises(KernelUnavailable, match="no kernel: boom") as refusal:
        opening.start_run(opening.NewRun(path), lab.settings, lab.listener, make_kernel=broken)
    assert refusal.value.exit_code == 69
    assert lab.history().state is RunState.FAILED
    assert lab.go_on().exit_code == 0


def test_a_stage_that_asks_for_more_than_the_settings_allow_never_starts(lab: Lab) -> None:
    with pytest.raises(UserMistake, match="asks for 1h"):
        lab.run("%%stage S01_long --max 1h\npass")
    assert lab.kernels.made == []
    assert not lab.layout.reports.exists()


@pytest.mark.parametrize("cells", [("%%stage S01_x --out y\npass",), ("%%stage bad\npass",), ("1 +",), ()])
def test_bad_plans_fail_before_a_kernel_starts(lab: Lab, cells: tuple[str, ...]) -> None:
    with pytest.raises(GyoshuError) as refusal:
        lab.run(*cells)
    assert "study.ipynb" in refusal.value.message
    assert refusal.value.exit_code == 2
    assert lab.kernels.made == []


def test_a_continue_publishes_what_is_missing_and_leaves_what_was_edited(lab: Lab) -> None:
    lab.run(*THREE[:3], f"{THREE[3]}\n1 / 0")
    run = lab.layout.run_dir("study", "run-001")
    (run / "S01_make_numbers/numbers.json").unlink()
    (run / "S02_add_up/total.json").write_text("edited")
    assert lab.go_on(*THREE).exit_code == 0
    assert (run / "S01_make_numbers/numbers.json").exists()
    assert (run / "S02_add_up/total.json").read_text() == "edited"
    assert any(
        "S02_add_up/total.json is not as it was saved" in sentence for sentence in lab.listener.sentences
    )
