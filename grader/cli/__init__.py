"""The command `grade`: each command parses, calls one function, prints and exits.

One module holds a command or a few; a further one is a module beside them and a line below. `options` are
those that several share, `border` turns errors into text and exit codes, `terminal` prints, `watch` is the
loop of `grade watch`. Nothing heavy is imported until a command runs: `grade --help` costs an import of
click.
"""

from __future__ import annotations

import click

from grader import __version__
from grader.cli.adjust import adjust
from grader.cli.audit import audit
from grader.cli.author import new, new_assignment, pack, release, stub
from grader.cli.batch import batch, regrade
from grader.cli.border import HELP_FLAGS, Group
from grader.cli.course import explain, list_exercises, schema
from grader.cli.doctor import doctor
from grader.cli.export import export
from grader.cli.mark import mark
from grader.cli.mistakes import mistakes
from grader.cli.package import package
from grader.cli.plot import plot
from grader.cli.policy import policy
from grader.cli.report import report
from grader.cli.run import run
from grader.cli.show import show
from grader.cli.similar import similar
from grader.cli.student import hint, reset, solution
from grader.cli.term import term
from grader.cli.verify import verify
from grader.cli.watch.command import watch

__all__ = ["main"]


@click.group(cls=Group, context_settings={"help_option_names": HELP_FLAGS})
@click.version_option(__version__, prog_name="grade")
def main() -> None:
    """Judge exercises, and say what is wrong, where, and what to do next.

    `grade` alone goes on with the first exercise of the course that is not done; `grade run glu`
    judges that one, `grade run --all` every one, and `grade watch` answers every save.

    \b
    Exit codes: 0 full marks, 1 less than that, 2 the command line asked for something
    that is not there, 3 a fault that is not the submission's, 130 interrupted.
    """


main.add_family("For students", run, watch, list_exercises, hint, explain, plot, solution, reset)
main.add_family(
    "For instructors",
    batch,
    regrade,
    policy,
    adjust,
    mark,
    show,
    report,
    mistakes,
    similar,
    export,
    term,
    package,
)
main.add_family("For authors", new, new_assignment, stub, verify, release, pack)
main.add_family("For people who must trust it", doctor, audit, schema)
