import pytest

from gyoshu_ckpt.errors import BadPlan
from gyoshu_ckpt.notebook.place import Place
from gyoshu_ckpt.notebook.syntax import hash_of_sources, parse_cell

PLACE = Place("nb.ipynb", 4, "S02_eda")


def fingerprint(*cells: str) -> str:
    return hash_of_sources(parse_cell(cell, PLACE).shape for cell in cells)


@pytest.mark.parametrize(
    ("code", "line", "shown"),
    [
        ("x = 1\ny = = 2", 2, "y = = 2"),
        ("def f(:\n    pass", 1, "def f(:"),
        ("x = 1\nreturn x", 2, "return x"),
        ("for i in x:\nprint(i)", 2, "print(i)"),
        ("x = 'open", 1, "x = 'open"),
        ("x = '''open", 1, "x = '''open"),
        ("\n\nx = (", 3, "x = ("),
        ("!ls\nx = 1\nimport", 3, "import"),
        ("%%time\nx = 1\ny = = 2", 3, "y = = 2"),
        ("def f(a, a): pass", 1, "def f(a, a): pass"),
        ("break", 1, "break"),
        ("x = '\0'", 1, ""),
        ("x = '\ud800'", 1, ""),
    ],
)
def test_a_syntax_error_is_told_with_its_line(code: str, line: int, shown: str) -> None:
    with pytest.raises(BadPlan) as refusal:
        parse_cell(code, PLACE)
    assert refusal.value.message.startswith(f"nb.ipynb, cell 4 (S02_eda): line {line} is not valid Python (")
    assert refusal.value.message.endswith(shown)
    assert refusal.value.next_step


def test_lines_are_counted_from_where_the_code_begins_in_its_cell() -> None:
    with pytest.raises(BadPlan, match="line 3 is not valid Python"):
        parse_cell("x = 1\ny = = 2", PLACE, first_line=2)


@pytest.mark.parametrize(
    ("code", "magic", "line"),
    [
        ("x = 1\n%%stage S03_a", "%%stage", 2),
        ("# note\n%%time\nx", "%%time", 2),
        ("%%time\n%%stage S03_a\nx", "%%stage", 2),
        ("%%capture\n\n# x\n%%bash\nls", "%%bash", 4),
    ],
)
def test_a_cell_magic_that_is_not_the_first_line(code: str, magic: str, line: int) -> None:
    with pytest.raises(
        BadPlan, match=rf"^nb\.ipynb, cell 4 .*: {magic} stands on line {line}, .* first line"
    ) as refusal:
        parse_cell(code, PLACE)
    assert magic in (refusal.value.next_step or "")


@pytest.mark.parametrize(
    "code", ["'''\n%%stage S03_a\n'''", "%%writefile x\n%%stage S03_a", "%%bash\nx = = 1", "await x"]
)
def test_what_only_looks_wrong(code: str) -> None:
    parse_cell(code, PLACE)


def test_a_warning_of_the_compiler_is_not_ours_to_give() -> None:
    parse_cell("x = '\\d' is 'y'", PLACE)  # warnings are errors here


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["x = 1"], ["x   =   1  # why\n\n"]),
        (["x = 1\ny = 2"], ["x = 1", "# only this", "y = 2"]),
        (["x = 'a'"], ['x = "a"']),
        (["f(a,\n  b)"], ["f(a, b)"]),
        (["x = u'a'"], ["x = 'a'"]),
        (["x = (1)"], ["x = 1"]),
        (["!ls\nx = 1"], ["!ls\n\nx = 1 # c"]),
        (["%%time\nx = 1"], ["%%time\nx  = 1"]),
        (["%%bash  -s a\nls"], ["%%bash -s a\nls\n\n"]),
    ],
)
def test_comments_and_formatting_do_not_change_the_fingerprint(one: list[str], other: list[str]) -> None:
    assert fingerprint(*one) == fingerprint(*other)


DIFFERENT = [
    "x = 1",
    "x = 2",
    "x = 1.0",
    "x = True",
    "x = '1'",
    "x = b'1'",
    "x = None",
    "x",
    "x += 1",
    "y = 1",
    "x: int = 1",
    "x: int",
    "def f(): pass",
    "def f(): 'doc'",
    "async def f(): pass",
    "def f(*, a): pass",
    "def f(a): pass",
    "def f(a, /): pass",
    "import a",
    "import a as b",
    "from a import b",
    "from . import b",
    "{**a}",
    "{None: a}",
    "f'{a}'",
    "f'{a!r}'",
    "'{a}'",
    "!ls",
    "!ls -l",
    "%%time\nx = 1",
    "%%bash\nls",
    "%%bash\nls -l",
    "%%capture c\nx = 1",
    "x = 1\nx = 1",
    "lambda: 0",
    "...",
    "for i in x: pass",
    "while x: pass",
    "x[1:2]",
    "x[1::2]",
    "not x",
    "-x",
]


def test_any_change_of_the_code_changes_the_fingerprint() -> None:
    assert len({fingerprint(code) for code in DIFFERENT}) == len(DIFFERENT)


def test_the_fingerprint_is_the_same_in_every_version() -> None:
    """Checkpoints of earlier releases refer to it: raise `_HASH_VERSION` when this changes."""
    code = "@deco\ndef f(a, *b, c=1, **d) -> int:\n    '''Doc.'''\n    return [x for x in b if x] + f'{a:>3}'"
    assert fingerprint(code).startswith("42cb4787d18645a8")


def test_code_too_deep_to_walk_is_known_by_its_text() -> None:
    deep = "x = " + " + ".join(["1"] * 3000)
    assert parse_cell(deep, PLACE).shape == deep
    assert fingerprint(deep) != fingerprint(deep + " + 1")
