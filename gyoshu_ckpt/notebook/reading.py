"""A notebook file -> a plain nbformat 4.5 dict, without outputs.

Rules
1. The source file is only read.
2. Whatever the bytes are, the caller gets a valid notebook or one sentence: foreign parsers are fenced in.
3. Every cell has an id, and reading the same file twice gives the same ids: a missing, invalid or repeated id
   is made from the cell's content, never at random.
4. Outputs go before validation, so a damaged or huge output, which nobody needs here, costs nothing.

Older formats are upgraded in memory. Not handled: what the cells mean (`slicing`), and other text formats of
jupytext than percent scripts.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from pathlib import Path
from typing import Any

from gyoshu_ckpt.errors import BadPlan, UserMistake
from gyoshu_ckpt.notebook.place import Place

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MARKER = re.compile(r"#\s*%%(?!\S)")
_STAGE_MARKER = re.compile(r"#\s*%%stage\b")


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook in ``path``; :class:`UserMistake` says in one sentence why there is none."""
    place = Place(path.name or str(path))
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise place.refuse(
            "neither a file nor a folder", "name a notebook (.ipynb) or a percent script (.py)"
        )
    if path.suffix.lower() not in {".ipynb", ".py"}:
        raise place.refuse(
            "neither a notebook nor a percent script",
            "give a file that ends in .ipynb, or in .py with cells that begin with # %%",
        )
    text = _text_of(path)
    notebook = _from_script(text, place) if path.suffix.lower() == ".py" else _from_json(text, place)
    _strip_outputs(notebook["cells"])
    _give_ids(notebook["cells"])
    _validate(notebook, place)
    if not any(cell["cell_type"] == "code" and cell["source"].strip() for cell in notebook["cells"]):
        raise place.refuse(
            "no code cell with anything in it", "add a code cell whose first line is %%stage S01_load_data"
        )
    return notebook


def new_id(cell: dict[str, Any], taken: set[str]) -> str:
    """An id made from the cell's content, unlike those in ``taken``, to which it is added."""
    content = f"{cell['cell_type']}\0{cell['source']}".encode(errors="surrogatepass")
    stem = hashlib.sha256(content).hexdigest()[:12]
    made, number = stem, 1
    while made in taken:  # cells with the same content
        number += 1
        made = f"{stem}-{number}"
    taken.add(made)
    return made


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise UserMistake(f"{path}: no such file", next_step="check the path, or cd to its folder") from None
    except IsADirectoryError:
        raise UserMistake(f"{path}: a folder, not a notebook", next_step="name a notebook in it") from None
    except UnicodeDecodeError:
        raise Place(path.name).refuse("not UTF-8 text", "save it again as a notebook from Jupyter") from None
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        why = getattr(problem, "strerror", None) or str(problem)
        raise UserMistake(f"{path}: cannot be read ({why})", next_step="check its permissions") from None


def _from_json(text: str, place: Place) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        detail = f" ({problem})" if isinstance(problem, json.JSONDecodeError) else ""
        raise place.refuse(f"not JSON{detail}", "save it again as a notebook from Jupyter") from None
    if not isinstance(raw, dict) or not ("nbformat" in raw or "cells" in raw or "worksheets" in raw):
        raise place.refuse("JSON, but no notebook", "give a file that Jupyter has saved as a notebook")
    major, minor = raw.get("nbformat"), raw.get("nbformat_minor", 0)
    if type(major) is not int or type(minor) is not int or major < 1:
        raise _no_notebook(place, "nbformat is not a version number")
    if major > 4:
        raise place.refuse(
            f"written in notebook format {major}, and this gyoshu reads up to 4",
            "save it from Jupyter in format 4, or pip install --upgrade gyoshu-ckpt nbformat",
        )
    if major < 4:
        raw = _upgraded(raw, place)
    cells, metadata = raw.get("cells"), raw.setdefault("metadata", {})
    if not isinstance(cells, list) or not isinstance(metadata, dict):
        raise _no_notebook(place, "cells is not a list, or metadata not an object")
    for number, cell in enumerate(cells, 1):
        _normalise(cell, Place(place.file, number))
    kernelspec = metadata.get("kernelspec")
    if isinstance(kernelspec, dict) and isinstance(kernelspec.get("name"), str):
        kernelspec.setdefault("display_name", kernelspec["name"])  # required, and often left out by hand
    # Formats 4.0 to 4.4 differ from 4.5 in cell ids only, so this is the whole upgrade.
    return {**raw, "nbformat": 4, "nbformat_minor": 5}


