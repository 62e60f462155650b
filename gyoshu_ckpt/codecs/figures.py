"""Matplotlib figures: the figure itself as a pickle, and a PNG of it for people.

Rules
1. The data is ``{name}.figure.pkl``; the PNG stands beside it. Who asks for ``fig.png`` gets a PNG of that
   name, and the data beside it as ``fig.figure.pkl``: a PNG alone could not be drawn on after a resume.
2. Nothing of the user's changes: not the backend, not the figure's canvas, not pyplot's list of open figures.
   Loading opens no window, because figures are stored without theirs (`pickles`).
3. Two figures are the same when they draw the same pixels.

Not handled: ``.svg`` and ``.pdf`` (savefig to ``gy.artifact_path``), and animations.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, BinaryIO

from gyoshu_ckpt.codecs.interface import Codec, Companion, SaveContext, instance_of
from gyoshu_ckpt.codecs.pickles import PICKLE, PickleCodec


class FigureCodec(Codec):
    """``matplotlib.figure.Figure`` and its subclasses."""

    name = "figure"
    suffixes = (".figure.pkl", ".png")
    media_type = PickleCodec.media_type
    trust = "code"
    priority = 100

    def accepts(self, value: Any) -> bool:
        """Any figure."""
        return instance_of(value, "matplotlib.figure", "Figure", exactly=False)

    def save(self, value: Any, file: BinaryIO, context: SaveContext) -> None:
        """Draw once, so that the layout is settled, then pickle."""
        _drawn(value, "rgba")
        PICKLE.save(value, file, context)

    def load(self, file: BinaryIO, version: int) -> Any:
        """A figure that pyplot does not know of."""
        return PICKLE.load(file, version)

    def prove(self, original: Any, file: BinaryIO, context: SaveContext) -> str | None:
        """Load as the pickle codec does for its proof, then compare pixels."""
        return self.difference(original, PICKLE.load_for_proof(file, context))

    def difference(self, original: Any, loaded: Any) -> str | None:
        """By type and pixels."""
        if type(original).__name__ != type(loaded).__name__:
            return f"it came back as {type(loaded).__name__}"
        return (
            None
            if _drawn(original, "rgba") == _drawn(loaded, "rgba")
            else "it came back drawing other pixels"
        )

    def companions(self, value: Any) -> Iterable[Companion]:
        """The PNG."""
        return (Companion(".png", "image/png", _drawn(value, "png")),)


def _drawn(figure: Any, image_format: str) -> bytes:
    """The figure drawn by Agg; ``savefig`` puts the figure's own canvas back afterwards."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=image_format)
    return buffer.getvalue()


FIGURE = FigureCodec()
