"""One table of code and what it does with names; the rest are the questions that a table cannot ask."""

import sys

import pytest

from gyoshu_ckpt.core.plan import StageNames, WayBack
from gyoshu_ckpt.errors import BadPlan
from gyoshu_ckpt.notebook.names import all_bindings, has_lazy_annotations, read_names
from gyoshu_ckpt.notebook.place import Place
from gyoshu_ckpt.notebook.syntax import parse_cell


def names(*cells: str, lazy: bool = False) -> StageNames:
    return read_names([parse_cell(cell, Place("nb")) for cell in cells], lazy_annotations=lazy)


def words(text: str) -> set[str]:
    return set(text.split())


TABLE = [
    # code, assigned, read, needed
    ("x = 1", "x", "", ""),
    ("x = y", "x", "y", "y"),
    ("x = y = z", "x y", "z", "z"),
    ("a, (b, *c) = d", "a b c", "d", "d"),
    ("[a, b] = d", "a b", "d", "d"),
    ("x += 1", "x", "x", "x"),
    ("x = 0\nx += 1", "x", "x", ""),
    ("x: int = 1", "x", "", ""),
    ("x: T", "", "T", "T"),
    ("x: T = 1", "x", "T", "T"),
    ("o.a = 1", "", "o", "o"),
    ("o[k] = v", "", "o k v", "o k v"),
    ("o.a: int = v", "", "o v", "o v"),
    ("print(len(x))", "", "x", "x"),
    ("del x", "", "", "x"),
    ("x = 1\ndel x", "", "", ""),
    ("x = 1\ndel x\nx = 2", "x", "", ""),
    ("x = 1\nif c:\n    del x", "x", "c", "c"),
    ("del o[k]", "", "o k", "o k"),
    # branches and loops
    ("if c:\n    x = 1", "x", "c", "c"),
    ("if c:\n    x = 1\nprint(x)", "x", "c x", "c x"),
    ("if c:\n    x = 1\nelse:\n    x = 2\nprint(x)", "x", "c x", "c"),
    ("if c:\n    x = 1\nelif d:\n    x = 2\nelse:\n    x = 3\nprint(x)", "x", "c d x", "c d"),
    ("if c:\n    raise E\nelse:\n    x = 1\nprint(x)", "x", "c E x", "c E"),
    ("for i in xs:\n    print(i)", "i", "xs i", "xs"),
    ("for i in xs:\n    pass\nprint(i)", "i", "xs i", "xs i"),
    ("for i, (j, *k) in xs:\n    t = i\n    t", "i j k t", "xs i t", "xs"),
    ("for i in xs:\n    pass\nelse:\n    y = 1", "i y", "xs", "xs"),
    ("for o.a in xs:\n    pass", "", "xs o", "xs o"),
    ("while c:\n    x = 1\nx", "x", "c x", "c x"),
    ("while (line := f()):\n    print(line)", "line", "f line", "f"),
    ("with o() as f:\n    x = f\nprint(f, x)", "f x", "o f x", "o"),
    ("with a() as (p, q), b(p):\n    pass", "p q", "a b p", "a b"),
    ("try:\n    x = 1\nexcept E as e:\n    print(e)\nprint(x)", "x", "E e x", "E x"),
    ("try:\n    x = 1\nexcept E:\n    x = 2\nprint(x)", "x", "E x", "E"),
    ("try:\n    x = 1\nexcept E:\n    raise\nprint(x)", "x", "E x", "E"),
    ("try:\n    e = 1\nexcept E as e:\n    pass\nprint(e)", "e", "E e", "E"),
    ("try:\n    pass\nexcept E as e:\n    pass\nprint(e)", "", "E e", "E e"),
    ("try:\n    x = 1\nfinally:\n    print(x)", "x", "x", ""),
    ("try:\n    pass\nexcept E:\n    pass\nelse:\n    y = 1", "y", "E", "E"),
    ("try:\n    x = 1\nexcept* E as g:\n    h = g", "x h", "E g", "E"),
    ("e = 1\ntry:\n    pass\nexcept E as e:\n    pass\nprint(e)", "e", "E e", "E"),
    (
        "match s:\n    case [a, *b]:\n        pass\n"
        "    case {'k': c, **d}:\n        pass\n    case C(x=e) | e:\n        pass",
        "a b c d e",
        "s C",
        "s C",
    ),
    ("match s:\n    case 1 as n if n > lim:\n        print(n)", "n", "s n lim", "s lim"),
    ("match s:\n    case 1:\n        x = 1\n    case _:\n        x = 2\nx", "x", "s x", "s"),
    ("match s:\n    case 1:\n        x = 1\nx", "x", "s x", "s x"),
    # walrus
    ("(x := f())", "x", "f", "f"),
    ("if (m := f()):\n    print(m)\nprint(m)", "m", "f m", "f"),
    ("if a and (b := 1):\n    pass\nprint(b)", "b", "a b", "a b"),
    ("if (a := 1) and f():\n    pass\nprint(a)", "a", "f a", "f"),
    ("y = (b := 1) if c else 2\nb", "y b", "c b", "c b"),
    ("ok = any((hit := v) for v in vs)", "ok hit", "vs", "vs"),
    ("g = lambda: (inner := 1)", "g", "", ""),
    # scopes
    ("[i * k for i in xs if i > t]", "", "xs k t", "xs k t"),
    ("{i: j for i in xs for j in i}", "", "xs", "xs"),
    ("sorted(xs, key=lambda v: v + k)", "", "xs k", "xs k"),
    ("f = lambda a, *b, c=d, **e: a + b + c + e + g", "f", "d g", "d g"),
    ("i = 1\n[i for i in i]", "i", "i", ""),
    (
        "def f(a, /, b=d, *c, e: T = h, **g) -> R:\n    return a + b + c + e + g + k",
        "",
        "d T h R k",
        "d T h R",
    ),
    ("def f():\n    x = 1\n    return x", "", "", ""),
    ("def f():\n    print(x)\n    x = 1", "", "", ""),
    ("def f():\n    global x\n    x = y", "x", "y", ""),
    ("def f():\n    global x\n    x += 1", "x", "x", ""),
    ("def f():\n    global x\n    def g():\n        return x", "", "x", ""),
    ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = z\n    return g", "", "z", ""),
    ("def f():\n    import os\n    os.x", "", "", ""),
    (
        "def f():\n    for i in xs:\n        i\n    with o as w:\n        w\n"
        "    try:\n        pass\n    except E as e:\n        e",
        "",
        "xs o E",
        "",
    ),
    (
        "def f():\n    match s:\n        case [a, *b]:\n"
        "            return a, b\n        case {**r}:\n            return r",
        "",
        "s",
        "",
    ),
    ("def f():\n    if (n := g()):\n        return n", "", "g", ""),
    ("def f():\n    [n := v for v in vs]\n    return n", "", "vs", ""),
    ("def f():\n    del x", "", "", ""),
    ("def f():\n    return [x for x in xs if x in ys]", "", "xs ys", ""),
    ("async def f():\n    async for i in xs:\n        await g(i)", "", "xs g", ""),
    ("class A(B, metaclass=M):\n    x = y\n    def m(self):\n        return x, z", "", "B M y x z", "B M y"),
    ("class A:\n    x = 1\n    y = x", "", "", ""),
    ("class A:\n    y = x\n    x = 1", "", "x", "x"),
    ("class A:\n    if c:\n        x = 1\n    y = x", "", "c x", "c x"),
    ("class A:\n    try:\n        x = 1\n    except* E:\n        pass\n    y = x", "", "E x", "E x"),
    ("class A:\n    xs = [1]\n    ys = [x for x in xs]", "", "", ""),
    ("class A:\n    k = 2\n    ys = [x * k for x in range(3)]", "", "k", "k"),
    ("class A:\n    def m(self):\n        return A", "", "A", ""),
    ("class A:\n    print(__qualname__, __module__)", "", "", ""),
    ("class A:\n    global g\n    g = 1", "g", "", ""),
    # a function counts when its name is read
    ("def f():\n    return cfg\ncfg = 1\nf()", "cfg", "cfg f", ""),
    ("def f():\n    return cfg\nf()\ncfg = 1", "cfg", "cfg f", "cfg"),
    ("def f():\n    return g()\ndef g():\n    return cfg\nf()", "", "g cfg f", "cfg"),
    ("@deco\ndef f():\n    return cfg", "", "deco cfg", "deco cfg"),
    (
        "if c:\n    def f():\n        return a\nelse:\n    def f():\n        return b\nf()",
        "f",
        "c a b f",
        "c a b",
    ),
    # imports
    ("import a.b.c\na.b", "", "a", ""),
    ("if c:\n    import np", "np", "c", "c"),
    ("try:\n    import a\nexcept ImportError:\n    a = None\na", "a", "a", ""),
    ("import a\na = a.b", "a", "a", ""),
    # top-level await and friends
    ("x = await f(y)", "x", "f y", "f y"),
    ("async for i in xs:\n    print(i)", "i", "xs i", "xs"),
    ("async with o() as f:\n    f", "f", "o f", "o"),
    # names in strings
    ("df.query('a > @lim and b in @ok')", "", "df lim ok", "df lim ok"),
    ("duckdb.sql(f'''SELECT x from df\njoin other using (k)''')", "", "duckdb df other", "duckdb df other"),
    ("print('@lim from df')", "", "", ""),
    ("f'{x!r:>{w}}'", "", "x w", "x w"),
    # unicode: Python reads names in normal form
    ("größe = ﬁt", "größe", "fit", "fit"),
    # magics
    ("%time df = load(p)", "df", "load p", "load p"),
    ("for p in ps:\n    %time r = load(p)", "p r", "ps load p", "ps load"),
    ("t = %timeit -n 3 -o f(x)", "t", "f x", "f x"),
    ("%timeit y = f(x)", "", "f x", "f x"),
    ("%prun -l 5 r = f(x)", "r", "f x", "f x"),
    ("files = !ls {folder} | grep $word", "files", "folder word", "folder word"),
    ("!echo {xs[i]} {} {1 +} $2", "", "xs i", "xs i"),
    ("%cd {folder}", "", "folder", "folder"),
    ("x?", "", "", ""),
    ("%%time\ny = x", "y", "x", "x"),
    ("%%capture out --no-stderr\ny = x", "y out", "x", "x"),
    ("%%capture --no-display\ny = x", "y", "x", "x"),
    ("%%capture out\n%%time\ny = x", "y out", "x", "x"),
    ("%%prun -l 3\ny = x", "y", "x", "x"),
    ("%%timeit -n 3\ny = x", "", "x", "x"),
    ("%%bash --out text --err bad -s {arg}\necho $nothing", "text bad", "arg", "arg"),
    ("%%html\n<b>x</b>", "", "", ""),
    ("%%writefile {name}.py\nx = 1\n%%stage S01_a", "", "name", "name"),
]


