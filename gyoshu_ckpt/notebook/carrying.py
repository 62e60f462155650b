"""What a checkpoint has to hold beside the declared outputs, so that no later stage ends in a NameError.

Two answers, kept apart:

- *certain*: a later stage reads the name, itself or through a function that it calls, before it binds it. The
  value has to be saved; the user is told to declare it.
- *uncertain*: a value that goes on living may hold a function or class that reads the name, or a later stage
  runs code that nobody can see. Saved where that is possible, in silence.

Imports and definitions are never carried: they come back from their source. A setup name is carried only if a
finished stage mentions it, since only then can it differ from what setup makes again.

Not handled: names that reach a stage through files, modules or threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gyoshu_ckpt.core.plan import Carried, OutputKind, Stage, StageNames, WayBack

_Owners = Mapping[str, tuple[int, WayBack]]  # name -> the run of cells that binds it last (0: setup), and how


def carried_names(setup: StageNames, stages: Sequence[Stage]) -> dict[str, tuple[Carried, ...]]:
    """For each stage, by its id: what its checkpoint holds beside declared outputs."""
    return _Carrying(setup, stages).result()


def undeclared(carried: Mapping[str, Iterable[Carried]]) -> list[Carried]:
    """What some stage makes and a later one reads, though nobody declares it: each name once, in order."""
    found: dict[str, Carried] = {}
    for each in (each for names in carried.values() for each in names):
        if each.certain and each.made_by is not None:
            found.setdefault(each.name, each)
    return list(found.values())


class _Carrying:
    def __init__(self, setup: StageNames, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._runs = [setup, *(stage.names for stage in stages)]
        self._owners = list(_owners_after_each(self._runs))

    def result(self) -> dict[str, tuple[Carried, ...]]:
        live = self._live_after_each()
        declared: set[str] = set()
        mentioned: set[str] = set()
        carried = {}
        for position, stage in enumerate(self._stages):
            declared |= {output.name for output in stage.outputs if output.kind is OutputKind.VARIABLE}
            mentioned |= stage.names.assigned | self._with_bodies(
                stage.names.read, self._owners[position + 1]
            )
            found = dict(self._found(position, live[position]))
            carried[stage.stage_id] = tuple(
                found[name]
                for name in sorted(found)
                if name not in declared and (found[name].made_by is not None or name in mentioned)
            )
        return carried

    def _live_after_each(self) -> list[dict[str, str]]:
        """For each stage: the names that later ones read before they bind them, and the first that does."""
        live: dict[str, str] = {}
        result: list[dict[str, str]] = []
        for position in range(len(self._stages) - 1, -1, -1):
            result.insert(0, live)
            stage = self._stages[position]
            wanted = stage.names.needed | {name for name in stage.inputs if name.isidentifier()}
            live = {name: reader for name, reader in live.items() if name not in stage.names.surely_bound}
            live |= dict.fromkeys(self._with_bodies(wanted, self._owners[position]), stage.stage_id)
        return result

    def _found(self, position: int, live: Mapping[str, str]) -> Iterator[tuple[str, Carried]]:
        """What the checkpoint after a stage needs; certain ones last, so that they win."""
        later = self._stages[position + 1 :]
        if not later:
            return
        owners = self._owners[position + 1]
        hidden = [stage.stage_id for stage in self._stages[: position + 1] if stage.names.opaque]
        for name in self._suspected(position, live):
            if owners.get(name, (0, None))[1] is WayBack.VARIABLE:
                yield name, Carried(name, self._maker(owners[name][0]), later[0].stage_id, certain=False)
        for name, reader in live.items():
            if name not in owners and hidden:
                yield name, Carried(name, hidden[-1], reader, certain=False)
            elif name in owners and owners[name][1] is WayBack.VARIABLE:
                yield name, Carried(name, self._maker(owners[name][0]), reader)

    def _suspected(self, position: int, live: Mapping[str, str]) -> set[str]:
        """Names that nothing later reads in plain sight, but that could be read all the same."""
        owners = self._owners[position + 1]
        if any(stage.names.opaque for stage in self._stages[position + 1 :]):
            return set(owners)
        values = {name for name in live if owners.get(name, (0, None))[1] is WayBack.VARIABLE}
        suspected: set[str] = set()
        for number, run in enumerate(self._runs[: position + 2]):
            if values & (run.assigned | run.read):  # here a value may have taken in a function or an instance
                functions = {
                    name for name in run.read if owners.get(name, (0, None))[1] is WayBack.DEFINITION
                }
                suspected |= self._with_bodies(functions, owners)
            if number > 0:  # a definition of a finished stage is executed again
                reads = {name for definition in run.definitions for name in definition.reads}
                suspected |= self._with_bodies(reads, owners)
        return suspected

    def _with_bodies(self, names: Iterable[str], owners: _Owners) -> set[str]:
        """``names`` and all that the functions and classes among them read, and those these read, …"""
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            run, way = owners.get(name, (0, None))
            if way is WayBack.DEFINITION:
                for definition in self._runs[run].definitions:
                    if definition.name == name:
                        todo.extend(definition.reads | definition.uses)
        return seen

    def _maker(self, run: int) -> str | None:
        return self._stages[run - 1].stage_id if run > 0 else None


def _owners_after_each(runs: Sequence[StageNames]) -> Iterator[_Owners]:
    owners: dict[str, tuple[int, WayBack]] = {}
    for number, run in enumerate(runs):
        owners |= {each.name: (number, WayBack.IMPORT) for each in run.imports}
        owners |= {each.name: (number, WayBack.DEFINITION) for each in run.definitions}
        owners |= dict.fromkeys(run.assigned, (number, WayBack.VARIABLE))
        yield dict(owners)
