"""The command `grade`: each command parses its arguments, calls one function, prints and exits.

`COMMANDS` maps each command to its module, which is imported when the command is called; to add one, add a
module and a line there. `course` has the small commands for students, `author` the commands that begin an
exercise or an assignment, `batch` also `grade regrade`, `submit` also `grade login`, and `personal` also
`grade erase`. `watch` is the loop of `grade watch`.

`border` turns errors into text and exit codes, and `terminal` prints. `options` has the options that several
commands share, `results` finds the gradebook and the student that a caller names, and `memory` reads what
earlier gradings left in it. `extension` is `grade adjust --until`, `marking` has the keys of `grade mark`, and
`on_server` the requests of commands to a running server.
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
        "run": ("run", "Judge the next exercise that is not done, or the ones you name."),
        "watch": ("watch.command", "Answer every save of your file."),
        "list": ("course:list_exercises", "Show the exercises and your progress."),
        "hint": ("course", "Show the next hint."),
        "explain": ("course", "Explain an exercise or a chapter."),
        "plot": ("plot", "Draw your code at work in an experiment."),
        "solution": ("course", "Show the course's own answer, once you have passed."),
        "reset": ("course", "Restore a stub; your file is kept."),
        "submit": ("submit", "Hand in to your course's server."),
        "login": ("submit", "Sign in at your course's server."),
    },
    "For instructors": {
        "batch": ("batch", "Grade a class."),
        "regrade": ("batch", "Judge a class again after a change."),
        "policy": ("policy", "Show or set due times, penalties, and which attempt counts."),
        "adjust": ("adjust", "Change points by hand, with a reason."),
        "mark": ("mark", "Mark the files of an exercise by a rubric."),
        "requests": ("requests", "List and answer students' regrade requests."),
        "show": ("show", "Show one student's result, with the cost of each test."),
        "report": ("report", "Write pages about a class, to look at and to send."),
        "mistakes": ("mistakes", "Name mistakes that many of a class make."),
        "similar": ("similar", "Find alike files in a class."),
        "export": ("export", "Write results in the format of another system."),
        "push": ("push", "Send points and comments to Canvas, Moodle or LTI platforms."),
        "mail": ("mail", "Mail students their feedback."),
        "term": ("term", "Compute the totals of a term."),
        "package": ("package", "Make an autograder for Gradescope."),
        "serve": ("serve", "Run a server that judges a class's submissions."),
        "platform": ("platform", "Register Canvas, Moodle and other LTI platforms."),
        "personal-data": (
            "personal:personal_data",
            "Write the data about one student to a zip.",
        ),
        "erase": ("personal", "Erase the data about one student."),
        "restore": ("restore", "Put a backup of a server's gradebook back."),
        "tokens": ("tokens", "Make, replace and revoke the tokens of a server."),
    },
    "For authors": {
        "new": ("author", "Begin an exercise."),
        "new-assignment": ("author:new_assignment", "Begin an assignment."),
        "stub": ("author", "Make stubs from solutions."),
        "verify": ("verify", "Prove that the suites judge correctly."),
        "release": ("release", "Write the students' copy of a course."),
        "pack": ("pack", "Write the graders' copy of a course, as one file."),
    },
    "For people who must trust it": {
        "doctor": ("doctor", "List the walls between student code and this machine."),
        "audit": ("audit", "Attack this installation, and show the wall that stopped each attack."),
        "schema": ("course", "Print the JSON Schema of results."),
    },
}


@click.group(cls=Group, families=COMMANDS, context_settings={"help_option_names": HELP_FLAGS})
@click.version_option(__version__, prog_name="grade")
def main() -> None:
    """Judge exercises: show mistakes, their places, and the next step.

    `grade` continues with the exercise that you began, or the first that is not done. `grade run glu`
    judges that exercise, `grade run --all` all of them, and `grade watch` answers every save.

    \b
    Exit codes: 0 full marks, 1 less, 2 wrong usage, 3 a fault that is not the submission's,
    130 interrupted.
    """
