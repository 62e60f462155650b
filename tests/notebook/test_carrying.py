"""What the checkpoints hold, on the smallest notebooks that raise each question."""

import pytest

from gyoshu_ckpt.core.plan import Carried, Output, OutputKind, Stage
from gyoshu_ckpt.notebook.carrying import carried_names, undeclared
from gyoshu_ckpt.notebook.names import read_names
from gyoshu_ckpt.notebook.place import Place
from gyoshu_ckpt.notebook.syntax import parse_cell


def carried(setup: str, *stages: str, out: dict[int, str] | None = None) -> dict[str, tuple[Carried, ...]]:
    """Stages are called S1, S2, …; ``out`` declares variables by the stage's number."""

    def stage(number: int, code: str) -> Stage:
        names = read_names([parse_cell(code, Place("nb"))])
        outputs = tuple(Output(name, OutputKind.VARIABLE) for name in (out or {}).get(number, "").split())
        return Stage(f"S{number}", "", (), outputs=outputs, names=names)

    return carried_names(
        read_names([parse_cell(setup, Place("nb"))]),
        [stage(number, code) for number, code in enumerate(stages, 1)],
    )


def shown(found: dict[str, tuple[Carried, ...]]) -> list[str]:
    """``S1: x``, with ``?`` behind what is not certain and ``(setup)`` behind what setup makes."""

    def one(each: Carried) -> str:
        return each.name + ("" if each.certain else "?") + ("" if each.made_by else "(setup)")

    return [f"{stage}: {' '.join(map(one, names))}" for stage, names in found.items() if names]


TABLE = [
    # setup, stages, what is carried
    ("", ["x = 1", "x"], ["S1: x"]),
    ("", ["x = 1", "pass", "x"], ["S1: x", "S2: x"]),
    ("", ["x = 1", "x = 2", "x"], ["S2: x"]),
    ("", ["x = 1", "if c:\n    x = 2", "x"], ["S1: x", "S2: x"]),
    ("", ["x = 1", "x += 1"], ["S1: x"]),
    ("", ["x = 1", "x = 2\nx"], []),
    ("", ["x = 1", "for x in y:\n    x"], []),
    ("", ["fig, ax = f()\nax", "fig, ax = f()\nax"], []),
    ("", ["x = 1\ndel x", "x"], []),
    ("", ["x = 1", "def f():\n    return x"], []),
    ("", ["x = 1", "def f():\n    return x\nf()"], ["S1: x"]),
    ("", ["x = 1", "def f():\n    return x", "f()"], ["S1: x", "S2: x"]),
    ("", ["x = 1", "y = 2", "print(x, y)"], ["S1: x", "S2: x y"]),
    # by import or by source, not by value
    ("", ["import np", "np"], []),
    ("", ["def f(): pass", "f()"], []),
    ("", ["class A: pass", "A()"], []),
    ("", ["def f(): pass\nf = wrap(f)", "f()"], ["S1: f"]),
    ("", ["x = 1", "import x", "x"], []),
    ("", ["try:\n    import np\nexcept E:\n    np = None", "np"], ["S1: np"]),
    # through functions, however far
    ("", ["cfg = 1\ndef f():\n    return cfg", "f()"], ["S1: cfg"]),
    ("", ["cfg = 1\ndef f():\n    return g()\ndef g():\n    return cfg", "f()"], ["S1: cfg"]),
    ("def f():\n    return cfg", ["cfg = 1", "f()"], ["S1: cfg"]),
    ("", ["cfg = 1\ndef f(x=cfg):\n    return x", "f()"], ["S1: cfg"]),
    ("", ["cfg = 1\ndef f(x=cfg):\n    return x", "pass"], ["S1: cfg?"]),
    # through values, perhaps
    ("", ["cfg = 1\nclass M:\n    def p(self):\n        return cfg\nm = M()", "m.p()"], ["S1: cfg? m"]),
    ("class M:\n    def p(self):\n        return cfg", ["cfg = 1\nm = M()", "m.p()"], ["S1: cfg? m"]),
    ("", ["raw = 1\ndef load():\n    return raw", "x = 1", "x"], ["S2: x"]),
    # setup runs again: its names matter once a stage has touched them
    ("x = 1", ["y = 2", "x"], []),
    ("x = {}", ["x[1] = 2", "x"], ["S1: x(setup)"]),
    ("x = 1", ["x = 2", "x"], ["S1: x"]),
    ("x = {}\ndef put():\n    x[1] = 2", ["put()", "x"], ["S1: x(setup)"]),
    ("x = 1", ["y = x", "pass", "x"], ["S1: x(setup)", "S2: x(setup)"]),
    # hidden code
    ("", ["exec(s)", "x"], ["S1: x?"]),
    ("", ["y = 1", "exec(s)"], ["S1: y?"]),
    ("", ["y = 1", "exec(s)", "y"], ["S1: y", "S2: y"]),
    ("", ["y = 1", "unknown"], []),
]


@pytest.mark.parametrize(
    ("setup", "stages", "expected"), TABLE, ids=[f"{row[0]!r} {row[1]}" for row in TABLE]
)
def test_what_is_carried(setup: str, stages: list[str], expected: list[str]) -> None:
    assert shown(carried(setup, *stages)) == expected


def test_declared_outputs_are_not_carried_from_their_stage_on() -> None:
    assert shown(carried("", "x = y = 1", "z = x", "x, y, z", out={1: "x", 2: "y"})) == ["S1: y", "S2: z"]


def test_who_makes_and_who_reads() -> None:
    found = carried("", "x = 1", "pass", "x", "x")
    assert found == {
        "S1": (Carried("x", "S1", "S3"),),
        "S2": (Carried("x", "S1", "S3"),),
        "S3": (Carried("x", "S1", "S4"),),
        "S4": (),
    }


def test_an_input_that_is_declared_counts_as_read() -> None:
    names = [read_names([parse_cell(code, Place("nb"))]) for code in ("x = 1", "pass")]
    stages = [
        Stage("S1", "", (), names=names[0]),
        Stage("S2", "", (), inputs=("x", "raw.csv"), names=names[1]),
    ]
    assert carried_names(read_names([]), stages)["S1"] == (Carried("x", "S1", "S2"),)


def test_the_user_is_told_of_each_certain_name_of_a_stage_once() -> None:
    found = carried(
        "s = {}", "s[1] = x = y = 1\ncfg = 1\nclass M:\n    def p(self): return cfg\nm = M()", "x", "m, s, x"
    )
    assert [(each.name, each.made_by, each.read_by) for each in undeclared(found)] == [
        ("m", "S1", "S3"),
        ("x", "S1", "S2"),
    ]


def test_many_stages_take_no_time() -> None:
    stages = [f"x{n} = 1\ndef f{n}():\n    return x{n}" for n in range(200)]
    found = carried("", *stages, "\n".join(f"f{n}()" for n in range(200)))
    assert len(found["S200"]) == 200
