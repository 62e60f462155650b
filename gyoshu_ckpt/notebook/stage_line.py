"""What makes a cell the first of a stage: a ``%%stage`` line, or the same in the cell's metadata.

::

    %%stage S01_load_data --out df --out model=model.joblib --in raw.csv --max 2m --goal "text"
    cell.metadata["gyoshu"] = {"stage": "S01_load_data", "out": ["df", "model=model.joblib"],
                               "in": ["raw.csv"], "max": "2m", "goal": "text"}
    # "out" may be an object as well: {"model": "model.joblib"}

Rules
1. The line is the first of its cell that is not blank, as IPython wants it of any cell magic.
2. An output is ``df`` (a variable), ``model=model.joblib`` (a variable, and the file it is stored in),
   ``scores.csv`` (a file that the stage writes) or ``plots/`` (a folder that it writes).
3. What is not understood is refused: a misspelled option must not cost an artifact.

Not handled: whether any cell makes an output (`slicing`), and whether two files meet in a stage's folder
because a codec chose the name of one of them.
"""

from __future__ import annotations

import keyword
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.core.durations import parse_duration
from gyoshu_ckpt.core.plan import Output, OutputKind
from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.notebook.place import Place, did_you_mean

_LINE = re.compile(r"%%stage(?!\w)(.*)")
_OPTIONS = ("--out", "--in", "--max", "--goal")
_KEYS = ("stage", "out", "in", "max", "goal")
_USAGE = "%%stage S01_load_data --out df --in raw.csv --max 2m"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a stage says of itself."""

    stage_id: str
    outputs: tuple[Output, ...] = ()
    inputs: tuple[str, ...] = ()
    max_duration_s: float | None = None
    goal: str | None = None


def split_stage_line(source: str) -> tuple[str | None, str]:
    """The text after ``%%stage`` (None if the cell has no such line) and the rest: what the kernel gets."""
    lines = source.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    match = _LINE.fullmatch(lines[0].strip()) if lines else None
    if match is None:
        return None, source
    return match.group(1).strip(), "\n".join(lines[1:])


def is_stage_line(line: str) -> bool:
    """Whether a line would begin a stage if it were the first of its cell."""
    return _LINE.fullmatch(line.strip()) is not None


def read_annotation(line: str | None, metadata: Mapping[str, Any], place: Place) -> Annotation | None:
    """The annotation of a cell, from its ``%%stage`` line or its metadata; None if it has neither."""
    under_key = metadata.get("gyoshu")
    if line is not None and under_key is not None:
        raise place.refuse(
            "both a %%stage line and the metadata key gyoshu begin a stage here", "keep one of the two"
        )
    if line is not None:
        return _from_line(line, place)
    if under_key is not None:
        return _from_metadata(under_key, place)
    return None


def _from_line(line: str, place: Place) -> Annotation:
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise place.refuse(f"the %%stage line cannot be read ({problem})", "close the quotes") from None
    stage_ids: list[str] = []
    options: dict[str, list[str]] = {option: [] for option in _OPTIONS}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            stage_ids.append(word)
            continue
        option, separator, value = word.partition("=")
        if option not in options:
            raise place.refuse(
                f"%%stage has no option {option}{did_you_mean(option, _OPTIONS)}", f"write it as {_USAGE}"
            )
        options[option].append(value if separator else _value_of(option, next(rest, None), place))
    if len(stage_ids) != 1:
        found = "no stage id" if not stage_ids else f"more than one stage id ({', '.join(stage_ids)})"
        raise place.refuse(
            f"the %%stage line has {found}", f"write it as {_USAGE}, with a value of several words in quotes"
        )
    for option in ("--max", "--goal"):
        if len(options[option]) > 1:
            raise place.refuse(f"{option} stands twice", f"keep one {option}")
    limit, goal = (next(iter(options[option]), None) for option in ("--max", "--goal"))
    return _checked(stage_ids[0], options["--out"], options["--in"], limit, goal=goal, place=place)


def _value_of(option: str, value: str | None, place: Place) -> str:
    if value is None or value.startswith("--"):
        raise place.refuse(f"{option} has no value", f"write it as {_USAGE}")
    return value


def _from_metadata(under_key: Any, place: Place) -> Annotation:
    if not isinstance(under_key, Mapping):
        raise place.refuse(
            "the metadata key gyoshu does not hold an object", 'write it as {"stage": "S01_load_data"}'
        )
    for key in under_key:
        if key not in _KEYS:
            raise place.refuse(
                f"the metadata key gyoshu has no field {key}{did_you_mean(key, _KEYS)}",
                f"its fields are {', '.join(_KEYS)}",
            )
    stage_id: Any = under_key.get("stage")
    limit: Any = under_key.get("max")
    goal: Any = under_key.get("goal")
    if not isinstance(stage_id, str):
        raise place.refuse("the metadata key gyoshu names no stage", 'add "stage": "S01_load_data"')
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        limit = f"{limit:f}"
    for field, value in (("max", limit), ("goal", goal)):
        if value is not None and not isinstance(value, str):
            raise place.refuse(f"{field} in the metadata key gyoshu is not text", f"put {field} in quotes")
    outputs = under_key.get("out", ())
    if isinstance(outputs, Mapping):
        outputs = [f"{name}={file}" if file else name for name, file in outputs.items()]
    inputs = _texts("in", under_key.get("in", ()), place)
    return _checked(stage_id, _texts("out", outputs, place), inputs, limit, goal=goal, place=place)


def _texts(field: str, value: Any, place: Place) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise place.refuse(
            f"{field} in the metadata key gyoshu is not a list of texts", f'write "{field}": ["df"]'
        )
    return list(value)


def _checked(
    stage_id: str,
    outputs: Iterable[str],
    inputs: Iterable[str],
    limit: str | None,
    *,
    goal: str | None,
    place: Place,
) -> Annotation:
    """Both forms meet here, so that they obey the same rules."""
    try:
        ids.check_stage_id(stage_id)
        place = replace(place, stage_id=stage_id)
        return Annotation(
            stage_id=stage_id,
            outputs=_outputs(outputs, place),
            inputs=tuple(dict.fromkeys(_input(text, place) for text in inputs)),
            max_duration_s=None if limit is None else parse_duration(limit),
            goal=None if goal is None else " ".join(goal.split()),
        )
    except UserMistake as refusal:
        if refusal.message.startswith(place.file):
            raise
        raise place.refuse(refusal.message, refusal.next_step or f"write it as {_USAGE}") from None


def _input(text: str, place: Place) -> str:
    if not text.strip() or not text.isprintable():
        raise place.refuse("--in has no name", "give a variable or a path, for example --in raw.csv")
    return unicodedata.normalize("NFKC", text) if text.isidentifier() else text


def _outputs(texts: Iterable[str], place: Place) -> tuple[Output, ...]:
    found: list[Output] = []
    visible: dict[str, str] = {}
    for text in texts:
        output = _output(text, place)
        if any(output.name == other.name for other in found):
            raise place.refuse(f"the output {output.name} is declared twice", f"keep one --out {output.name}")
        # Some filesystems do not tell upper from lower case, and a store is copied between machines.
        same_file = visible.setdefault((output.file_name or output.name).casefold(), output.name)
        if same_file != output.name:
            raise place.refuse(
                f"the outputs {same_file} and {output.name} would be stored in one file",
                f"give {output.name} a file name of its own",
            )
        found.append(output)
    return tuple(found)


def _output(text: str, place: Place) -> Output:
    name, separator, file_name = text.partition("=")
    if separator:
        from gyoshu_ckpt.codecs.encoding import check_output_file_name

        ids.check_file_name(file_name)
        check_output_file_name(file_name)
        return Output(_variable_name(name, place), OutputKind.VARIABLE, file_name)
    if text.endswith("/"):
        name = ids.check_file_name(text.removesuffix("/"))
        return Output(name, OutputKind.FOLDER, name)
    if text.isidentifier():
        return Output(_variable_name(text, place), OutputKind.VARIABLE)
    ids.check_file_name(text)
    if "." not in text:
        raise place.refuse(
            f"the output {text} is no variable name, no file name with a suffix and no folder",
            f"write --out df for a variable, --out {text}.csv for a file, --out {text}/ for a folder",
        )
    return Output(text, OutputKind.FILE, text)


def _variable_name(text: str, place: Place) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise place.refuse(
            f"{text!r} is not a variable name", "name a variable of the notebook: --out df=df.parquet"
        )
    return unicodedata.normalize("NFKC", text)  # as Python itself reads names
