"""The source of a Python cell -> its syntax tree, or the sentence that says where it is wrong.

Rules
1. Plain Python is parsed as it stands; IPython's own syntax goes through IPython's own transformer, which is
   imported only then (0.1 s).
2. A syntax error is told before any kernel starts: a run of five hours must not die of a typo in stage 9.
3. A cell is fingerprinted by its tree, so comments, blanks and formatting never matter, nor does the place
   where one cell ends and the next begins. The fingerprint is the same under every version of Python.

Not handled: code for a Python newer than the one that gyoshu itself runs under.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gyoshu_ckpt.errors import BadPlan
from gyoshu_ckpt.notebook import magics
from gyoshu_ckpt.notebook.place import Place

_HASH_VERSION = "gyoshu-source-1"
_DEEPEST = 200  # nodes inside nodes: the walks recurse, and a sum of a thousand terms must not end them


@dataclass(frozen=True, slots=True)
class ParsedCell:
    """A cell, ready to be looked at."""

    tree: ast.Module  # what it does to names
    text: str  # what the positions in ``tree`` refer to
    shape: str  # what its fingerprint is made of: empty if nothing happens in it
    opaque: bool = False

    @classmethod
    def foreign(cls, code: str) -> ParsedCell:
        """A cell of which nothing is known but its text."""
        return cls(ast.Module([], []), code, code.rstrip(), opaque=True)


def parse_cell(code: str, place: Place, *, first_line: int = 1) -> ParsedCell:
    """Parse ``code``; :class:`BadPlan` if it is no Python. ``first_line``: where it begins in its cell."""
    lines = code.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
        first_line += 1
    code = "\n".join(lines)
    if lines and lines[0].lstrip().startswith("%%"):
        return _parse_cell_magic(lines[0].strip(), "\n".join(lines[1:]), place, first_line)
    try:
        tree, text = _tree_of(code)
        if _depth(tree) > _DEEPEST:
            return ParsedCell.foreign(code)
        shape = "\n".join(_shape(statement) for statement in tree.body)
        unmagic = magics.Unmagic()
        return ParsedCell(unmagic.visit(tree), text, shape, unmagic.opaque)
    except SyntaxError as problem:
        raise _refusal(problem, code, place, first_line) from None
    except magics.MisplacedMagic as misplaced:
        raise _misplaced(misplaced.name, place, first_line + misplaced.line - 1) from None
    except (RecursionError, MemoryError):  # Python itself cannot parse it here; the kernel may
        return ParsedCell.foreign(code)


def hash_of_sources(shapes: Iterable[str]) -> str:
    """The fingerprint of a run of cells, from their ``shape`` (or their text, in other languages)."""
    told = "\n".join(shape for shape in shapes if shape)
    return hashlib.sha256(f"{_HASH_VERSION}\n{told}".encode(errors="surrogatepass")).hexdigest()


def _parse_cell_magic(line: str, body: str, place: Place, first_line: int) -> ParsedCell:
    name, _, argument = line.removeprefix("%%").partition(" ")
    if name == "stage":
        raise _misplaced("%stage", place, first_line)
    head = " ".join(line.split())
    binds = "".join(f"{bound} = None\n" for bound in magics.names_bound_by_cell_magic(name, argument))
    reads = "".join(f"{each}\n" for each in sorted(set(magics.names_expanded(argument))))
    around = ast.parse(reads), ast.parse(binds)
    if name in magics.PYTHON_BODY:
        inner = parse_cell(body, place, first_line=first_line + 1)
        tree = ast.Module([*around[0].body, *inner.tree.body, *around[1].body], [])
        return ParsedCell(tree, inner.text, f"{head}\n{inner.shape}", inner.opaque)
    if name == "timeit":  # runs in a function: it reads, and binds nothing
        inner = parse_cell(body, place, first_line=first_line + 1)
        loads = "".join(f"{each}\n" for each in sorted(magics.names_loaded(inner.tree)))
        return ParsedCell(ast.parse(reads + loads), "", f"{head}\n{inner.shape}", inner.opaque)
    tree = ast.Module([*around[0].body, *around[1].body], [])
    return ParsedCell(tree, "", f"{head}\n{body.rstrip()}", opaque=name not in magics.FOREIGN_BODY)


def _tree_of(code: str) -> tuple[ast.Module, str]:
    try:
        return _compiled(code), code
    except SyntaxError as problem:
        from IPython.core import inputtransformer2

        manager: Any = inputtransformer2.TransformerManager  # carries no types
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of input that it cannot make out: an error follows
            try:
                text: str = manager().transform_cell(code)
            except UnicodeError:  # its tokenizer meets what the parser has refused already
                raise problem from None
        return _compiled(text), text


def _compiled(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is for the kernel to warn of
        try:
            tree = ast.parse(code)
            # Some errors come up only here: return outside a function, an argument named twice.
            compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except ValueError as problem:  # NUL, lone surrogates
            raise SyntaxError(str(problem)) from None
    return tree


def _depth(tree: ast.AST) -> int:
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


def _refusal(problem: SyntaxError, code: str, place: Place, first_line: int) -> BadPlan:
    lines = code.split("\n")
    number = min(max(problem.lineno or 1, 1), len(lines))
    shown = lines[number - 1].strip()
    return place.refuse(
        f"line {first_line + number - 1} is not valid Python ({problem.msg}): {shown[:80]}",
        "correct the line; nothing has been run yet",
    )


def _misplaced(name: str, place: Place, line: int) -> BadPlan:
    return place.refuse(
        f"%{name} stands on line {line}, but a cell magic has to be the first line of its cell",
        f"split the cell, so that %{name} begins a new one",
    )


def _shape(node: object) -> str:
    return "".join(_shape_parts(node))


def _shape_parts(node: object) -> Iterator[str]:
    """Like `ast.dump`, but empty fields are left out: which of them exist differs between Python versions."""
    if isinstance(node, ast.AST):
        yield type(node).__name__ + "("
        for name, value in ast.iter_fields(node):
            empty = value == [] or (value is None and not isinstance(node, ast.Constant))
            if empty or name in {"kind", "ctx"}:
                continue
            yield name + "="
            yield from _shape_parts(value)
            yield ","
        yield ")"
    elif isinstance(node, list):
        for item in node:
            yield from _shape_parts(item)
            yield ","
    else:
        yield repr(node)
