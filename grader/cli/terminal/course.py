"""Short answers: the exercises of a course, one of them, its hints, and the walls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    DIFFICULTY,
    SHORTEST_TITLE,
    bar,
    checked,
    cut,
    hang,
    is_plain,
    marks_for,
    print_lines,
    printed,
)
from grader.course.suite import tests_of
from grader.results import Visibility
from grader.student.progress import Standing, progress_of, standing_words
from grader.submissions import file_of
from grader.text import clean, counted, number

if TYPE_CHECKING:
    from pathlib import Path

    from grader.course.manifest import Exercise
    from grader.course.suite import SuiteTest
    from grader.sandbox.walls.survey import WallSurvey
    from grader.sandbox.walls.wall import Level
    from grader.student.workspace import Workspace

_STYLES = {
    Standing.FULL_MARKS: "green",
    Standing.DONE: "green",
    Standing.BEGUN: "yellow",
    Standing.EDITED_SINCE: "yellow",
    Standing.TESTS_CHANGED: "yellow",
    Standing.OPEN: "dim",
}
# Of each column, from its name.
_RIGHT = ("points", "minutes")
# What goes where the columns or a title do not fit, the first first.
_DISPENSABLE = ("difficulty", "minutes", "points")
# The lines of a screen that a list leaves to what stands above and below it.
_BELOW_A_LIST = 6


class _Row(msgspec.Struct, frozen=True):
    """A line of the list: of an exercise, of the columns' names, or of a chapter, which has one cell."""

    cells: tuple[str, ...]
    title: str
    style: str

    @property
    def is_chapter(self) -> bool:
        return len(self.cells) == 1

    @property
    def is_head(self) -> bool:
        return self.is_chapter or self.title == "title"


@printed
def show_exercises(console: Console, workspace: Workspace) -> Iterator[Text]:
    """Print a line for each exercise, with how far the file in the course's own folder is."""
    yield from exercise_lines(console, workspace)
    if workspace.course.assignments:
        yield from _assignment_lines(workspace)


