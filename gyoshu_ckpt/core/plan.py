"""The plan: the ordered stages that a notebook is sliced into. Values only; slicing is `notebook`'s work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class OutputKind(StrEnum):
    """What a declared output is."""

    VARIABLE = "variable"  # a name in the kernel's namespace
    FILE = "file"  # a file written to gy.artifact_path(name)
    FOLDER = "folder"  # a folder written to gy.artifact_path(name)


@dataclass(frozen=True, slots=True)
class Output:
    """One ``--out``. For a variable, ``file_name`` is None until a codec is chosen, unless the user gave it."""

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


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class that a cell defines at its top level, or an import, with what it needs to be run."""

    name: str
    source: str
    reads: frozenset[str] = frozenset()  # names evaluated when the definition itself is executed


@dataclass(frozen=True, slots=True)
class StageNames:
    """What the syntax tree says of a run of cells. All sets hold names of the user's top-level namespace."""

    imports: tuple[Definition, ...] = ()  # top-level imports and lasting line magics, in order
    definitions: tuple[Definition, ...] = ()  # top-level functions and classes, in order
    assigned: frozenset[str] = frozenset()  # bound in any other way
    read: frozenset[str] = frozenset()  # read at top level or inside any function, before the cells bind it or not
    opaque: bool = False  # exec, star imports, %run …: may bind or read names that nobody can see


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
    name is saved only where it can be, to keep what stages changed in it.
    """

    name: str
    made_by: str | None
    read_by: str


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
    carried: dict[str, tuple[Carried, ...]] = field(default_factory=dict)  # by stage id: what its checkpoint adds
    notices: tuple[str, ...] = ()

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
