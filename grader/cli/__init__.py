"""The command `grade`: each command parses, calls one function, prints and exits.

One module holds a family of commands; a further family is a module beside them and a line below.
Nothing heavy is imported until a command runs: `grade --help` costs an import of click.
"""

from __future__ import annotations

import click

from grader import __version__
from grader.cli.audit import audit
from grader.cli.border import Group
from grader.cli.course import hint, list_exercises, schema
from grader.cli.doctor import doctor
from grader.cli.run import run
from grader.cli.verify import verify

__all__ = ["main"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="grade")
def main() -> None:
    """Judge exercises, and say what is wrong, where, and what to do next.

    `grade` alone judges every exercise of the course that you stand in; `grade run glu` judges
    one of them.

    \b
    Exit codes: 0 full marks, 1 less than that, 2 the command line asked for something
    that is not there, 3 a fault that is not the submission's, 130 interrupted.
    """


for command in (run, list_exercises, hint, schema, verify, doctor, audit):
    main.add_command(command)