@pytest.mark.parametrize(("code", "assigned", "read", "needed"), TABLE, ids=[row[0] for row in TABLE])
def test_what_a_cell_does(code: str, assigned: str, read: str, needed: str) -> None:
    found = names(code)
    assert (found.assigned, found.read, found.needed) == (words(assigned), words(read), words(needed))
    assert not found.opaque


# Python 3.11 cannot parse these; there, nobody can have them in a notebook either.
TYPE_PARAMETERS = [
    ("type X = list[T0]", "X", "T0"),
    ("def f[T](x: T) -> list[T]:\n    return g(T)", "", "g"),
    ("class C[T](Base[T]):\n    x: T", "", "Base"),
]


@pytest.mark.parametrize(("code", "assigned", "read"), TYPE_PARAMETERS)
def test_type_parameters(code: str, assigned: str, read: str) -> None:
    if sys.version_info < (3, 12):
        with pytest.raises(BadPlan, match="is not valid Python"):
            names(code)
        return
    assert (names(code).assigned, names(code).read) == (words(assigned), words(read))


@pytest.mark.parametrize(
    "code",
    [
        "exec('x = 1')",
        "eval('x')",
        "globals()['x'] = 1",
        "locals()",
        "vars()['x'] = 1",
        "def f():\n    exec(s)",
        "from m import *",
        "import __main__",
        "%run other.py",
        "%load x.py",
        "%store -r df",
        "%pylab",
        "%reset -f",
        "%unknown_magic x",
        "x = %unknown_magic",
        "%%unknown_magic\nx = 1",
        "%%time\nexec(s)",
        "get_ipython().push({'x': 1})",
        "get_ipython().run_cell('x = 1')",
        "%time x = (",
    ],
)
def test_code_that_hides_names(code: str) -> None:
    assert names(code).opaque


