from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from gyoshu_ckpt.codecs.encoding import encode
from gyoshu_ckpt.codecs.figures import FIGURE
from gyoshu_ckpt.codecs.interface import SaveContext


def drawing(height: float = 4.0, **options: Any) -> Figure:
    figure = Figure(figsize=(3, 2), **options)
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, height, 2], label="line")
    axes.set_title("a title")
    axes.legend()
    return figure


FIGURES = {
    "plain": drawing(),
    "constrained": drawing(layout="constrained"),
    "tight": drawing(layout="tight"),
    "empty": Figure(),
}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_figure_comes_back_with_a_png_beside_it(figure: Figure, store: Any) -> None:
    encoded = encode(figure, store.writer, SaveContext(), name="fig")
    assert (encoded.codec, encoded.trust, encoded.file_name) == ("figure", "code", "fig.figure.pkl")
    loaded = store.load(encoded)
    assert type(loaded) is Figure
    assert FIGURE.is_same(figure, loaded)
    (png,) = encoded.companions
    assert (png.file_name, png.media_type, png.codec, png.trust) == ("fig.png", "image/png", "file", "data")
    pixels = matplotlib.image.imread(io.BytesIO(store.bytes_of(png)), format="png")
    assert pixels.shape[:2] == tuple(int(n) for n in (figure.get_size_inches() * figure.dpi)[::-1])


def test_who_asks_for_a_png_gets_it_under_that_name(store: Any) -> None:
    encoded = encode(drawing(), store.writer, SaveContext(), name="fig", file_name="plot.png")
    assert encoded.file_name == "plot.figure.pkl"
    assert encoded.media_type == "application/x-pickle"
    assert [c.file_name for c in encoded.companions] == ["plot.png"]


def test_a_formatter_that_is_a_lambda_is_no_obstacle(store: Any) -> None:
    figure = drawing()
    figure.axes[0].yaxis.set_major_formatter(lambda value, position: f"{value:.0f} EUR")
    loaded = store.load(encode(figure, store.writer, SaveContext(), name="fig"))
    assert FIGURE.is_same(figure, loaded)


@pytest.mark.parametrize("other", [drawing(5.0), Figure()], ids=["other line", "empty"])
def test_is_same_catches_a_broken_load(other: Figure) -> None:
    assert not FIGURE.is_same(drawing(), other)


def test_is_same_catches_another_type() -> None:
    assert not FIGURE.is_same(drawing(), np.zeros(3))


def test_a_loaded_figure_can_be_drawn_on(store: Any) -> None:
    loaded = store.load(encode(drawing(), store.writer, SaveContext(), name="fig"))
    loaded.axes[0].plot([1, 2], [2, 1])
    assert not FIGURE.is_same(drawing(), loaded)


PYPLOT = """
import io, sys, matplotlib
matplotlib.use("svg")  # any backend that is not Agg
import matplotlib.pyplot as plt
from gyoshu_ckpt.codecs.figures import FIGURE
from gyoshu_ckpt.codecs.pickles import PICKLE
from gyoshu_ckpt.codecs.interface import SaveContext
figure, axes = plt.subplots()
axes.plot([1, 2])
canvas, backend, numbers = figure.canvas, matplotlib.get_backend(), plt.get_fignums()
for codec, value in ((FIGURE, figure), (PICKLE, axes)):
    file = io.BytesIO()
    codec.save(value, file, SaveContext())
    file.seek(0)
    assert codec.prove(value, file, SaveContext()) is None
    file.seek(0)
    loaded = codec.load(file, 1)
    list(codec.companions(value))
    assert plt.get_fignums() == numbers == [1], plt.get_fignums()
    assert plt.figure(1) is figure
    assert figure.canvas is canvas
    assert matplotlib.get_backend() == backend == "svg"
"""


def test_nothing_of_the_users_pyplot_changes() -> None:
    done = subprocess.run([sys.executable, "-c", PYPLOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
