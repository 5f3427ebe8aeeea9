"""The command `grade`: each command parses, calls one function, prints and exits.

One module holds a command or a few. `COMMANDS` says which, and it is imported when its command is called: a
further command is a module beside them and a line below. `options` are those that several share, `border`
turns errors into text and exit codes, `terminal` prints, `watch` is the loop of `grade watch`.
"""

from __future__ import annotations

import click

from grader import __version__
from grader.cli.border import HELP_FLAGS, Group

__all__ = ["COMMANDS", "main"]

# For each heading of the help its commands, each with its module, and its function where that has another name.
COMMANDS = {
    "For students": {
        "run": "run",
        "watch": "watch.command",
        "list": "course:list_exercises",
        "hint": "student",
        "explain": "course",
        "plot": "plot",
        "solution": "student",
        "reset": "student",
        "submit": "submit",
        "login": "submit",
    },
    "For instructors": {
        "batch": "batch",
        "regrade": "batch",
        "policy": "policy",
        "adjust": "adjust",
        "mark": "mark",
        "requests": "requests",
        "show": "show",
        "report": "report",
        "mistakes": "mistakes",
        "similar": "similar",
        "export": "export",
        "term": "term",
        "package": "package",
        "serve": "serve",
        "tokens": "serve",
    },
    "For authors": {
        "new": "author",
        "new-assignment": "author:new_assignment",
        "stub": "author",
        "verify": "verify",
        "release": "author",
        "pack": "author",
    },
    "For people who must trust it": {"doctor": "doctor", "audit": "audit", "schema": "course"},
}


@click.group(cls=Group, families=COMMANDS, context_settings={"help_option_names": HELP_FLAGS})
@click.version_option(__version__, prog_name="grade")
def main() -> None:
    """Judge exercises, and say what is wrong, where, and what to do next.

    `grade` alone goes on with the first exercise of the course that is not done; `grade run glu`
    judges that one, `grade run --all` every one, and `grade watch` answers every save.

    \b
    Exit codes: 0 full marks, 1 less than that, 2 the command line asked for something
    that is not there, 3 a fault that is not the submission's, 130 interrupted.
    """
