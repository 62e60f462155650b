import pytest

from gyoshu_ckpt.notebook.goals import goal_in_code, last_heading


@pytest.mark.parametrize(
    ("code", "goal"),
    [
        ('"""Load the\n   data.\n\nMore."""\nx = 1', "Load the data."),
        ("'Load it'", "Load it"),
        ("# Load the data\n# from disk\nx = 1\n# later", "Load the data from disk"),
        ("import a\n# then load\nx = 1", "then load"),
        ("x = 1  # behind code", ""),
        ("x = '''\n# in a string\n'''\n# outside", "outside"),
        ("f'not a docstring {x}'", ""),
        ("x = 'not a docstring'", ""),
        ("b'bytes'\n# text", "text"),
        ("# noqa: F401\n# %matplotlib inline\n#!shebang\n# -----\n### Load ###", "Load ###"),
        ("!ls\n# with a shell line", "with a shell line"),
        ("x = 1", ""),
        ("# \n#\n", ""),
        ("# " + "word " * 100, "word " * 39 + "…"),
    ],
)
def test_the_goal_that_python_code_tells(code: str, goal: str) -> None:
    assert goal_in_code(code, "python") == goal


@pytest.mark.parametrize(
    ("code", "goal"), [("# Load\nls", "Load"), ("// Load\nx", "Load"), ("'text'", ""), ("-- Load", "Load")]
)
def test_the_goal_that_other_code_tells(code: str, goal: str) -> None:
    assert goal_in_code(code, "bash") == goal


@pytest.mark.parametrize(
    ("markdown", "heading"),
    [
        ("# Load", "Load"),
        ("# Load\ntext\n### Then *fit* ###\nmore", "Then *fit*"),
        ("text", ""),
        ("#hashtag", ""),
        ("# \n", ""),
        ("# Real\n```\n# comment\n```", "Real"),
        ("# Real\n~~~\n```\n# no\n~~~\n# Last", "Last"),
        ("    # code", ""),
    ],
)
def test_the_last_heading(markdown: str, heading: str) -> None:
    assert last_heading(markdown) == heading
