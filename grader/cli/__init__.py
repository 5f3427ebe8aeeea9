"""The command `grade`: each command parses its arguments, calls one function, prints and exits.

Each module holds a command or a few. `COMMANDS` maps commands to modules, which are imported when a command is
called; to add one, add a module and a line there. `options` has the options that several commands share, and
`results` finds the gradebook and the student that a caller names. `border` turns errors into text and exit
codes, `terminal` prints, and `watch` is the loop of `grade watch`.
"""

from __future__ import annotations

import click

from grader import __version__
from grader.cli.border import HELP_FLAGS, Group

__all__ = ["COMMANDS", "main"]

# For each heading of the help, its commands: the module, followed by the function if its name differs, and a
# short help.
COMMANDS = {
    "For students": {
        "run": ("run", "Judge the first exercise that is not done, or some."),
        "watch": ("watch.command", "Answer every save of your file."),
        "list": ("course:list_exercises", "Show the exercises, and how far you are."),
        "hint": ("course", "Show the next hint."),
        "explain": ("course", "Show what an exercise or a chapter teaches."),
        "plot": ("plot", "Draw what your code does, on an experiment of the course."),
        "solution": ("course", "Show the course's own answer, once you have passed."),
        "reset": ("course", "Put a stub back; your file is kept."),
        "submit": ("submit", "Hand in to the server of your course."),
        "login": ("submit", "Sign in at the server of your course."),
    },
    "For instructors": {
        "batch": ("batch", "Grade a class at once."),
        "regrade": ("batch", "Judge a class again after a change."),
        "policy": ("policy", "Show or set due times, penalties, and which attempt counts."),
        "adjust": ("adjust", "Change points by hand, with a reason."),
        "mark": ("mark", "Read the files of an exercise, and give points by a rubric."),
        "requests": ("show", "List and answer what students ask about their points."),
        "show": ("show", "Show one student's result, and what each test cost."),
        "report": ("report", "Write a class as pages to look at, and to send."),
        "mistakes": ("similar", "Name mistakes that many of a class make."),
        "similar": ("similar", "Find files of a class that are alike."),
        "export": ("export", "Write results in the format of another system."),
        "term": ("report", "Add up the assignments of a term."),
        "package": ("release", "Make an autograder for Gradescope."),
        "serve": ("serve", "Judge what a class hands in, as it comes in."),
        "tokens": ("serve", "Make, replace and revoke the tokens of a server."),
    },
    "For authors": {
        "new": ("author", "Begin an exercise."),
        "new-assignment": ("author:new_assignment", "Begin an assignment."),
        "stub": ("author", "Make stubs from solutions."),
        "verify": ("verify", "Prove that the suites judge rightly."),
        "release": ("release", "Write what students get."),
        "pack": ("release", "Write what graders get, as one file."),
    },
    "For people who must trust it": {
        "doctor": ("audit", "Say which walls stand between student code and this machine."),
        "audit": ("audit", "Attack this installation, and say what stopped each attack."),
        "schema": ("course", "Print the JSON Schema of results."),
    },
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
