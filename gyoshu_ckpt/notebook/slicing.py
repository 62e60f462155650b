"""A notebook -> its plan. The one door of this package.

Rules
1. Code cells before the first stage are setup; a cell without an annotation belongs to the stage before it;
   empty cells stay in the notebook and are not executed.
2. The order of the notebook is the order of the plan, whatever numbers the stage ids carry.
3. Everything that can be known to be wrong is told now, with file, cell and fix, before a kernel is started.
4. In a language other than Python nothing is known of names, so only files and folders can be declared.

Not handled: notebooks without annotations (refused, with the way out), and whether input files exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.plan import Output, OutputKind, Plan, PlanCell, Stage, StageNames
from gyoshu_ckpt.notebook import parameters as parameter_cells
from gyoshu_ckpt.notebook.carrying import carried_names, undeclared
from gyoshu_ckpt.notebook.goals import goal_in_code, last_heading
from gyoshu_ckpt.notebook.names import ALWAYS_THERE, all_bindings, has_lazy_annotations, read_names
from gyoshu_ckpt.notebook.place import Place, did_you_mean
from gyoshu_ckpt.notebook.reading import read_notebook
from gyoshu_ckpt.notebook.stage_line import Annotation, is_stage_line, read_annotation, split_stage_line
from gyoshu_ckpt.notebook.syntax import ParsedCell, hash_of_sources, parse_cell


@dataclass(frozen=True, slots=True)
class SlicedNotebook:
    """The plan, and the notebook that it was made from: format 4.5, parameters put in, without outputs."""

    plan: Plan
    notebook: dict[str, Any]


def make_plan(
    path: Path,
    *,
    title: str | None = None,
    parameters: Mapping[str, object] | None = None,
    kernel_name: str | None = None,
    strict: bool = False,
) -> SlicedNotebook:
    """Slice the notebook in ``path``; a :class:`UserMistake` says what has to change first.

    ``strict``: a name that one stage makes and a later one reads has to be declared.
    """
    title = ids.check_title(title) if title is not None else ids.title_from_stem(path.stem)
    notebook = read_notebook(path)
    language, own_kernel = _language_and_kernel(notebook["metadata"])
    cells = notebook["cells"]
    index_of = {cell["id"]: index for index, cell in enumerate(cells)}
    notices = parameter_cells.inject(
        cells, parameters or {}, _names_of_defaults(cells, path.name, language), language
    )
    setup, drafts = _slice(cells, index_of, path.name, language)
    notices += _out_of_order(drafts)
    all_names = _names_of([setup, *drafts], language)
    _check_outputs_and_inputs(all_names, drafts, language)
    stages = tuple(draft.stage(names, language) for draft, names in zip(drafts, all_names[1:], strict=True))
    carried = carried_names(all_names[0], stages)
    sentences = [
        f"{each.read_by} reads {each.name}, which {each.made_by} makes but does not declare: saved with the "
        f"checkpoints; add --out {each.name} to {each.made_by} to make it an artifact"
        for each in undeclared(carried)
    ]
    if strict and sentences:
        wanted = ", ".join(f"--out {each.name} to {each.made_by}" for each in undeclared(carried))
        told = "; ".join(sentence.split(":")[0] for sentence in sentences)
        raise Place(path.name).refuse(told, f"add {wanted}, or run without --strict")
    plan = Plan(
        title=title,
        source_path=str(path),
        language=language,
        kernel_name=kernel_name or own_kernel,
        setup=tuple(setup.cells),
        stages=stages,
        setup_names=all_names[0],
        setup_sha256=setup.sha256(),
        carried=carried,
        notices=(*notices, *sentences),
    )
    return SlicedNotebook(plan, notebook)


@dataclass(slots=True)
class _Draft:
    """A run of cells on its way to become setup or a stage."""

    place: Place
    annotation: Annotation | None = None
    heading: str = ""
    cells: list[PlanCell] = field(default_factory=list)
    parsed: list[ParsedCell] = field(default_factory=list)

    def add(self, cell: PlanCell, parsed: ParsedCell) -> None:
        self.cells.append(cell)
        self.parsed.append(parsed)

    def sha256(self) -> str:
        # Given parameters are a component of their own in the fingerprint.
        own = zip(self.cells, self.parsed, strict=True)
        return hash_of_sources(parsed.shape for cell, parsed in own if cell.index >= 0)

    def stage(self, names: StageNames, language: str) -> Stage:
        said = self.annotation
        if said is None or not self.cells:
            raise self.place.refuse("the stage has no code", "put its code below the %%stage line")
        return Stage(
            stage_id=said.stage_id,
            goal=said.goal or goal_in_code(self.cells[0].code, language) or self.heading,
            cells=tuple(self.cells),
            inputs=said.inputs,
            outputs=said.outputs,
            max_duration_s=said.max_duration_s,
            names=names,
            source_sha256=self.sha256(),
        )


def _slice(
    cells: Sequence[Mapping[str, Any]], index_of: Mapping[str, int], file: str, language: str
) -> tuple[_Draft, list[_Draft]]:
    drafts = [_Draft(Place(file))]
    heading = ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            heading = last_heading(cell["source"]) or heading
        if cell["cell_type"] != "code":
            continue
        index = index_of.get(cell["id"], -1)
        line, code = split_stage_line(cell["source"])
        place = Place(file, index + 1 if index >= 0 else None)
        annotation = read_annotation(line, cell["metadata"], place)
        if annotation is not None:
            place = Place(file, index + 1, annotation.stage_id)
            _check_unique(annotation.stage_id, place, drafts)
            drafts.append(_Draft(place, annotation, heading))
        if code.strip():
            first_line = cell["source"].count("\n") - code.count("\n") + 1
            tags = frozenset(cell["metadata"].get("tags", ()))
            own_place = Place(file, place.cell, drafts[-1].place.stage_id)
            drafts[-1].add(
                PlanCell(index, cell["id"], code, tags), _parsed(code, own_place, first_line, language)
            )
    if len(drafts) == 1:
        raise Place(file).refuse(
            "no cell begins a stage",
            "put %%stage S01_load_data as the first line of the cell where the first stage begins",
        )
    return drafts[0], drafts[1:]


def _parsed(code: str, place: Place, first_line: int, language: str) -> ParsedCell:
    if language == "python":
        return parse_cell(code, place, first_line=first_line)
    for number, line in enumerate(code.split("\n"), first_line):
        if is_stage_line(line):
            raise place.refuse(
                f"%%stage stands on line {number}, but it has to be the first line of its cell",
                "split the cell, so that %%stage begins a new one",
            )
    return ParsedCell.foreign(code)


def _check_unique(stage_id: str, place: Place, drafts: Sequence[_Draft]) -> None:
    for draft in drafts:
        if draft.place.stage_id == stage_id:
            raise place.refuse(
                f"{stage_id} is the id of cell {draft.place.cell} already", "give one of the two another id"
            )


def _out_of_order(drafts: Sequence[_Draft]) -> list[str]:
    stage_ids = [draft.place.stage_id or "" for draft in drafts]
    in_order = sorted(stage_ids, key=_number)
    if in_order == stage_ids:
        return []
    return [f"stages run in the order of the notebook, not of their numbers: {', '.join(stage_ids)}"]


def _number(stage_id: str) -> int:
    return int(stage_id.partition("_")[0].removeprefix("S"))


def _names_of(drafts: Sequence[_Draft], language: str) -> list[StageNames]:
    if language != "python":
        return [StageNames(opaque=bool(draft.cells)) for draft in drafts]
    shadowed = all_bindings(parsed for draft in drafts for parsed in draft.parsed)
    result, lazy = [], False
    for draft in drafts:
        lazy = lazy or has_lazy_annotations(draft.parsed)
        result.append(read_names(draft.parsed, ignored=ALWAYS_THERE - shadowed, lazy_annotations=lazy))
    return result


def _check_outputs_and_inputs(
    all_names: Sequence[StageNames], drafts: Sequence[_Draft], language: str
) -> None:
    bound, opaque = set(all_names[0].bound()), all_names[0].opaque
    for draft, names in zip(drafts, all_names[1:], strict=True):
        said = draft.annotation
        if said is None:
            continue
        variable_inputs = [name for name in said.inputs if name.isidentifier() and language == "python"]
        for name in variable_inputs:
            if name not in bound and not opaque:
                raise draft.place.refuse(
                    f"no cell before {said.stage_id} makes {name}{did_you_mean(name, bound)}",
                    f"correct --in {name}; for a file of that name write --in ./{name}",
                )
        bound |= names.bound()
        opaque |= names.opaque
        for output in said.outputs:
            _check_output(output, draft.place, bound, opaque, language)


def _check_output(output: Output, place: Place, bound: set[str], opaque: bool, language: str) -> None:
    if output.kind is not OutputKind.VARIABLE:
        return
    if language != "python":
        raise place.refuse(
            f"only files can be declared in a {language} kernel, and {output.name} is a variable",
            f"write a file to gy.artifact_path and declare it with its suffix: --out {output.name}.csv",
        )
    if output.name not in bound and not opaque:
        raise place.refuse(
            f"no cell up to {place.stage_id} makes {output.name}{did_you_mean(output.name, bound)}",
            f"assign {output.name} in the stage, or correct --out {output.name}",
        )


def _names_of_defaults(cells: list[dict[str, Any]], file: str, language: str) -> frozenset[str] | None:
    cell = parameter_cells.defaults_cell(cells)
    if cell is None or language != "python":
        return None
    _, code = split_stage_line(cell["source"])
    return read_names([parse_cell(code, Place(file, cells.index(cell) + 1))]).assigned


def _language_and_kernel(metadata: Mapping[str, Any]) -> tuple[str, str]:
    kernelspec, info = metadata.get("kernelspec", {}), metadata.get("language_info", {})
    for language in (kernelspec.get("language"), info.get("name"), "python"):
        if isinstance(language, str) and language:
            break
    return language.lower(), kernelspec.get("name") or "python3"
