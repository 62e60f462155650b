"""What one scope of Python binds for itself, without looking into the scopes inside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def bound_name(alias: ast.alias) -> str:
    """The name that one part of an import statement binds."""
    return alias.asname or alias.name.partition(".")[0]


def _own_nodes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """``nodes`` and all below in the same scope; of an inner scope, only the node that opens it."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        below = ast.iter_child_nodes(node)
        if isinstance(node, Comprehension):  # only a walrus in it binds outside
            below = (each for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        todo.extend(below)


def names_bound_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Every name that ``nodes`` bind or delete on some path."""
    names: set[str | None] = set()
    for node in _own_nodes(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, Function | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping):
            names.add(node.rest)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {bound_name(alias) for alias in node.names}
    return {name for name in names if name is not None}


def names_surely_bound(node: ast.AST) -> set[str]:
    """What a simple statement, a target or an expression binds whenever it is executed."""
    if isinstance(node, ast.BoolOp):
        return names_surely_bound(node.values[0])  # the others may be skipped
    if isinstance(node, ast.IfExp):
        return names_surely_bound(node.test)
    if isinstance(node, ast.Compare):
        return names_surely_bound(node.left) | names_surely_bound(node.comparators[0])
    if isinstance(node, ast.Lambda | Comprehension):
        return set()
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {bound_name(alias) for alias in node.names} - {"*"}
    if isinstance(node, ast.MatchOr):
        return set.intersection(*map(names_surely_bound, node.patterns))
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return set()
    own = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
    own |= {
        name for name in (getattr(node, "name", None), getattr(node, "rest", None)) if isinstance(name, str)
    }
    return own.union(*map(names_surely_bound, ast.iter_child_nodes(node)))


def names_declared(nodes: Sequence[ast.AST], how: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """The names that a ``global`` or ``nonlocal`` statement among ``nodes`` holds."""
    return {name for node in _own_nodes(nodes) if isinstance(node, how) for name in node.names}


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """The arguments of a function or lambda, of every kind."""
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return [argument for argument in every if argument is not None]


def type_parameters(node: Function | ast.ClassDef) -> set[str]:
    """``T`` of ``def f[T]`` and ``class C[T]``, since Python 3.12."""
    return {parameter.name for parameter in getattr(node, "type_params", ())}
