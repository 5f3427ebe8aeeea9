"""The memory of a gradebook: the exercises, students and seed of earlier gradings."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

import click

from grader.cli import options as shared
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.facts import Facts
from grader.grading import grading_options
from grader.judge.assignment import GradingOptions
from grader.results import StudentInfo


class Memory(NamedTuple):
    """Facts that the gradebook in a folder keeps of earlier gradings; empty if there is none yet."""

    results: Path
    facts: Facts = Facts()
    students: tuple[StudentInfo, ...] = ()
    seeds: tuple[int, ...] = ()


def remembered(results: Path) -> Memory:
    """Read the facts that the gradebook in a folder keeps, if there is one."""
    with contextlib.suppress(SubmissionError), Gradebook.open(results) as book:
        return Memory(results, book.facts, tuple(book.students()), book.seeds())
    return Memory(results)


def assigned_course(
    course: Course, memory: Memory, exercises: tuple[str, ...], assignment: str | None
) -> Course:
    """Return the course with only the graded exercises: the named ones, or those the gradebook remembers.

    Raises SubmissionError if the gradebook belongs to another assignment.
    """
    before = memory.facts.assignment
    if before and (exercises or assignment not in (None, before)):
        raise SubmissionError(
            f"{memory.results} is the gradebook of the assignment {before}: use another folder for "
            "other exercises."
        )
    if assignment is not None or before:
        return shared.assigned(course, assignment or before)
    if exercises:
        return course.only(shared.known_exercises(course, exercises))
    chosen = [exercise for exercise in course.exercises if exercise.id in memory.facts.assigned]
    return course.only(chosen) if chosen else course


def grading_options_of(memory: Memory, course: Course, options: dict[str, Any]) -> GradingOptions:
    """Return the options for judging a class; without --seed, with the seed used before."""
    seed = options["seed"] if shared.was_given("seed") else _remembered_seed(memory, course)
    return grading_options(seed, options["suite"], options["require_isolation"])


def _remembered_seed(memory: Memory, course: Course) -> int:
    """Return the seed of the newest verdict in a gradebook, or an assignment's seed, which is not shown.

    A whole course takes the seed of its first assignment that has one.
    """
    seeds, results = memory.seeds, memory.results
    assignment = course.assignment or next((a for a in course.assignments if a.seed), None)
    own = assignment.seed or 0 if assignment is not None else 0
    if assignment is not None and own and set(seeds) <= {own}:
        click.echo(
            f"Judging with the seed of the assignment {assignment.id}. Choose another one with --seed.",
            err=True,
        )
        return own
    if not any(seeds):
        return seeds[0] if seeds else own
    text = (
        f"Judging with the seed {seeds[0]}, as for the verdicts in {results}. "
        "Choose another one with --seed."
    )
    if seeds[1:]:
        others = ", ".join(map(str, seeds[1:]))
        text = (
            f"Judging with the seed {seeds[0]}, as for the newest verdicts in {results}. Verdicts with the "
            f"seed {others} are judged again. Choose one seed for all with --seed."
        )
    click.echo(text, err=True)
    return seeds[0]
