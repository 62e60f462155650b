import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gyoshu_ckpt.errors import BadPlan, GyoshuError, UserMistake
from gyoshu_ckpt.notebook.reading import read_notebook


def written(tmp_path: Path, document: object, name: str = "nb.ipynb") -> Path:
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def v4(*cells: dict[str, Any], minor: int = 5, **metadata: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}


def code(source: object = "x = 1", **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": 3} | more


def test_outputs_are_gone_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    shown = {"output_type": "stream", "name": "stdout", "text": "hello"}
    document = v4(code("x = 1", id="a", outputs=[shown], metadata={"tags": ["t"]}), mine={"k": [1]})
    path = written(tmp_path, document)
    before = path.read_bytes()
    notebook = read_notebook(path)
    assert notebook["cells"] == [code("x = 1", id="a", execution_count=None, metadata={"tags": ["t"]})]
    assert notebook["metadata"] == {"mine": {"k": [1]}}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert path.read_bytes() == before


def test_a_damaged_output_costs_nothing(tmp_path: Path) -> None:
    assert read_notebook(written(tmp_path, v4(code(id="a", outputs=[{"output_type": 7}, None]))))["cells"]


def test_lists_of_lines_and_crlf_become_plain_text(tmp_path: Path) -> None:
    notebook = read_notebook(written(tmp_path, v4(code(["a = 1\r\n", "b = 2"], id="a"))))
    assert notebook["cells"][0]["source"] == "a = 1\nb = 2"


@pytest.mark.parametrize("minor", [0, 1, 2, 3, 4])
def test_older_minor_formats_are_upgraded_with_the_same_ids_each_time(tmp_path: Path, minor: int) -> None:
    path = written(
        tmp_path,
        v4(code("a = 1"), code("a = 1"), {"cell_type": "raw", "metadata": {}, "source": "r"}, minor=minor),
    )
    notebook = read_notebook(path)
    found = [cell["id"] for cell in notebook["cells"]]
    assert len(set(found)) == 3
    assert found == [cell["id"] for cell in read_notebook(path)["cells"]]
    nbformat.validate(notebook)
    assert notebook["nbformat_minor"] == 5


def test_missing_repeated_and_invalid_ids_are_made_anew_and_good_ones_stay(tmp_path: Path) -> None:
    cells = [
        code("a", id="one"),
        code("b", id="one"),
        code("c", id="no blanks!"),
        code("d"),
        code("e", id="x" * 65),
        code("f", id=7),
        code("g", id="two"),
    ]
    path = written(tmp_path, v4(*cells))
    notebook = read_notebook(path)
    found = [cell["id"] for cell in notebook["cells"]]
    assert found[0] == "one"
    assert found[-1] == "two"
    assert len(set(found)) == len(cells)
    assert found == [cell["id"] for cell in read_notebook(path)["cells"]]
    nbformat.validate(notebook)


def test_a_made_id_never_pushes_an_original_aside(tmp_path: Path) -> None:
    made = read_notebook(written(tmp_path, v4(code("a"))))["cells"][0]["id"]
    notebook = read_notebook(written(tmp_path, v4(code("a"), code("z", id=made))))
    assert notebook["cells"][1]["id"] == made
    assert notebook["cells"][0]["id"] != made


def test_format_3_is_upgraded(tmp_path: Path) -> None:
    sheet = {
        "cells": [
            {"cell_type": "heading", "level": 2, "metadata": {}, "source": ["Load"]},
            {
                "cell_type": "code",
                "collapsed": False,
                "input": ["%%stage S01_load\n", "x = 1"],
                "language": "python",
                "metadata": {},
                "outputs": [{"output_type": "pyout"}, 7],
                "prompt_number": 1,
            },
        ],
        "metadata": {},
    }
    path = written(
        tmp_path, {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [sheet]}
    )
    notebook = read_notebook(path)
    assert [cell["source"] for cell in notebook["cells"]] == ["## Load", "%%stage S01_load\nx = 1"]
    assert notebook["cells"][1]["outputs"] == []
    assert notebook == read_notebook(path)
    nbformat.validate(notebook)


def test_a_kernelspec_without_a_display_name_is_mended(tmp_path: Path) -> None:
    notebook = read_notebook(written(tmp_path, v4(code(id="a"), kernelspec={"name": "python3"})))
    assert notebook["metadata"]["kernelspec"] == {"name": "python3", "display_name": "python3"}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "JSON, but no notebook"),
        ("1", "JSON, but no notebook"),
        ({"a": 1}, "JSON, but no notebook"),
        ({"cells": []}, "nbformat is not a version number"),
        ({"nbformat": "4"}, "nbformat is not a version number"),
        ({"nbformat": True}, "nbformat is not a version number"),
        ({"nbformat": 0}, "nbformat is not a version number"),
        ({"nbformat": 5, "cells": []}, "written in notebook format 5"),
        ({"nbformat": 4, "nbformat_minor": 5}, "cells is not a list"),
        ({"nbformat": 4, "cells": {}}, "cells is not a list"),
        ({"nbformat": 3}, "not a valid notebook"),
        ({"nbformat": 3, "worksheets": [[]]}, "not a valid notebook"),
        ({"nbformat": 2, "worksheets": "x"}, "not a valid notebook"),
        ({"nbformat": 1, "worksheets": [{"cells": True}]}, "not a valid notebook"),
        (v4(code(), 5), "cell 2: not a valid notebook: it is not an object"),  # type: ignore[arg-type]
        (v4(code(source=5)), "cell 1: not a valid notebook: it has no text"),
        (v4({"source": "x"}), "cell 1: not a valid notebook: it has no text"),
        (v4(code(), code(unknown=1)), "cell 2: not a valid notebook"),
        (v4(code(), {"cell_type": "poem", "source": "x"}), "not a valid notebook"),
        (v4(code(metadata=5)), "not a valid notebook"),
        (v4(code(metadata={"tags": 5})), "not a valid notebook"),
        (v4(code(), kernelspec=5), "not a valid notebook"),
        (v4(), "no code cell with anything in it"),
        (
            v4(code(" \n "), {"cell_type": "markdown", "metadata": {}, "source": "x"}),
            "no code cell with anything",
        ),
    ],
)
def test_what_is_no_notebook_is_told_in_one_sentence(tmp_path: Path, document: object, told: str) -> None:
    with pytest.raises(BadPlan) as refusal:
        read_notebook(written(tmp_path, document))
    assert refusal.value.message.startswith("nb.ipynb")
    assert told in refusal.value.message
    assert "\n" not in refusal.value.message
    assert refusal.value.next_step
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("name", ["notes.txt", "notebook", "data.ipynb.bak", "script.r"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadPlan, match=f"^{name}: neither a notebook nor a percent script"):
        read_notebook(written(tmp_path, "x", name))


def missing(tmp_path: Path) -> Path:
    return tmp_path / "gone.ipynb"


def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder.ipynb"
    path.mkdir()
    return path


def with_nul(tmp_path: Path) -> Path:
    return tmp_path / "a\0b.ipynb"


def loop(tmp_path: Path) -> Path:
    path = tmp_path / "loop.ipynb"
    path.symlink_to(path)
    return path


@pytest.mark.parametrize(
    ("make", "told"),
    [(missing, "no such file"), (folder, "a folder"), (with_nul, "cannot be read"), (loop, "cannot be read")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, make: Callable[[Path], Path], told: str) -> None:
    with pytest.raises(UserMistake, match=told) as refusal:
        read_notebook(make(tmp_path))
    assert refusal.value.exit_code == 2
    assert refusal.value.next_step


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPlan, match=r"nb\.ipynb: not UTF-8 text"):
        read_notebook(path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(v4(code(id="a"))).encode())
    assert read_notebook(path)["cells"][0]["id"] == "a"


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 6)
    | st.floats()
    | st.sampled_from(["code", "markdown", "x = 1", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cells",
                    "cell_type",
                    "source",
                    "metadata",
                    "outputs",
                    "id",
                    "nbformat",
                    "worksheets",
                    "tags",
                    "input",
                    "nbformat_minor",
                    "kernelspec",
                    "name",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
_LIKE_A_NOTEBOOK = st.fixed_dictionaries(
    {"nbformat": st.integers(1, 4)},
    optional={
        "nbformat_minor": st.integers(0, 6) | _JSON,
        "metadata": _JSON,
        "cells": st.lists(_JSON, max_size=3),
        "worksheets": st.lists(
            st.fixed_dictionaries({"cells": st.lists(_JSON, max_size=3)}) | _JSON, max_size=2
        ),
    },
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=_JSON | _LIKE_A_NOTEBOOK)
def test_arbitrary_json_is_a_notebook_or_a_sentence(tmp_path: Path, document: object) -> None:
    with contextlib.suppress(GyoshuError):  # and nothing else
        nbformat.validate(read_notebook(written(tmp_path, json.dumps(document))))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_bytes(data)
    with pytest.raises(UserMistake):
        read_notebook(path)


SCRIPT = """\
# ---
# jupyter:
#   kernelspec:
#     name: python3
#     display_name: Python 3
# ---

# %% [markdown]
# # Title

# %% tags=["parameters"]
alpha = 1

# %%
# %%stage S01_load --out df
df = alpha
# %matplotlib inline

# %%
%%stage S02_eda
print(df)

# %%stage S03_train
print(df)
"""


def test_a_percent_script(tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPT, "script.py")
    notebook = read_notebook(path)
    assert [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]] == [
        ("markdown", "# Title"),
        ("code", "alpha = 1"),
        ("code", "%%stage S01_load --out df\ndf = alpha\n%matplotlib inline"),
        ("code", "%%stage S02_eda\nprint(df)"),
        ("code", "%%stage S03_train\nprint(df)"),
    ]
    assert notebook["cells"][1]["metadata"]["tags"] == ["parameters"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook == read_notebook(path)
    nbformat.validate(notebook)


def test_a_script_needs_jupytext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(UserMistake, match=r"script\.py: percent scripts need jupytext") as refusal:
        read_notebook(written(tmp_path, SCRIPT, "script.py"))
    assert refusal.value.next_step == "pip install 'gyoshu-ckpt[scripts]'"


def test_a_script_with_a_broken_header(tmp_path: Path) -> None:
    broken = SCRIPT.replace("#     display_name: Python 3\n", "")
    with pytest.raises(BadPlan, match=r"^script\.py: not a percent script"):
        read_notebook(written(tmp_path, broken, "script.py"))
