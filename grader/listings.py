"""Short answers: the exercises of a course, one hint, the lines of a proof, and the walls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from grader.console import counted, cut, hang, marks_for, number, print_lines
from grader.course import Course, Exercise
from grader.intake import State, read_submission

if TYPE_CHECKING:
    from grader.sandbox.levels import Level
    from grader.sandbox.survey import Wall
    from grader.verify import Proof

__all__ = ["show_exercises", "show_hint", "show_proofs", "show_walls"]

_DIFFICULTY = {1: "gentle", 2: "medium", 3: "hard"}
_STYLES = {State.UNTOUCHED: "dim", State.EDITED: "yellow"}
# Of exercise, points, state, minutes, difficulty.
_ALIGNMENT = "<><><"
# Narrower than this, a title says less than the exercise's id does.
_SHORTEST_TITLE = 20


class _Row(msgspec.Struct, frozen=True):
    cells: tuple[str, ...]
    title: str
    style: str


def show_exercises(console: Console, course: Course) -> None:
    """Print a line for each exercise, with the state of the file in the course's own folder."""
    files = read_submission(course.folder, course).files
    rows = [_Row(("exercise", "points", "state", "minutes", "difficulty"), "title", "dim")]
    for each in course.exercises:
        state = files[each.id].state(course.stub(each))
        minutes, difficulty = str(each.minutes), _DIFFICULTY[each.difficulty]
        cells = (each.id, number(each.points), state.value, minutes, difficulty)
        rows.append(_Row(cells, each.title, _STYLES.get(state, "red")))
    print_lines(console, _table(console, rows))


def _table(console: Console, rows: list[_Row]) -> Iterator[Text]:
    widths = [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]
    left = console.width - sum(widths) - 2 * len(widths)
    for row in rows:
        cells = [
            f"{cell:{align}{width}}"
            for cell, align, width in zip(row.cells, _ALIGNMENT, widths, strict=True)
        ]
        title = cut(row.title if left >= _SHORTEST_TITLE else "", left, marks_for(console))
        yield Text.assemble(("  ".join(cells), row.style), "  ", title)


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
    found = counted(complaints, "complaint") if complaints else "No complaint"
    summary = f"{found} about {counted(exercises, 'exercise')}."
    print_lines(console, iter([Text(summary, "bold")]))
    return complaints


def _proof_lines(console: Console, proof: Proof) -> Iterator[Text]:
    # What the other listings do without loads the wire of the sandboxes.
    from grader.judge.wording import clean

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


def show_walls(console: Console, walls: Iterable[Wall], level: Level) -> None:
    """Print every wall, whether it stands, and what to do about those that do not."""
    print_lines(console, _wall_lines(console, walls, level))


def _wall_lines(console: Console, walls: Iterable[Wall], level: Level) -> Iterator[Text]:
    marks = marks_for(console)
    for wall in walls:
        mark = Text(marks.good, "green") if wall.stands else Text(marks.bad, "red")
        prefix = Text.assemble(mark, f" {wall.name:<18} ")
        if wall.stands:
            yield from hang(console, prefix, Text(wall.meaning))
            continue
        remedy = f" {marks.arrow} {wall.remedy}" if wall.remedy else ""
        yield from hang(console, prefix, Text(f"missing: {wall.reason}.{remedy}"))
    yield Text(f"Isolation reaches the level: {level.value}.", "bold")
