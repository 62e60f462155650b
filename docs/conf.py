"""How the documentation is built: ``sphinx-build -W -b html docs docs/_build``."""

from gyoshu_ckpt.version import __version__

project = "gyoshu-ckpt"
author = "The gyoshu-ckpt developers"
copyright = "The gyoshu-ckpt developers"
version = release = __version__

extensions = ["myst_nb", "sphinx_click"]
exclude_patterns = ["_build"]
nb_execution_mode = "off"  # notebooks are executed by tests, not by the docs
myst_heading_anchors = 3

html_theme = "furo"
html_title = "gyoshu-ckpt"
