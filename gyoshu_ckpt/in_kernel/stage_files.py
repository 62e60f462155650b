"""``gy.artifact_path``: where a stage writes a file that is to become an artifact.

Under a supervisor this is a staging folder of the attempt under way, so that a stage which dies halfway never
leaves half a file where people look. Without one (the notebook is open in Jupyter and nothing supervises it)
it is ``gyoshu-artifacts`` in the working directory, and the notebook works all the same.
"""

from __future__ import annotations

from pathlib import Path

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import UserMistake
from gyoshu_ckpt.in_kernel.exchange import Exchange
from gyoshu_ckpt.storage.layout import StoreLayout

UNSUPERVISED = "gyoshu-artifacts"


def artifact_path(name: str, *, stage: str | None = None) -> Path:
    """The path at which to write the artifact ``name`` (declare it with ``--out name``).

    A name that ends with a slash is a folder, and is made.

    With ``stage``, the path of an artifact that an earlier stage has finished, for reading::

        table.to_csv(gy.artifact_path("scores.csv"))                       # in S02_score_models
        pd.read_csv(gy.artifact_path("scores.csv", stage="S02_score_models"))   # in a later stage
    """
    wants_folder = name.endswith("/")
    name = name.rstrip("/")
    ids.check_file_name(name)
    if stage is not None:
        ids.check_stage_id(stage)
    exchange = Exchange.of_this_kernel()
    if exchange is None:
        folder = Path(UNSUPERVISED)
        folder.mkdir(exist_ok=True)
        return _made(folder / name, wants_folder)
    run = exchange.read_run()
    layout = StoreLayout(Path(run.reports))
    if stage is not None:
        return layout.artifact(run.title, run.run_id, f"{stage}/{name}")
    under_way = exchange.read_stage()
    if under_way is None:
        raise UserMistake(
            "a setup cell has no artifacts: it runs again on every resume",
            next_step="move this into a cell that begins with %%stage",
        )
    staging = layout.staging_dir(run.title, run.run_id, under_way.stage_id, under_way.attempt)
    return _made(staging / name, wants_folder)


def _made(path: Path, wants_folder: bool) -> Path:
    if wants_folder:
        path.mkdir(exist_ok=True)
    return path