def _assignment_lines(workspace: Workspace) -> Iterator[Text]:
    """A line for each assignment: its id, how much of it is done, when it is due, and its title."""
    standings, rows = workspace.standings(), [("assignment", "done", "due", "title")]
    for assignment in workspace.course.assignments:
        done = sum(standings[name].is_done for name in assignment.exercises)
        due = "" if assignment.due is None else f"{assignment.due_at:%Y-%m-%d %H:%M %Z}"
        rows.append(
            (assignment.id, f"{done} of {len(assignment.exercises)}", due, clean(assignment.title))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    yield Text()
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        style = "dim" if row is rows[0] else ""
        yield Text("  ".join((*cells, row[3])).rstrip(), style=style)


def exercise_lines(console: Console, workspace: Workspace, *, opened: str = "") -> Iterator[Text]:
    """A line for each exercise, by chapters, and the progress; points are those of the file as it is now.

    Where they would not fit the screen, the `opened` chapter alone is shown with its exercises.
    """
    standings = workspace.standings()
    course = workspace.course
    # A public release awards no points; the server of the course does.
    is_served = workspace.logbook.is_served
    has_points = not course.is_public or is_served
    points = ("points",) if has_points else ()
    columns = ("exercise", "state", *points, "minutes", "difficulty")
    chapters = course.chapters
    rows = [_Row(columns, "title", "dim")]
    for chapter, exercises in chapters.items():
        if len(chapters) > 1:
            states = [standings[e.id] for e in exercises]
            progress = progress_of(states, course, by_all_tests=is_served)
            rows.append(_Row((chapter,), progress.words, "bold"))
        rows += (
            _row(workspace, exercise, columns, standings[exercise.id]) for exercise in exercises
        )
    if opened and len(rows) > console.height - _BELOW_A_LIST:
        shown = {exercise.id for exercise in chapters[opened]}
        rows = [row for row in rows if row.is_head or row.cells[0] in shown]
    yield from _table(console, rows)
    progress = progress_of(standings.values(), course, by_all_tests=is_served)
    yield Text()
    yield Text.assemble((progress.words, "bold"), bar(console, progress.done, progress.whole))


def _worth(exercise: Exercise) -> float:
    """The points that there are for an exercise here."""
    if not exercise.unmet:
        return exercise.points
    # Here and not above: a quick answer knows of no judge.
    from grader.judge.scoring import worth_of

    return worth_of(exercise)


def _row(
    workspace: Workspace, exercise: Exercise, columns: tuple[str, ...], standing: Standing
) -> _Row:
    points_now = workspace.logbook.score(exercise, workspace.handed(exercise))
    before = "" if points_now is None else f"{number(points_now.score)} / "
    cells = {
        "exercise": exercise.id,
        "state": standing_words(standing, workspace.course),
        "points": f"{before}{number(_worth(exercise))}",
        "minutes": str(exercise.minutes),
        "difficulty": DIFFICULTY[exercise.difficulty],
    }
    row = tuple(cells[column] for column in columns)
    return _Row(row, exercise.title, _STYLES.get(standing, "red"))


def _table(console: Console, rows: list[_Row]) -> Iterator[Text]:
    """The rows in columns; the name of a chapter stands over its rows, which are set in."""
    rows = _fitting(console, rows)
    columns = rows[0].cells
    margin = "  " if any(row.is_chapter for row in rows) else ""
    lines = [row for row in rows if not row.is_chapter]
    widths = _widths(lines)
    left = _room(console, rows)
    for row in rows:
        if row.is_chapter:
            name = f"{row.cells[0]:<{len(margin) + widths[0]}}"
            yield Text.assemble((name, row.style), "  ", (row.title, "dim"))
            continue
        cells = [
            f"{cell:{'>' if column in _RIGHT else '<'}{width}}"
            for cell, column, width in zip(row.cells, columns, widths, strict=True)
        ]
        line = Text.assemble(margin, ("  ".join(cells), row.style))
        if left >= SHORTEST_TITLE:
            line.append_text(Text.assemble("  ", cut(row.title, left, marks_for(console))))
        yield line


def _fitting(console: Console, rows: list[_Row]) -> list[_Row]:
    """The rows without the columns that do not fit beside a title."""
    for column in _DISPENSABLE:
        # The points are worth more than a title is.
        needed = SHORTEST_TITLE if column != "points" else -2
        if column in rows[0].cells and _room(console, rows) < needed:
            where = rows[0].cells.index(column)
            rows = [
                row
                if row.is_chapter
                else msgspec.structs.replace(row, cells=row.cells[:where] + row.cells[where + 1 :])
                for row in rows
            ]
    return rows


def _room(console: Console, rows: list[_Row]) -> int:
    """The cells of a line that its columns leave to the title; negative where they do not fit."""
    margin = 2 * any(row.is_chapter for row in rows)
    widths = _widths([row for row in rows if not row.is_chapter])
    return console.width - sum(widths) - 2 * len(widths) - margin


def _widths(lines: list[_Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*(row.cells for row in lines), strict=True)]


def hint_lines(console: Console, exercise: Exercise, which: int, more: str) -> Iterator[Text]:
    """One hint, counted from 1, with `more` below it."""
    yield Text(f"{exercise.title}, hint {which} of {len(exercise.hints)}", "bold")
    yield from hang(console, "  ", exercise.hints[which - 1])
    if more:
        yield from hang(console, "", more, "dim")


show_hint = printed(hint_lines)


def show_source(console: Console, path: Path, text: str) -> None:
    """Print the text of a file: in color under its path on a terminal, else nothing but the text."""
    if is_plain(console):
        console.file.write(text)
        return
    from rich.syntax import Syntax

    from grader.student.advice import shown_path

    print_lines(console, [Text(shown_path(path), "cyan"), Text()])
    console.print(Syntax(text, "python", theme="ansi_dark", background_color="default"))


@printed
def show_chapter(console: Console, workspace: Workspace, chapter: str) -> Iterator[Text]:
    """Print the way through a chapter: its exercises, what each teaches, and what is better done before."""
    course = workspace.course
    exercises, standings = course.chapters[chapter], workspace.standings()
    minutes = sum(e.minutes for e in exercises)
    about = f"{counted(len(exercises), 'exercise')}, about {minutes} minutes"
    yield Text(chapter, "bold")
    states = [standings[e.id] for e in exercises]
    progress = progress_of(states, course, by_all_tests=workspace.logbook.is_served)
    yield from hang(console, "", f"{about}, {progress.words}", "dim")
    for exercise in exercises:
        standing = standings[exercise.id]
        style = _STYLES.get(standing, "red")
        state = (f"  {standing_words(standing, course)}", style)
        yield Text()
        yield Text.assemble((exercise.id, "bold"), "  ", exercise.title, state)
        yield from hang(console, "  ", exercise.teaches)
        if before := [name for name in exercise.prerequisites if not standings[name].is_done]:
            yield from hang(console, "  ", f"Better done before: {', '.join(before)}.", "dim")
    yield Text()
    following = next((e.id for e in exercises if not standings[e.id].is_done), None)
    what = f"`grade explain {following}` says more of the next one." if following else "Well done!"
    yield Text(what, "bold")


@printed
def show_explanation(console: Console, workspace: Workspace, exercise: Exercise) -> Iterator[Text]:
    """Print what an exercise teaches, what it checks and where to read on."""
    from grader.student.advice import shown_path

    course = workspace.course
    standing = workspace.logbook.standing(exercise, workspace.handed(exercise))
    state = standing_words(standing, course)

    def paragraph(title: str, items: Iterable[str]) -> Iterator[Text]:
        if rows := list(items):
            yield from (Text(), Text(title, "bold"))
            for row in rows:
                yield from hang(console, "  - ", row)

    points, minutes = number(_worth(exercise)), exercise.minutes
    difficulty = DIFFICULTY[exercise.difficulty]
    yield Text(exercise.title, "bold")
    about = f"{points} points, about {minutes} minutes, {difficulty}, {state}"
    yield from hang(console, "", about, "dim")
    yield Text(shown_path(file_of(course.folder, exercise)), "cyan")
    yield Text()
    yield from hang(console, "", exercise.teaches)
    for need in exercise.unmet:
        yield from hang(console, "", need.remark, "dim")
    tests = tests_of(course, exercise, tuple(Visibility))
    yield from paragraph("What is checked", _checked(tests))
    yield from paragraph("Not allowed", dict.fromkeys(_rules(exercise)))
    before = (course.exercise(name).title for name in exercise.prerequisites)
    yield from paragraph("Better done before", before)
    yield from paragraph("To read on", exercise.reading)


def _checked(tests: list[SuiteTest]) -> Iterator[str]:
    yield from (test.title for test in tests if test.visibility is Visibility.PUBLIC)
    if hidden := sum(test.visibility is Visibility.HIDDEN for test in tests):
        yield f"and {counted(hidden, 'hidden test')}"


def _rules(exercise: Exercise) -> Iterator[str]:
    for rule in exercise.forbidden:
        names = rule.names or rule.operators
        shown = ", ".join(names[:3]) + (" and the like" if len(names) > 3 else "")
        yield f"{shown} in {', '.join(rule.inside)}: {rule.reason}"


@printed
def show_walls(console: Console, walls: Iterable[WallSurvey], level: Level) -> Iterator[Text]:
    """Print every wall, whether it stands, and what to do about those that do not."""
    for wall in walls:
        remedy = f" {marks_for(console).arrow} {wall.remedy}" if wall.remedy else ""
        text = wall.meaning if wall.stands else f"missing: {wall.reason}.{remedy}"
        yield from checked(console, wall.stands, text, label=f"{wall.name:<18} ")
    yield Text(f"Isolation reaches the level: {level.value}.", "bold")
