"""The ``gyoshu`` command. Subcommands are imported when they are called: ``gyoshu --version`` must be instant."""

from __future__ import annotations

import importlib
import sys

import click

from gyoshu_ckpt.errors import GyoshuError
from gyoshu_ckpt.version import __version__

_HOME_OF = {
    "run": "running:run",
    "continue": "running:continue_",
    "status": "looking:status",
    "list": "looking:list_",
    "show": "looking:show",
    "check": "store_care:check",
    "validate": "store_care:check",
    "prune": "store_care:prune",
    "schema": "schemas:schema",
}
_ALIASES = {"validate"}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _HOME_OF if name not in _ALIASES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _HOME_OF.get(cmd_name)
        if home is None:
            return None
        module, _, attribute = home.partition(":")
        command: click.Command = getattr(importlib.import_module(f"gyoshu_ckpt.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From a table, not from the commands: that would import all of them to print one line each.
        with formatter.section("Commands"):
            formatter.write_dl(list(_SUMMARIES.items()))


_SUMMARIES = {
    "run": "Run a notebook stage by stage, with a checkpoint after each.",
    "continue": "Go on with a run that stopped, from its last good checkpoint.",
    "status": "Show where a run stands.",
    "list": "List the runs of the store.",
    "show": "Show a run's checkpoints, or what one checkpoint holds.",
    "check": "Verify checkpoints: read every object and compare its hash. (also: validate)",
    "prune": "Remove old checkpoints and objects that nothing refers to.",
    "schema": "Print the JSON Schema of a format.",
}


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gyoshu")
def cli() -> None:
    """Checkpoint, watchdog and resume for Jupyter notebooks.

    gyoshu run NOTEBOOK drives a notebook stage by stage and makes every finished stage durable. After a crash,
    gyoshu continue brings the values back in a new kernel and goes on at the next stage.
    """


def main() -> None:
    """Run the command; every foreseeable fault ends in one sentence and its exit code."""
    try:
        # Without standalone mode click returns the code that a command left with, instead of exiting.
        sys.exit(cli.main(standalone_mode=False))
    except GyoshuError as fault:
        from gyoshu_ckpt.cli.speaking import tell_fault

        tell_fault(fault, as_json="--json" in sys.argv[1:])
        sys.exit(fault.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as mistake:
        mistake.show()
        sys.exit(mistake.exit_code)
    except KeyboardInterrupt:
        click.echo("gyoshu: stopped. What was saved is safe: gyoshu continue", err=True)
        sys.exit(130)
    except BrokenPipeError:  # gyoshu list | head
        sys.stderr.close()
        sys.exit(141)
