"""The command `grade`: each command parses its arguments, calls one function, prints and exits.

Each module holds a command or a few. `COMMANDS` maps commands to modules, which are imported when a command is
called; to add one, add a module and a line there. `options` has the options that several commands share, and
`results` finds the gradebook and the student that a caller names. `extension` is `grade adjust --until`,
`marking` has the keys of `grade mark`, `on_server` the requests of commands to a running server, and `personal`
hands over and erases the data about one student. `border` turns errors into text and exit codes,
`terminal` prints, and `watch` is the loop of `grade watch`.
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
        "requests": ("show", "List and answer students' regrade requests."),
        "show": ("show", "Show one student's result, with the cost of each test."),
        "report": ("report", "Write pages about a class, to look at and to send."),
        "mistakes": ("similar", "Name mistakes that many of a class make."),
        "similar": ("similar", "Find alike files in a class."),
        "export": ("export", "Write results in the format of another system."),
        "push": ("push", "Send points and comments to Canvas, Moodle or LTI platforms."),
        "mail": ("mail", "Mail students their feedback."),
        "term": ("report", "Compute the totals of a term."),
        "package": ("release", "Make an autograder for Gradescope."),
        "serve": ("serve", "Run a server that judges a class's submissions."),
        "platform": ("platform", "Register Canvas, Moodle and other LTI platforms."),
        "personal-data": (
            "personal:personal_data",
            "Write the data about one student to a zip.",
        ),
        "erase": ("personal", "Erase the data about one student."),
        "restore": ("restore", "Put a backup of a server's gradebook back."),
        "tokens": ("serve", "Make, replace and revoke the tokens of a server."),
    },
    "For authors": {
        "new": ("author", "Begin an exercise."),
        "new-assignment": ("author:new_assignment", "Begin an assignment."),
        "stub": ("author", "Make stubs from solutions."),
        "verify": ("verify", "Prove that the suites judge correctly."),
        "release": ("release", "Write the students' copy of a course."),
        "pack": ("release", "Write the graders' copy of a course, as one file."),
    },
    "For people who must trust it": {
        "doctor": ("audit", "List the walls between student code and this machine."),
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
