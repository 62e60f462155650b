"""What IPython's magics and shell escapes mean for names.

Lines that are no Python are made into Python that does the same to the namespace. The result is only looked
at, never executed: ``%time df = load(path)`` becomes ``df = load(path)``, and ``files = !ls {folder}`` comes
to read ``folder``. A magic that is not known may do anything, so it is opaque.

Not handled: aliases and magics without their percent sign (``ls``), which look like a name or a syntax error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

# Line magics whose effect outlasts the cell and has to be there again after a resume.
LASTING = frozenset({"load_ext", "matplotlib", "config", "autoreload", "aimport"})

# Cell magics that run their body as Python in the notebook's namespace.
PYTHON_BODY = frozenset({"time", "capture", "prun"})

# Cell magics whose body is not Python, or stays in a process of its own.
FOREIGN_BODY = frozenset({
    "!", "HTML", "SVG", "bash", "cmd", "file", "html", "javascript", "js", "latex", "markdown", "perl",
    "pypy", "python", "python2", "python3", "ruby", "script", "sh", "svg", "sx", "system", "writefile",
})  # fmt: skip

_TIMERS = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun"})
_HARMLESS = _TIMERS | {
    "alias", "automagic", "bookmark", "cat", "cd", "code_wrap", "colors", "conda", "cp", "debug",
    "dirs", "doctest_mode", "env", "gui", "hist", "history", "killbgscripts", "la", "ldir", "less",
    "lf", "lk", "ll", "logoff", "logon", "logstart", "logstate", "logstop", "ls", "lsmagic", "lx",
    "magic", "mamba", "man", "matplotlib", "micromamba", "mkdir", "more", "mv", "notebook", "page",
    "pdb", "pdef", "pdoc", "pfile", "pinfo", "pinfo2", "pip", "popd", "pprint", "precision", "psearch",
    "psource", "pushd", "pwd", "pycat", "quickref", "rehashx", "reload_ext", "rm", "rmdir", "sc",
    "set_env", "sx", "system", "tb", "unalias", "unload_ext", "uv", "who", "who_ls", "whos",
    "writefile", "xmode",
}  # fmt: skip
_OPTIONS = re.compile(r"(?:--?[a-zA-Z][\w-]*(?:\s*=?\s*\d+)?\s+)*")
_EXPANDED = re.compile(r"\{([^{}]+)\}|\$([^\W\d]\w*)")


class MisplacedMagic(Exception):
    """A cell magic that is not the first line of its cell: IPython would refuse it, hours later."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(name)
        self.name = name
        self.line = line


class Unmagic(ast.NodeTransformer):
    """Turns a transformed cell's calls of the shell into code with the same effect on names."""

    def __init__(self) -> None:
        self.opaque = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        name, line = line_magic(node.value)
        if name in {"time", "prun"}:
            body = _parsed(_OPTIONS.sub("", line, count=1))
            if body is not None:
                return body.body
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name, line = line_magic(node)
        if name.startswith("%"):
            raise MisplacedMagic(name, node.lineno)
        read: set[str] = set()
        if name in _TIMERS:
            body = _parsed(_OPTIONS.sub("", line, count=1))
            read = names_loaded(body) if body is not None else set()
            self.opaque |= body is None
        elif name:
            self.opaque |= name not in _HARMLESS | LASTING
        if isinstance(node.func, ast.Attribute) and is_shell(node.func.value):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    read |= set(names_expanded(argument.value))
        self.generic_visit(node)
        if not read:
            return node
        loads = [ast.Name(each, ast.Load()) for each in sorted(read)]
        return ast.copy_location(ast.Tuple([node, *loads], ast.Load()), node)


def line_magic(node: ast.expr) -> tuple[str, str]:
    """The name and the argument of a transformed line magic; two empty texts if the node is none."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "run_line_magic"
        and is_shell(node.func.value)
    ):
        texts = [
            arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        if len(texts) == 2:
            return texts[0], texts[1]
    return "", ""


def is_shell(node: ast.expr) -> bool:
    """Whether a node is ``get_ipython()``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython"


def names_bound_by_cell_magic(name: str, line: str) -> list[str]:
    """``out`` of ``%%capture out``; ``x`` of ``%%bash --out x``."""
    words = line.split()
    if name == "capture":
        return [word for word in words if word.isidentifier()][:1]
    wanted = {"--out", "--err", "--proc"}
    return [value for option, value in pairwise(words) if option in wanted and value.isidentifier()]


def names_loaded(tree: ast.AST) -> set[str]:
    """Names that a piece of code loads and does not bind itself."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    return {node.id for node in names} - bound


def names_expanded(line: str) -> Iterator[str]:
    """Names that IPython puts into a shell line or the line of a magic: ``{folder}`` and ``$folder``."""
    for expression, name in _EXPANDED.findall(line):
        tree = _parsed(expression) if expression else None
        if tree is not None:
            yield from names_loaded(tree)
        elif name:
            yield name


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return None
