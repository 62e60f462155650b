"""What a run of Python cells does with names, in the order in which it does it.

One walk over the statements, with the set of names that are surely bound by now:

- a name read while it is not in the set is `needed` from before;
- a branch that may not be taken adds nothing to the set, two branches add what both bind, a branch that
  raises does not count;
- a function's body counts when the function's name is read, since nobody can call it before.

The last binding at the top level decides how a name comes back (`WayBack`); ``del`` at the top level takes
it away.

Not handled: what happens inside values. A function that hides in a list is found by `carrying`, roughly.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence

from gyoshu_ckpt.core.plan import Definition, StageNames, WayBack
from gyoshu_ckpt.notebook.local_names import Function, bound_name, names_surely_bound
from gyoshu_ckpt.notebook.magics import LASTING, line_magic
from gyoshu_ckpt.notebook.scopes import Mentions, mentions
from gyoshu_ckpt.notebook.syntax import ParsedCell

# In every kernel from the start; not the notebook's business unless it binds one of them itself.
ALWAYS_THERE = frozenset(dir(builtins)) | {
    *("In", "Out", "_", "__", "___", "__file__", "display", "get_ipython", "exit", "quit"),
    *("__module__", "__qualname__", "__annotations__"),  # inside a class body
}

_Bound = set[str] | None  # None: this point is never reached


def all_bindings(cells: Iterable[ParsedCell]) -> frozenset[str]:
    """Every name that any of the cells binds, whenever."""
    found = [mentions(cell.tree) for cell in cells]
    return frozenset(name for each in found for name in each.binds | each.binds_later)


def has_lazy_annotations(cells: Iterable[ParsedCell]) -> bool:
    """Whether ``from __future__ import annotations`` is in a cell; IPython keeps it for all later ones."""
    return any(
        isinstance(statement, ast.ImportFrom)
        and statement.module == "__future__"
        and any(alias.name == "annotations" for alias in statement.names)
        for cell in cells
        for statement in cell.tree.body
    )


def read_names(
    cells: Iterable[ParsedCell], *, ignored: frozenset[str] = ALWAYS_THERE, lazy_annotations: bool = False
) -> StageNames:
    """What ``cells``, executed one after the other, do with names; ``ignored`` ones are not told of."""
    walk = _Walk(lazy_annotations)
    bound: _Bound = set()
    for cell in cells:
        walk.opaque |= cell.opaque
        bound = walk.block(cell.tree.body, bound, text=cell.text)
    return walk.result(ignored, bound)


class _Walk:
    def __init__(self, lazy_annotations: bool) -> None:
        self.opaque = False
        self._lazy_annotations = lazy_annotations
        self._imports: list[Definition] = []
        self._definitions: list[Definition] = []
        self._ways: dict[str, WayBack] = {}
        self._bodies: dict[str, set[str]] = {}  # function or class -> what its body reads when called
        self._read: set[str] = set()
        self._needed: set[str] = set()

    def result(self, ignored: frozenset[str], bound: _Bound) -> StageNames:
        defined = {name for name, way in self._ways.items() if way is WayBack.DEFINITION}
        return StageNames(
            imports=tuple(self._imports),
            definitions=tuple(
                Definition(
                    each.name,
                    each.source,
                    each.reads - ignored,
                    each.uses - ignored,
                    each.decorators - ignored,
                )
                for each in self._definitions
                if each.name in defined
            ),
            assigned=frozenset(name for name, way in self._ways.items() if way is WayBack.VARIABLE),
            read=frozenset(self._read - ignored),
            needed=frozenset(self._needed - ignored),
            surely_bound=frozenset(bound or ()),
            opaque=self.opaque,
        )

    def block(self, statements: Sequence[ast.stmt], bound: _Bound, *, text: str | None = None) -> _Bound:
        """Walk ``statements``; return what is bound after them. ``text``: the cell's, if at top level."""
        for statement in statements:
            if bound is None:
                bound = set()  # dead code; looked at all the same
            bound = self._statement(statement, bound, text)
        return bound

    def _statement(self, node: ast.stmt, bound: set[str], text: str | None) -> _Bound:
        match node:
            case ast.If():
                self._expression(bound, node.test)
                return _both(self.block(node.body, set(bound)), self.block(node.orelse, set(bound)))
            case ast.For() | ast.AsyncFor():
                self._expression(bound, node.iter)
                inside = set(bound)
                self._expression(inside, node.target)
                self.block(node.body, inside)
                self.block(node.orelse, set(bound))
                return bound
            case ast.While():
                self._expression(bound, node.test)
                self.block(node.body, set(bound))
                self.block(node.orelse, set(bound))
                return bound
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(bound, item.context_expr, item.optional_vars)
                return self.block(node.body, bound)
            case ast.Try() | ast.TryStar():
                return self._try(node, bound)
            case ast.Match():
                return self._match(node, bound)
            case ast.Raise():
                self._expression(bound, node)
                return None
            case _:
                self._simple(node, bound, text)
                return bound

    def _try(self, node: ast.Try | ast.TryStar, bound: set[str]) -> _Bound:
        ends = [self.block(node.orelse, self.block(node.body, set(bound)))]
        for handler in node.handlers:
            inside = set(bound)
            if handler.type is not None:
                self._expression(inside, handler.type)
            # Its name is unbound when the clause ends; so is what it meant before, which is all that counts.
            own = {handler.name} if handler.name is not None else set()
            ends.append(self.block(handler.body, inside | own))
        reached: _Bound = None
        for end in ends:
            reached = _both(reached, end)
        # Where nothing catches the exception the stage fails, so only the paths that go on count in here too.
        return self.block(node.finalbody, reached)

    def _match(self, node: ast.Match, bound: set[str]) -> _Bound:
        self._expression(bound, node.subject)
        ends: _Bound = None
        for case in node.cases:
            inside = set(bound)
            self._expression(inside, case.pattern)
            self._expression(inside, case.guard)
            ends = _both(ends, self.block(case.body, inside))
        last = node.cases[-1]
        catches_all = (
            isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        )
        return ends if catches_all else _both(ends, bound)

    def _expression(self, bound: set[str], *nodes: ast.AST | None) -> None:
        """Something evaluated on the way: a test, a target, a pattern."""
        found = mentions(*nodes, lazy_annotations=self._lazy_annotations)
        self._note(found, bound)
        self._bind(found.binds | found.binds_later, WayBack.VARIABLE)
        bound |= {name for node in nodes if node is not None for name in names_surely_bound(node)}

    def _simple(self, node: ast.stmt, bound: set[str], text: str | None) -> None:
        found = mentions(node, lazy_annotations=self._lazy_annotations)
        self._note(found, bound)
        if isinstance(node, Function | ast.ClassDef):
            if node.decorator_list:  # a decorator may call it at once
                self._load(found.uses, bound)
            earlier = self._bodies.get(node.name, set()) if text is None else set()
            self._bodies[node.name] = found.uses | earlier
        self._bind(found.binds | found.binds_later, WayBack.VARIABLE)
        own = names_surely_bound(node)
        if text is not None:
            self._bind(own, self._noted_way(node, found, text))
        bound |= own
        for name in found.deletes:
            bound.discard(name)
            if text is not None:
                self._ways.pop(name, None)

    def _noted_way(self, node: ast.stmt, found: Mentions, text: str) -> WayBack:
        """The way back of what a statement at the top level binds; its source is noted if that is the way."""
        if isinstance(node, Function | ast.ClassDef):
            self._definitions.append(_definition(node, found, text))
            return WayBack.DEFINITION
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._imports.extend(_imports_of(node))
            return WayBack.IMPORT
        if isinstance(node, ast.Expr) and line_magic(node.value)[0] in LASTING:
            self._imports.append(Definition("%" + line_magic(node.value)[0], ast.unparse(node)))
        return WayBack.VARIABLE

    def _note(self, found: Mentions, bound: set[str]) -> None:
        self.opaque |= found.opaque
        self._read |= found.reads | found.uses
        self._load(found.reads | found.deletes, bound)

    def _load(self, names: Iterable[str], bound: set[str]) -> None:
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                self._needed |= {name} - bound
                todo.extend(self._bodies.get(name, ()))

    def _bind(self, names: Iterable[str], way: WayBack) -> None:
        for name in names:
            self._ways[name] = way


def _both(one: _Bound, other: _Bound) -> _Bound:
    """What is bound where two paths meet; a path that ends before does not count."""
    if one is None:
        return other
    return one if other is None else one & other


def _imports_of(node: ast.Import | ast.ImportFrom) -> list[Definition]:
    found = []
    for alias in node.names:
        one: ast.stmt = (
            ast.Import([alias])
            if isinstance(node, ast.Import)
            else ast.ImportFrom(node.module, [alias], node.level)
        )
        found.append(Definition(bound_name(alias), ast.unparse(one)))
    return found


def _definition(node: Function | ast.ClassDef, found: Mentions, text: str) -> Definition:
    # Whole lines: a compound statement at the top level has its lines for itself.
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    source = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
    decorators = mentions(*node.decorator_list).reads
    return Definition(node.name, source, frozenset(found.reads), frozenset(found.uses), frozenset(decorators))