@pytest.mark.parametrize(
    "code",
    [
        "vars(o)",
        "df.eval('a')",
        "o.exec(x)",
        "def exec2():\n    pass",
        "%matplotlib inline",
        "!ls",
        "%pip install x",
        "def f(eval):\n    return eval(x)",
    ],
)
def test_code_that_only_looks_like_it(code: str) -> None:
    assert not names(code).opaque


@pytest.mark.parametrize("terms", [250, 500, 1000, 3000, 100_000])
def test_a_tree_too_deep_to_walk_hides_names(terms: int) -> None:
    assert names("x = " + " + ".join(["1"] * terms)).opaque
    assert not names("x = " + " + ".join(["1"] * 50)).opaque


def imports_of(code: str) -> list[tuple[str, str]]:
    return [(each.name, each.source) for each in names(code).imports]


def test_imports_one_by_one_in_order() -> None:
    code = (
        "from __future__ import annotations\nimport a, b.c as d\n"
        "import e.f\nfrom . import g\nfrom .h import i as j, k"
    )
    assert imports_of(code) == [
        ("annotations", "from __future__ import annotations"),
        ("a", "import a"),
        ("d", "import b.c as d"),
        ("e", "import e.f"),
        ("g", "from . import g"),
        ("j", "from .h import i as j"),
        ("k", "from .h import k"),
    ]


