"""The rehydration cell: source that brings the values of a checkpoint back into a fresh kernel.

Setup cells have run before it. In order:

1. ``from __future__``; working directory and module path; imports and lasting magics of the finished stages;
2. their functions and classes that need no restored value to be defined;
3. loads of ``data`` values, which need nothing;
4. definitions that need those (a default, a decorator, a base class);
5. loads of ``code`` values: unpickling may look for the classes above;
6. definitions that need those; what was done to definitions since; random state; the marker.

Rules
1. Definitions come from the plan. Of the manifest only checked names, ids, hashes and numbers get into the
   source, each as a literal: a store can choose values, never code.
2. A name comes back by its last binding among the finished stages: a value in the manifest wins over a
   definition of the same name.
3. A definition that needs a name which nothing brings back is left out, and a comment says so.
4. Earlier definitions of a name are left out, unless a decorator may have registered them or a later one of
   the same name reads it.

Not handled: whether the objects are intact; ``in_kernel.restoring`` verifies each as it loads.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.manifest import Manifest, StoredValue, Variable
from gyoshu_ckpt.core.plan import Definition, OutputKind, Plan, StageNames, WayBack, last_binding
from gyoshu_ckpt.errors import BadName, BadPlan, ManifestDamaged

_CODEC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_NEVER_ASSIGNED = frozenset({"__debug__", "__builtins__"})  # a syntax error, and the ground under every cell
_NO_VALUE, _DATA, _CODE = 0, 1, 2  # what a definition has to wait for


def rehydration_source(plan: Plan, manifest: Manifest) -> str:
    """The source of the cell; :class:`ManifestDamaged` if a field could be more than a value."""
    header = _header(manifest)
    runs = _finished(plan, manifest.stage_id)
    taken = {name for run in runs for name in run.bound()} | {one.name for one in manifest.variables}
    helper = _free_name(taken)
    loads: dict[str, str] = {}
    for variable in manifest.variables:
        loads[variable.name] = _assignment(variable, helper, loads)
    layer_of = {
        variable.name: _CODE if variable.trust == "code" else _DATA for variable in manifest.variables
    }
    layers: dict[int, list[str]] = {_NO_VALUE: [], _DATA: [], _CODE: []}
    comments: list[str] = []
    for definition, lacks in _definitions_back(runs, frozenset(loads)):
        if lacks is not None:
            comments.append(f"# {definition.name} is not defined again: the checkpoint does not hold {lacks}")
            continue
        needs = definition.reads | _run_at_once(definition, runs) | {definition.name}
        layer = max(layer_of.get(name, _NO_VALUE) for name in needs)
        layer_of[definition.name] = layer
        layers[layer].append(definition.source)
    values: list[str] = []
    for layer in (_DATA, _CODE):
        values += [assignment for name, assignment in loads.items() if layer_of[name] == layer]
        values += layers[layer]
    first: list[str] = []
    if (environment := manifest.python_env) is not None:
        if environment.process_state is not None:
            first.append(f"{helper}.restore_process_state({_fields(environment.process_state)})")
        if environment.definition_state is not None:
            values.append(f"{helper}.restore_definition_state({_fields(environment.definition_state)})")
        if environment.random_state is not None:
            values.append(f"{helper}.restore_random_state({_fields(environment.random_state)})")
    if first or values:
        first.insert(0, f"import gyoshu_ckpt.in_kernel.restoring as {helper}  # removed again below")
        values.append(f"del {helper}")
    show = '__import__("builtins").print' if "print" in taken else "print"
    marker = f'{show}("[REHYDRATED:from={manifest.checkpoint_id}]")'
    imports = _imports(runs)
    future = [source for source in imports if source.startswith("from __future__ ")]
    others = [source for source in imports if source not in future]
    lines = [*header, *future, *first, *others, *layers[_NO_VALUE], *values, *comments, marker]
    return "\n".join(lines) + "\n"


def definitions_restored(plan: Plan, stage_id: str) -> frozenset[str]:
    """Functions and classes that a resume after ``stage_id`` defines from source, in setup or in the cell.

    Values in the checkpoint refer to these by name, so only what is sure to be there before the first value
    of kind ``code`` is promised. Not so a function whose decorator works on a value: a registry that holds
    the function would have to be loaded both before and after it.
    """
    runs = _finished(plan, stage_id)
    required, optional = names_to_save(plan, stage_id)
    saved = {*required, *optional}
    promised = {
        definition.name
        for definition, lacks in _definitions_back(runs, frozenset(required))
        if lacks is None and not saved & (definition.decorators | _run_at_once(definition, runs))
    }
    of_setup = {
        definition.name
        for definition in plan.setup_names.definitions
        if last_binding(runs, definition.name) == (0, WayBack.DEFINITION)
    }
    return frozenset(promised | of_setup) - saved


def names_to_save(plan: Plan, stage_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the checkpoint of ``stage_id`` must hold, and what it holds where that is possible."""
    carried = plan.carried.get(stage_id, ())
    declared = [
        output.name
        for stage in plan.stages_up_to(stage_id)
        for output in stage.outputs
        if output.kind is OutputKind.VARIABLE
    ]
    required = [each.name for each in carried if each.certain and each.made_by is not None]
    optional = [each.name for each in carried if not each.certain or each.made_by is None]
    return tuple(dict.fromkeys([*declared, *required])), tuple(dict.fromkeys(optional))


