"""Which names of the notebook's namespace a piece of Python reads, binds and deletes.

The rules of Python's scopes, for one question only: does this name mean the global one? Where the syntax
tree cannot tell, the answer is yes: a name too many is saved for nothing, a name too few ends a resume in a
NameError.

- A name is local to a function that binds it anywhere, unless declared ``global``; class bodies are not seen
  from the functions inside them; a comprehension has its own targets, and its walrus binds outside of it.
- ``uses`` are kept apart from ``reads``: a function's body runs when it is called, not when it is defined.
- Strings that name variables are read where a library is known to do so (`embedded_names`).

Not handled: private names in classes (``__x``). Names that exist at run time only make code ``opaque``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from gyoshu_ckpt.notebook.embedded_names import names_in_strings
from gyoshu_ckpt.notebook.local_names import (
    Comprehension,
    Function,
    all_arguments,
    bound_name,
    names_bound_in,
    names_declared,
    type_parameters,
)
from gyoshu_ckpt.notebook.magics import is_shell

_HIDDEN_NAMESPACE = frozenset({"exec", "eval", "globals", "locals", "vars"})
_SHELL_METHODS_IN_SIGHT = frozenset({"run_line_magic", "run_cell_magic", "system", "getoutput"})
_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)


@dataclass(slots=True)
class Mentions:
    """What a piece of code does with global names."""

    reads: set[str] = field(default_factory=set)  # when it is executed
    uses: set[str] = field(default_factory=set)  # when a function that it defines is called
    binds: set[str] = field(default_factory=set)  # at the top level, on some path
    binds_later: set[str] = field(default_factory=set)  # by ``global`` in a function
    deletes: set[str] = field(default_factory=set)
    opaque: bool = False


def mentions(*nodes: ast.AST | None, lazy_annotations: bool = False) -> Mentions:
    """What ``nodes``, standing at the top level of a cell, do with global names."""
    visitor = _Visitor(lazy_annotations)
    for node in nodes:
        if node is not None:
            visitor.visit(node)
    return visitor.found


class _Kind(Enum):
    FUNCTION = auto()  # its body runs later
    LAMBDA = auto()  # read at once all the same: nothing keeps track of where a lambda goes
    CLASS = auto()
    COMPREHENSION = auto()
    TYPE_PARAMETERS = auto()  # of ``def f[T]`` and ``class C[T]``


@dataclass(slots=True)
class _Scope:
    kind: _Kind
    names: set[str]
    global_names: set[str] = field(default_factory=set)


class _Visitor(ast.NodeVisitor):
    def __init__(self, lazy_annotations: bool) -> None:
        self.found = Mentions()
        self._scopes: list[_Scope] = []
        self._lazy_annotations = lazy_annotations

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, Function):
            self._function(node)
        elif isinstance(node, Comprehension):
            self._comprehension(node)
        else:
            super().visit(node)

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Del):
            if not self._scopes:
                self.found.deletes.add(node.id)
        elif (
            not self._scopes or self._scopes[-1].kind is not _Kind.COMPREHENSION
        ):  # there: one of its targets
            self._bind(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._bind(bound_name(alias))
            self.found.opaque |= alias.name == "__main__"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.found.opaque = True
            else:
                self._bind(bound_name(alias))

    # The name of an except clause needs nothing here: it is unbound again when the clause ends.

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind(node.rest)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Name) and self._is_global(called.id):
            if called.id in _HIDDEN_NAMESPACE and not (
                called.id == "vars" and node.args
            ):  # vars(x) is harmless
                self.found.opaque = True
        elif isinstance(called, ast.Attribute):
            if is_shell(called.value) and called.attr not in _SHELL_METHODS_IN_SIGHT:
                self.found.opaque = True
            for name in names_in_strings(node):
                self._read(name)
        self.generic_visit(node)

    # Scopes

    def _function(self, node: Function) -> None:
        self._bind(node.name)
        self._visit_all(node.decorator_list)
        self._defaults(node.args)
        with self._in(_Scope(_Kind.TYPE_PARAMETERS, type_parameters(node))):
            for argument in all_arguments(node.args):
                self._annotation(argument.annotation)
            self._annotation(node.returns)
            own = {argument.arg for argument in all_arguments(node.args)} | names_bound_in(node.body)
            outer = names_declared(node.body, ast.Global) | names_declared(node.body, ast.Nonlocal)
            with self._in(_Scope(_Kind.FUNCTION, own - outer, names_declared(node.body, ast.Global))):
                self._visit_all(node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        own = {argument.arg for argument in all_arguments(node.args)} | names_bound_in([node.body])
        with self._in(_Scope(_Kind.LAMBDA, own)):
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        self._visit_all(node.decorator_list)
        with self._in(_Scope(_Kind.TYPE_PARAMETERS, type_parameters(node))):
            self._visit_all([*node.bases, *node.keywords])
            body = _Scope(_Kind.CLASS, set(), names_declared(node.body, ast.Global))
            with self._in(body):
                for statement in node.body:
                    self.visit(statement)
                    # Up to here, and after a branch that may not be taken, the global one can be meant.
                    if not isinstance(statement, _BRANCHING):
                        body.names |= names_bound_in([statement])

    def _comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)  # the first is evaluated outside
        own = {name for each in node.generators for name in names_bound_in([each.target])}
        with self._in(_Scope(_Kind.COMPREHENSION, own)):
            for position, each in enumerate(node.generators):
                self._visit_all([each.target, *each.ifs] if position == 0 else [each])
            self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    # The two questions

    def _read(self, name: str) -> None:
        if self._is_global(name):
            (self.found.uses if self._runs_later() else self.found.reads).add(name)

    def _bind(self, name: str | None) -> None:
        scope = next((each for each in reversed(self._scopes) if each.kind is not _Kind.COMPREHENSION), None)
        if name is not None and (scope is None or name in scope.global_names):
            (self.found.binds_later if self._runs_later() else self.found.binds).add(name)

    def _is_global(self, name: str) -> bool:
        for scope in reversed(self._scopes):
            if scope.kind is _Kind.CLASS and scope is not self._scopes[-1]:
                continue
            if name in scope.global_names:
                return True
            if name in scope.names:
                return False
        return True

    def _runs_later(self) -> bool:
        return any(scope.kind is _Kind.FUNCTION for scope in self._scopes)

    # Chores

    @contextmanager
    def _in(self, scope: _Scope) -> Iterator[None]:
        self._scopes.append(scope)
        yield
        self._scopes.pop()

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _defaults(self, arguments: ast.arguments) -> None:
        self._visit_all(
            default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None
        )

    def _annotation(self, annotation: ast.expr | None) -> None:
        if annotation is not None and not self._lazy_annotations:
            self.visit(annotation)