def test_a_star_import_is_kept_though_it_hides_names() -> None:
    assert imports_of("from m import *") == [("*", "from m import *")]
    assert names("from m import *").bound() == set()


@pytest.mark.parametrize(
    "magic", ["load_ext autoreload", "autoreload 2", "matplotlib inline", "config X.y = 'z'"]
)
def test_line_magics_that_last(magic: str) -> None:
    name, _, argument = magic.partition(" ")
    (found,) = names(f"x = 1\n%{magic}").imports
    assert found.name == f"%{name}"
    assert found.source == f"get_ipython().run_line_magic({name!r}, {argument!r})"


def test_other_magics_and_nested_ones_do_not_last() -> None:
    assert names("%pwd\nif c:\n    %matplotlib inline").imports == ()


SOURCES = [
    "def f(x,  y = 1):\n    # as it was written\n    return   x",
    '@deco(a,\n      b)\n@other\nasync def f():\n    """Doc\n\n      text."""',
    "class A:\n\n    def m(self): return '''\nx\n'''  # tail",
    "def f(): return 1",
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "around", ["{}", "x = 1\n\n{}\n\n\ny = 2", "# été ﬁ \u2028 \x0c\n{}", "!ls\n{}\n%cd x", "%%time\n{}"]
)
def test_the_source_of_a_definition_is_the_text_of_its_lines(source: str, around: str) -> None:
    (definition,) = names(around.format(source)).definitions
    assert definition.source == source


def test_a_definition_with_a_shell_line_in_it_is_stored_as_python() -> None:
    (definition,) = names("def f():\n    !ls").definitions
    assert definition.source == "def f():\n    get_ipython().system('ls')"


def test_what_a_definition_reads_now_and_later() -> None:
    code = (
        "@deco(n)\ndef f(a: T = d) -> R:\n    return later\nclass A(Base):\n"
        "    x: X = y\n    def m(self, z=w):\n        later2"
    )
    f, a = names(code).definitions
    assert (f.reads, f.uses, f.decorators) == ({"deco", "n", "T", "d", "R"}, {"later"}, {"deco", "n"})
    assert (a.reads, a.uses, a.decorators) == ({"Base", "X", "y", "w"}, {"later2"}, set())


def test_annotations_are_not_evaluated_under_the_future_import() -> None:
    (definition,) = names("def f(a: T = d) -> R:\n    b: U = 1", lazy=True).definitions
    assert (definition.reads, definition.uses) == ({"d"}, set())
    cells = [
        parse_cell(code, Place("nb")) for code in ("x = 1", "from __future__ import division, annotations")
    ]
    assert has_lazy_annotations(cells)
    assert not has_lazy_annotations(cells[:1])


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("f = 1", WayBack.VARIABLE),
        ("def f(): pass", WayBack.DEFINITION),
        ("class f: pass", WayBack.DEFINITION),
        ("from m import f", WayBack.IMPORT),
        ("def f(): pass\nf = wrap(f)", WayBack.VARIABLE),
        ("f = 1\ndef f(): pass", WayBack.DEFINITION),
        ("def f(): pass\nfrom m import f", WayBack.IMPORT),
        ("from m import f\ndef f(): pass", WayBack.DEFINITION),
        ("from m import f\nf = f.g", WayBack.VARIABLE),
        ("f = 1\nimport f", WayBack.IMPORT),
        ("def f(): pass\nif c:\n    f = 2", WayBack.VARIABLE),
        ("if c:\n    def f(): pass", WayBack.VARIABLE),
        ("def f(): pass\ndel f", None),
        ("try:\n    pass\nexcept E as f:\n    pass", None),
        ("[f for f in x]", None),
        ("def g(f): pass", None),
    ],
)
def test_the_last_binding_decides_the_way_back(code: str, way: WayBack | None) -> None:
    assert names(*code.split("\n#\n")).way_back("f") is way
    assert ("f" in names(code).bound()) is (way is not None)


def test_cells_are_read_one_after_the_other() -> None:
    found = names("x = 1", "y = x + z", "z = 2")
    assert (found.needed, found.surely_bound) == ({"z"}, {"x", "y", "z"})


def test_builtins_count_once_the_notebook_binds_them() -> None:
    cells = [parse_cell("print(list(x), display, _)", Place("nb"))]
    assert read_names(cells).read == {"x"}
    assert read_names(cells, ignored=frozenset({"print", "display", "_"})).read == {"x", "list"}


def test_everything_that_is_ever_bound() -> None:
    code = "def f():\n    global g\n    g = 1\nfor i in x:\n    import a.b\n(w := 1)\ndel w"
    assert all_bindings([parse_cell(code, Place("nb"))]) == {"f", "g", "i", "a", "w"}
