"""``gyoshu schema``: the formats, for those who read a store without gyoshu."""

from __future__ import annotations

import click

from gyoshu_ckpt.cli.speaking import say_json


@click.command()
@click.argument("name", type=click.Choice(["manifest"]))
@click.option("--json", "as_json", is_flag=True, help="Accepted for symmetry: a schema is JSON anyway.")
def schema(name: str, as_json: bool) -> None:
    """Print the JSON Schema of a format as one JSON document."""
    from gyoshu_ckpt.core.manifest import manifest_json_schema

    say_json({"manifest": manifest_json_schema}[name]())
