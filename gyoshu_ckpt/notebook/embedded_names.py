"""Names of variables inside strings, where a library looks them up in the caller's namespace.

pandas: ``df.query("x > @limit")``; DuckDB and its like: ``duckdb.sql("select * from df")``.
Not handled: strings that are put together at run time, and other libraries that do so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_BY_METHOD = {
    "query": re.compile(r"@([^\W\d]\w*)"),
    "eval": re.compile(r"@([^\W\d]\w*)"),
    "sql": re.compile(r"\b(?:from|join)\s+([^\W\d]\w*)", re.IGNORECASE),
    "execute": re.compile(r"\b(?:from|join)\s+([^\W\d]\w*)", re.IGNORECASE),
}


def names_in_strings(call: ast.Call) -> Iterator[str]:
    """The names that a call finds in the strings among its arguments."""
    pattern = _BY_METHOD.get(call.func.attr) if isinstance(call.func, ast.Attribute) else None
    if pattern is not None:
        for argument in call.args:
            for node in ast.walk(argument):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from pattern.findall(node.value)