def _normalise(cell: Any, place: Place) -> None:
    if not isinstance(cell, dict):
        raise _no_notebook(place, "it is not an object")
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str) or not isinstance(cell.get("cell_type"), str):
        raise _no_notebook(place, "it has no text in source, or no cell_type")
    cell["source"] = source.replace("\r\n", "\n").replace("\r", "\n")
    cell.setdefault("metadata", {})


def _upgraded(raw: dict[str, Any], place: Place) -> dict[str, Any]:
    """Formats 1 to 3, by nbformat's own converter."""
    import nbformat

    untyped: Any = nbformat
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for cell in (cell for sheet in raw.get("worksheets", ()) for cell in sheet["cells"]):
                if "outputs" in cell:
                    cell["outputs"] = []
            if raw["nbformat"] == 3:  # has a schema: says what is wrong where the converter would stumble
                nbformat.validate(raw)
            converted = untyped.convert(untyped.reader.reads(json.dumps(raw)), 4)
    except Exception as problem:  # nothing here was written for arbitrary input: anything may come
        raise _no_notebook(place, _first_line(problem)) from None
    plain = json.loads(json.dumps(converted))
    for cell in plain["cells"]:
        cell.pop("id", None)  # random
    return dict(plain)


def _from_script(text: str, place: Place) -> dict[str, Any]:
    try:
        import jupytext
    except ImportError:
        raise UserMistake(
            f"{place}: percent scripts need jupytext", next_step="pip install 'gyoshu-ckpt[scripts]'"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = json.loads(json.dumps(jupytext.reads(_with_markers(text), fmt="py:percent")))
    except Exception as problem:  # whatever a parser of YAML, markdown or cells may raise
        raise place.refuse(
            f"not a percent script ({_first_line(problem)})", "begin each cell with a line # %%"
        ) from None
    for cell in notebook["cells"]:
        cell.pop("id", None)  # random
        cell["metadata"].pop("lines_to_next_cell", None)  # about the layout of the script, nothing else
    return dict(notebook)


def _with_markers(text: str) -> str:
    """Let ``# %%stage`` begin a cell by itself, as editors show it, and not only after a ``# %%`` line."""
    lines: list[str] = []
    before = ""
    for line in text.split("\n"):
        if _STAGE_MARKER.match(line) and not _MARKER.match(before):
            lines.append("# %%")
        lines.append(line)
        before = line if line.strip() else before
    return "\n".join(lines)


def _strip_outputs(cells: list[dict[str, Any]]) -> None:
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None


def _give_ids(cells: list[dict[str, Any]]) -> None:
    # All good ids are taken before one is made: a made one must never push an original aside.
    taken: set[str] = set()
    without = []
    for cell in cells:
        wanted = cell.get("id")
        if isinstance(wanted, str) and _CELL_ID.fullmatch(wanted) and wanted not in taken:
            taken.add(wanted)
        else:
            without.append(cell)
    for cell in without:
        cell["id"] = new_id(cell, taken)


def _validate(notebook: dict[str, Any], place: Place) -> None:
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nbformat.validate(notebook)
    except Exception as problem:  # not only ValidationError: its own reporting stumbles over odd input
        where = list(getattr(problem, "absolute_path", None) or getattr(problem, "relative_path", None) or ())
        if len(where) > 1 and where[0] == "cells" and isinstance(where[1], int):
            place = Place(place.file, where[1] + 1)
        raise _no_notebook(place, _first_line(problem)) from None


def _no_notebook(place: Place, why: str) -> BadPlan:
    return place.refuse(f"not a valid notebook: {why}", "open it in Jupyter and save it again")


def _first_line(problem: Exception) -> str:
    text = getattr(problem, "message", None) or str(problem) or type(problem).__name__
    line = str(text).strip().split("\n")[0]
    return line if len(line) <= 120 else line[:117] + "…"
