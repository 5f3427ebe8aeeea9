"""`grade policy`: the rules for the attempts and points of a class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell, tell_unfinished
from grader.cli.results import find_student, open_book, refuse_ungraded
from grader.cli.terminal.console import open_console
from grader.cli.terminal.policy import points_of, show_effect, show_explanation, show_policy
from grader.course.manifest import MANIFEST, Course
from grader.gradebook import Gradebook
from grader.gradebook.policy import NamedPolicy, Rules
from grader.gradebook.policy_file import (
    PolicyError,
    name_policy,
    policy_from,
    policy_of,
    policy_text,
    unknown_students,
)
from grader.gradebook.refusals import refuse_other_course
from grader.submissions.times import time_not_known

_NO_POLICY = (
    "There is no policy: for each exercise the newest attempt counts, with all of its points."
)


@click.command(cls=Command)
@shared.results_argument
@shared.exercises_argument
@click.option(
    "--file",
    "file",
    metavar="TOML",
    type=shared.EXISTING_FILE,
    help="Count by this policy from now on. An empty file has no rules.",
)
@click.option(
    "--reset",
    is_flag=True,
    help="Count by the policy of the course again, instead of a file.",
)
@click.option(
    "--explain",
    "student",
    metavar="STUDENT",
    help="Explain which attempt of this student counts in each exercise, and why.",
)
@click.option("--toml", is_flag=True, help="Print the policy as TOML.")
@shared.assignment_of_results_option
@shared.course_option
def policy(
    results: Path,
    exercises: tuple[str, ...],
    file: Path | None,
    reset: bool,
    student: str | None,
    toml: bool,
    assignment: str | None,
    course_path: Path,
) -> None:
    """Show or set the policy of a class.

    RESULTS is the folder that `grade batch` wrote. `grade batch` and `grade regrade` read policy.toml
    beside course.toml. --file uses another file until you name a new one or --reset the policy to the
    course's. If the course has assignments, both are combined with assignments.toml, so these two options
    need the course. docs/reference.md has every key. Nothing is judged again; points change at once.

    \b
    Examples:
      grade policy results
      grade policy results --file week1.toml
      grade policy results --reset
      grade policy results --explain zoe
      grade policy results strides --explain zoe
    """
    if sum((file is not None, reset, student is not None, toml)) > 1:
        raise click.UsageError("Only one of --file, --reset, --explain and --toml at a time.")
    if exercises and student is None:
        raise click.UsageError("EXERCISE is for --explain STUDENT.")
    sets = file is not None or reset
    if sets and assignment is not None:
        option = "--reset" if reset else "--file"
        raise click.UsageError(f"{option} is for all exercises of RESULTS: remove --assignment.")
    if sets:
        _set(results, course_path, file)
    elif student is not None:
        _explain(results, student, exercises, assignment)
    else:
        _show(results, assignment, toml=toml)


def _show(results: Path, assignment: str | None, *, toml: bool) -> None:
    """Print the policy of a class in words, or as TOML."""
    with Gradebook.open(results, assignment) as book:
        policy, students, names = book.policy, book.students(), book.exercises
        named, untimed = book.facts.named_policy, list(_untimed(book))
    if toml:
        click.echo(policy_text(policy.rules), nl=False)
        return
    if policy.rules == Rules():
        click.echo(f"{_NO_POLICY} --file names one; docs/reference.md explains its keys.")
        return
    show_policy(open_console(), policy, names)
    if named is not None:
        tell(
            f"From {named.file}, as --file or `grade batch --policy` named it; --reset goes back to the "
            "course's."
        )
    for note in (*unknown_students(policy, students), *untimed):
        tell(note)


def _set(results: Path, course_path: Path, file: Path | None) -> None:
    """Apply the policy of a file, or the course's, and print whose points change."""
    with Gradebook.open(results) as book:
        chapters, students, facts = book.chapters, book.students(), book.facts
        has_assignments = bool(facts.assignment or facts.assignments)
        course = _course_of(book, course_path) if file is None or has_assignments else None
    named: NamedPolicy | None = None
    if file is None:
        assert course is not None, "it was opened above"
        rules = policy_of(course) or Rules()
    elif course is not None:
        whole = shared.open_course(course_path)
        named, rules = name_policy(file, course, whole.chapter_of)
    else:
        policy = policy_from(file, chapters)
        rules = policy.rules
        named = NamedPolicy(str(file.resolve()), rules)
        # The policy beside a course may name students that this gradebook lacks, as in a batch.
        for complaint in (
            () if file.with_name(MANIFEST).is_file() else unknown_students(policy, students)
        ):
            raise PolicyError(f"{file}: {complaint}")
    console = open_console()
    with Gradebook.open_to_write(results) as book:
        before, names = points_of(book.entries()), book.names()
        book.set_policy(rules, named)
        if rules != Rules():
            show_policy(console, book.policy, list(chapters))
        else:
            click.echo(_NO_POLICY)
        effect = show_effect(console, before, points_of(book.entries()), names)
        tell_unfinished(book)
        for note in (*unknown_students(book.policy, students), *_untimed(book)):
            tell(note)
    if effect.waiting:
        tell("`grade regrade` judges attempts that may now count and were never judged.")


def _untimed(book: Gradebook) -> Iterator[str]:
    """Yield a note on students to whom no due time can apply, since a file of theirs has no time."""
    if not book.policy.rules.due:
        return
    of_class = (book.work(student) for student in book.students())
    if untimed := [work.student.id for work in of_class if not work.is_dated]:
        yield (
            f"{time_not_known(untimed)} Without a time, a file is never late: `grade batch DOWNLOAD -o "
            f"{book.folder} --times` gives the times of a download."
        )


def _course_of(book: Gradebook, course_path: Path) -> Course:
    """Open the course of a gradebook and its assignment; the rules of both are combined."""
    course = shared.open_course(course_path, book.facts.assignment or None)
    refuse_other_course(book, course)
    return course


def _explain(
    results: Path, student: str, exercises: tuple[str, ...], assignment: str | None
) -> None:
    with open_book(results, assignment) as book:
        owner = find_student(book.students(), student)
        refuse_ungraded(exercises, book)
        show_explanation(open_console(), book, owner, exercises)
