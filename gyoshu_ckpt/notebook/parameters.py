"""Parameters given from outside, as papermill does it: ``-p name value``.

Rules
1. The cell tagged ``parameters`` holds the defaults. The given values go into a cell of their own right after
   it, tagged ``injected-parameters``; one that papermill left there is replaced.
2. Without a ``parameters`` cell the new one goes to the very top, with a notice.
3. A name that the ``parameters`` cell does not assign is refused: it is a misspelling that would be without
   effect.
4. What is written into the cell reads back as the value that was given.

Not handled: languages other than Python.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping
from typing import Any

from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.notebook.place import did_you_mean
from gyoshu_ckpt.notebook.reading import new_id

DEFAULTS_TAG = "parameters"
INJECTED_TAG = "injected-parameters"


def parse_parameter(text: str) -> object:
    """The value of ``-p name TEXT``: a bool, None, a number, or the text itself."""
    constants: dict[str, object] = {"True": True, "true": True, "False": False, "false": False, "None": None}
    if text in constants:
        return constants[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    # More digits than a float holds is no infinity that somebody asked for.
    return text if math.isinf(number) and "inf" not in text.lower() else number


def python_literal(value: object) -> str:
    """Python source that evaluates to ``value``; :class:`UserMistake` for what has no such form."""
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, list | tuple):
        items = ", ".join(python_literal(item) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items},)" if items else "()"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items()) + "}"
    raise UserMistake(
        f"a parameter cannot be a {type(value).__name__}",
        next_step="give a text, a number, True, False or None",
    )


def has_tag(cell: Mapping[str, Any], tag: str) -> bool:
    """Whether a cell of a notebook carries ``tag``."""
    return tag in cell["metadata"].get("tags", ())


def defaults_cell(cells: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The cell that holds the defaults, if there is one."""
    return next((c for c in cells if c["cell_type"] == "code" and has_tag(c, DEFAULTS_TAG)), None)


def inject(
    cells: list[dict[str, Any]], parameters: Mapping[str, object], known: Iterable[str] | None, language: str
) -> list[str]:
    """Put ``parameters`` into ``cells``; return notices. ``known``: what the defaults cell assigns."""
    if not parameters:
        return []
    if language != "python":
        raise UserMistake(
            f"-p works in Python notebooks only, and this one is written in {language}",
            next_step="set the values in a cell of the notebook",
        )
    _check_names(parameters, known)
    source = "\n".join(["# Parameters", *(f"{name} = {python_literal(v)}" for name, v in parameters.items())])
    injected: dict[str, Any] = {
        "cell_type": "code", "execution_count": None, "metadata": {"tags": [INJECTED_TAG]}, "outputs": [],
        "source": source,
    }  # fmt: skip
    defaults = defaults_cell(cells)
    cells[:] = [cell for cell in cells if not has_tag(cell, INJECTED_TAG)]
    injected["id"] = new_id(injected, {cell["id"] for cell in cells})
    cells.insert(cells.index(defaults) + 1 if defaults is not None else 0, injected)
    if defaults is not None:
        return []
    return [f"no cell is tagged {DEFAULTS_TAG}: the values given with -p were put before the first cell"]


def _check_names(parameters: Mapping[str, object], known: Iterable[str] | None) -> None:
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UserMistake(f"{name!r} is not a variable name", next_step="write -p NAME VALUE")
        if known is not None and name not in known:
            names = ", ".join(sorted(known)) or "nothing"
            raise UserMistake(
                f"the cell tagged {DEFAULTS_TAG} has no {name}{did_you_mean(name, known)}",
                next_step=f"it assigns {names}",
            )