def _finished(plan: Plan, stage_id: str | None) -> Sequence[StageNames]:
    """Setup and the stages up to ``stage_id``; None: an incident before the first stage."""
    if stage_id is None:
        return [plan.setup_names]
    try:
        return [plan.setup_names, *(stage.names for stage in plan.stages_up_to(stage_id))]
    except KeyError:
        raise BadPlan(
            f"the notebook has no stage {stage_id} any more",
            next_step="put the stage back, or start anew with gyoshu run",
        ) from None


def _definitions_back(
    runs: Sequence[StageNames], values: frozenset[str]
) -> Iterator[tuple[Definition, str | None]]:
    """The definitions of finished stages in order, each with a name that it lacks, if there is one."""
    opaque = any(run.opaque for run in runs)
    lacking: set[str] = set()
    for definition in _last_of_each(runs, values):
        lacks = None
        for name in sorted(definition.reads - values - {definition.name}):
            run, way = last_binding(runs, name) or (0, None)
            unsaved = run > 0 and way is WayBack.VARIABLE
            gone = way is None and not opaque  # deleted since; an opaque cell may make it
            if unsaved or gone or name in lacking:
                lacks = name
                lacking.add(definition.name)
                break
        yield definition, lacks


def _last_of_each(runs: Sequence[StageNames], values: frozenset[str]) -> list[Definition]:
    kept: list[Definition] = []
    seen: set[str] = set()
    read_by_later: set[str] = set()
    for definition in reversed([definition for run in runs[1:] for definition in run.definitions]):
        name = definition.name
        found = last_binding(runs, name)
        if name in values or found is None or found[1] is not WayBack.DEFINITION:
            continue
        if name not in seen or name in read_by_later or definition.source.startswith("@"):
            kept.append(definition)
            read_by_later = read_by_later | {name} if name in definition.reads else read_by_later - {name}
        seen.add(name)
    return kept[::-1]


def _run_at_once(definition: Definition, runs: Sequence[StageNames]) -> set[str]:
    """What the bodies of its decorators read: they are called while it is being defined."""
    todo, seen = list(definition.decorators), set[str]()
    while todo:
        name = todo.pop()
        for run in runs:
            for called in run.definitions:
                if called.name == name and not called.uses <= seen:
                    todo.extend(called.uses - seen)
                    seen |= called.uses
    return seen


def _imports(runs: Sequence[StageNames]) -> list[str]:
    sources = [imported.source for run in runs[1:] for imported in run.imports]
    # Of the same import the last counts: import time, from time import time, import time.
    return list(dict.fromkeys(reversed(sources)))[::-1]


def _header(manifest: Manifest) -> list[str]:
    try:
        checkpoint = ids.check_checkpoint_id(manifest.checkpoint_id)
        after = ids.check_stage_id(manifest.stage_id) if manifest.stage_id is not None else "setup"
        run, title = ids.check_run_id(manifest.run_id), ids.check_title(manifest.report_title)
    except (BadName, TypeError, AttributeError) as refusal:
        raise ManifestDamaged(str(refusal)) from None
    return [
        f"# Generated by gyoshu continue: brings back {checkpoint}, the state after {after}",
        f"# of {run} of {title}.",
    ]


def _assignment(variable: Variable, helper: str, before: Collection[str]) -> str:
    name = variable.name
    assignable = (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and unicodedata.normalize("NFKC", name) == name  # else Python would assign to another name
        and name not in _NEVER_ASSIGNED
    )
    if not assignable:
        raise ManifestDamaged(f"{str(name)[:80]!r} is not a name that a cell can assign")
    fields = _fields(variable)
    if variable.same_as is not None:  # two names for one object, before and after
        if variable.same_as not in before:
            raise ManifestDamaged(
                f"{name} is said to be {str(variable.same_as)[:80]!r}, which comes not before it"
            )
        return f"{name} = {variable.same_as}"
    return f"{name} = {helper}.load({name!r}, {fields})"


def _fields(value: StoredValue) -> str:
    numbers = (value.codec_version, value.size_bytes)
    if value.trust not in ("data", "code") or any(
        type(number) is not int or number < 0 for number in numbers
    ):
        raise ManifestDamaged("a stored value has a field that is none")
    try:
        sha256 = ids.check_sha256(value.sha256)
        known_form = _CODEC.fullmatch(value.codec)
    except (BadName, TypeError) as refusal:
        raise ManifestDamaged(str(refusal)) from None
    if known_form is None:
        raise ManifestDamaged("a stored value has a codec of an impossible name")
    return f"codec={value.codec!r}, version={numbers[0]}, sha256={sha256!r}, size_bytes={numbers[1]}"


def _free_name(taken: Iterable[str]) -> str:
    """A name for the helper module that shadows nothing of the user's."""
    name, occupied = "_gyoshu", set(taken)
    while name in occupied:
        name += "_"
    return name
