"""Short answers of the course: its exercises, one hint, and the lines of a proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.console import counted, hang, marks_for, number, print_lines
from grader.course import Course, Exercise
from grader.intake import State, read_submission
from grader.judge.wording import clean

if TYPE_CHECKING:
    from grader.verify import Proof

__all__ = ["show_exercises", "show_hint", "show_proofs"]

_DIFFICULTY = {1: "gentle", 2: "medium", 3: "hard"}
_STATES = {State.UNTOUCHED: "dim", State.EDITED: "yellow"}


def show_exercises(console: Console, course: Course) -> None:
    """Print a line for each exercise, with the state of the file in the course's own folder."""
    files = read_submission(course.folder, course).files
    rows = [["exercise", "points", "state", "minutes", "difficulty", "title"]]
    styles = ["dim"]
    for exercise in course.exercises:
        state = files[exercise.id].state(course.stub(exercise).read_bytes())
        rows.append(
            [
                exercise.id,
                number(exercise.points),
                state.value,
                str(exercise.minutes),
                _DIFFICULTY[exercise.difficulty],
                exercise.title,
            ]
        )
        styles.append(_STATES.get(state, "red"))
    print_lines(console, _table(console, rows, styles))


def _table(console: Console, rows: list[list[str]], styles: list[str]) -> Iterator[Text]:
    *columns, _ = ([len(cell) for cell in column] for column in zip(*rows, strict=True))
    widths = [max(column) for column in columns]
    for row, style in zip(rows, styles, strict=True):
        cells = [
            Text(f"{cell:>{width}}" if cell.isdecimal() else f"{cell:<{width}}", style)
            for cell, width in zip(row, widths, strict=False)
        ]
        yield Text("  ").join(cells)


def show_hint(console: Console, exercise: Exercise, which: int) -> None:
    """Print one hint, and how to get the next one."""
    print_lines(console, _hint_lines(console, exercise, which))


def _hint_lines(console: Console, exercise: Exercise, which: int) -> Iterator[Text]:
    yield Text(f"{exercise.title}, hint {which} of {len(exercise.hints)}", "bold")
    yield from hang(console, Text("  "), Text(exercise.hints[which - 1]))
    if which < len(exercise.hints):
        yield Text(f"The next one: `grade hint {exercise.id} -n {which + 1}`", "dim")


def show_proofs(console: Console, proofs: Iterable[Proof]) -> int:
    """Print each proof as it is made, and return how many complaints there were."""
    complaints = exercises = 0
    for proof in proofs:
        print_lines(console, _proof_lines(console, proof))
        complaints += len(proof.complaints)
        exercises += 1
    what = "the exercise" if exercises == 1 else f"all {exercises} exercises"
    found = f"{counted(complaints, 'complaint')} about" if complaints else "No complaint: proved are"
    print_lines(console, iter([Text(f"{found} {what}.", "bold")]))
    return complaints


def _proof_lines(console: Console, proof: Proof) -> Iterator[Text]:
    marks = marks_for(console)
    mark = Text(marks.bad, "red") if proof.complaints else Text(marks.good, "green")
    rights, wrongs = counted(proof.right, "right answer"), counted(proof.wrong, "wrong answer")
    counts = f"{counted(proof.tests, 'test')}, {rights}, {wrongs}"
    verdict = counted(len(proof.complaints), "complaint") if proof.complaints else "proved"
    yield Text.assemble(mark, f" {proof.exercise}: {counts}: {verdict}")
    for complaint in proof.complaints:
        for row, line in enumerate(complaint.splitlines()):
            prefix = Text("    " if row else "  - ")
            yield from hang(console, prefix, Text(clean(line, 2000)))
