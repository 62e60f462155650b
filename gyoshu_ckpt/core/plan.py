"""The plan: the ordered stages that a notebook is sliced into. Values only; slicing is `notebook`'s work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class OutputKind(StrEnum):
    """What a declared output is."""

    VARIABLE = "variable"  # a name in the kernel's namespace
    FILE = "file"  # a file written to gy.artifact_path(name)
    FOLDER = "folder"  # a folder written to gy.artifact_path(name)


@dataclass(frozen=True, slots=True)
class Output:
    """One ``--out``. For a variable, ``file_name`` is None until a codec is chosen, unless the user gave it.

    For a file or folder ``file_name`` equals ``name``; a folder's has no slash at its end.
    """

    name: str
    kind: OutputKind
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class PlanCell:
    """A code cell to execute. ``code`` is what the kernel gets: the source less a ``%%stage`` line."""

    index: int  # position among all cells of the source notebook, from 0; -1: generated
    cell_id: str
    code: str
    tags: frozenset[str] = frozenset()


class WayBack(StrEnum):
    """How a name comes back in a fresh kernel: decided by its last binding at the top level."""

    IMPORT = "import"  # the import is made again
    DEFINITION = "definition"  # the function or class is defined again from its source
    VARIABLE = "variable"  # the value is saved and loaded


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class that a cell defines at its top level, or an import, with what it needs to be run.

    An import is one bound name (``import a, b`` makes two); a star import has the name ``*``, and a line
    magic that lasts (``%matplotlib``) has its own, with the percent sign.
    """

    name: str
    source: str
    reads: frozenset[str] = frozenset()  # names evaluated when the definition itself is executed
    uses: frozenset[str] = frozenset()  # names that its body reads when it is called, later
    decorators: frozenset[str] = frozenset()  # those of ``reads`` that are called with it at once


@dataclass(frozen=True, slots=True)
class StageNames:
    """What the syntax tree says of a run of cells. All sets hold names of the user's top-level namespace."""

    imports: tuple[Definition, ...] = ()  # top-level imports and lasting line magics, in order
    definitions: tuple[Definition, ...] = ()  # top-level functions and classes that are not bound anew below
    assigned: frozenset[str] = frozenset()  # whose last binding is of any other kind
    read: frozenset[str] = frozenset()  # at top level or in any function, bound before by the cells or not
    needed: frozenset[str] = frozenset()  # of these: may be read before the cells themselves have bound it
    surely_bound: frozenset[str] = frozenset()  # bound at the end, whatever branches were taken
    opaque: bool = False  # exec, star imports, %run …: may bind or read names that nobody can see

    def way_back(self, name: str) -> WayBack | None:
        """By the last binding of ``name`` in these cells; None if they do not bind it."""
        if name in self.assigned:
            return WayBack.VARIABLE
        if any(definition.name == name for definition in self.definitions):
            return WayBack.DEFINITION
        if any(imported.name == name for imported in self.imports):
            return WayBack.IMPORT
        return None

    def bound(self) -> frozenset[str]:
        """Every name that these cells bind in any way and do not delete again."""
        declared = {each.name for each in (*self.imports, *self.definitions) if each.name.isidentifier()}
        return self.assigned | declared


def last_binding(runs: Sequence[StageNames], name: str) -> tuple[int, WayBack] | None:
    """Which of ``runs`` (setup first, then stages in order) binds ``name`` last, and how."""
    for position in range(len(runs) - 1, -1, -1):
        way = runs[position].way_back(name)
        if way is not None:
            return position, way
    return None


@dataclass(frozen=True, slots=True)
class Stage:
    """One bounded, re-runnable unit of work."""

    stage_id: str
    goal: str
    cells: tuple[PlanCell, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    max_duration_s: float | None = None
    names: StageNames = field(default_factory=StageNames)
    source_sha256: str = ""  # of the syntax tree: comments and formatting never matter


@dataclass(frozen=True, slots=True)
class Carried:
    """A name that has to be in the checkpoint of a stage although no ``--out`` declares it.

    ``made_by`` is the stage that binds it, or None for a setup cell: setup runs again on resume, so such a
    name is saved only where it can be, to keep what stages changed in it. ``certain`` is False where nothing
    reads the name in plain sight, but a value or hidden code might: then too it is saved where it can be, and
    nobody is told.
    """

    name: str
    made_by: str | None
    read_by: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """A notebook, sliced. ``notices`` are sentences for the person who runs it."""

    title: str
    source_path: str
    language: str
    kernel_name: str
    setup: tuple[PlanCell, ...]
    stages: tuple[Stage, ...]
    setup_names: StageNames = field(default_factory=StageNames)
    setup_sha256: str = ""
    # By stage id: what its checkpoint holds beside declared outputs.
    carried: dict[str, tuple[Carried, ...]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether the kernel holds values that can be saved; of any other, only files can."""
        return self.language.lower() == "python"

    def stage(self, stage_id: str) -> Stage:
        """The stage of that id; KeyError if the plan has none."""
        for stage in self.stages:
            if stage.stage_id == stage_id:
                return stage
        raise KeyError(stage_id)

    def position(self, stage_id: str) -> int:
        """The place of the stage in the plan, from 0; KeyError if the plan has none."""
        for position, stage in enumerate(self.stages):
            if stage.stage_id == stage_id:
                return position
        raise KeyError(stage_id)

    def stages_up_to(self, stage_id: str) -> tuple[Stage, ...]:
        """The stages up to and including ``stage_id``, in order."""
        return self.stages[: self.position(stage_id) + 1]

    def cells(self) -> Iterator[PlanCell]:
        """All code cells, setup first, in the order in which they run."""
        yield from self.setup
        for stage in self.stages:
            yield from stage.cells
