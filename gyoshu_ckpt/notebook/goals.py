"""The goal of a stage, where its author did not give one: what the notebook says of it anyway.

The first docstring or comment of its first cell, else the nearest heading above. One line of text.
Not handled: comments behind code, and comments that talk to tools.
"""

from __future__ import annotations

import ast
import re
import textwrap

LONGEST = 200

_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_COMMENT = re.compile(r"\s*(?:#+|//+|--)\s*(.*)")
_FOR_TOOLS = re.compile(r"(?:!|%|noqa|type:|fmt:|ruff:|mypy:|pylint:|pragma|isort:)", re.IGNORECASE)


def goal_in_code(code: str, language: str) -> str:
    """What the docstring or the first comment of a cell says; empty if it has neither."""
    strings: list[ast.Constant] = []
    if language == "python":
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])  # IPython's syntax: comments are still comments
        strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        first = tree.body[0] if tree.body else None
        if isinstance(first, ast.Expr) and first.value in strings:
            return _one_line(str(ast.literal_eval(first.value)).strip().split("\n\n")[0])
    inside_strings = {
        line for each in strings for line in range(each.lineno + 1, (each.end_lineno or each.lineno) + 1)
    }
    found: list[str] = []
    for number, line in enumerate(code.split("\n"), 1):
        match = _COMMENT.fullmatch(line) if number not in inside_strings else None
        text = match.group(1).strip() if match else ""
        if re.search(r"\w", text) and not _FOR_TOOLS.match(text):
            found.append(text)
        elif found:
            break
    return _one_line(" ".join(found))


def last_heading(markdown: str) -> str:
    """The last heading of a markdown cell; empty if it has none."""
    heading, fence = "", None
    for line in markdown.split("\n"):
        opened = _FENCE.match(line)
        if opened and fence in (None, opened.group(1)):
            fence = opened.group(1) if fence is None else None
        elif fence is None and (match := _HEADING.fullmatch(line)):
            heading = _one_line(match.group(1)) or heading
    return heading


def _one_line(text: str) -> str:
    return textwrap.shorten(" ".join(text.split()), LONGEST, placeholder=" …")
