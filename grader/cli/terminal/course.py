"""Short answers: the exercises of a course, one of them, its hints, and the walls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

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
from grader.course.suites import tests_of
from grader.results import EXTRA_CREDIT, Visibility
from grader.student.progress import Standing, progress_of, standing_words
from grader.submissions import file_of
from grader.text import clean, counted, number

if TYPE_CHECKING:
    from pathlib import Path

    from grader.course.manifest import Course, Exercise
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
_RIGHT = ("points", "minutes")
# Columns that are left out if a title does not fit beside them, in this order.
_DISPENSABLE = ("difficulty", "minutes", "points")
# Rows of the screen above and below a list.
_BELOW_A_LIST = 6


@printed
def show_exercises(console: Console, workspace: Workspace) -> Iterator[Text]:
    """Print a line for each exercise, with the state of its file in the course's own folder."""
    yield from exercise_lines(console, workspace)
    standings, rows = workspace.standings(), [("assignment", "done", "due", "title")]
    for assignment in workspace.course.assignments:
        done = sum(standings[name].is_done for name in assignment.exercises)
        due = "" if assignment.due is None else f"{assignment.due_at:%Y-%m-%d %H:%M %Z}"
        rows.append(
            (assignment.id, f"{done} of {len(assignment.exercises)}", due, clean(assignment.title))
        )
    if len(rows) > 1:
        yield Text()
        widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
        for row in rows:
            cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
            yield Text("  ".join((*cells, row[-1])).rstrip(), "dim" if row is rows[0] else "")


def exercise_lines(console: Console, workspace: Workspace, *, opened: str = "") -> Iterator[Text]:
    """Return a line for each exercise, by chapter, and the progress, with points for the files as they are now.

    If they do not fit the screen, only the `opened` chapter lists its exercises.
    """
    course, standings = workspace.course, workspace.standings()
    is_served, chapters = workspace.logbook.is_served, course.chapters
    cells = {e.id: _cells(workspace, e, standings[e.id]) for e in course.exercises}
    # The name of a chapter is above its exercises, which are indented.
    margin = "  " if len(chapters) > 1 else ""
    head = {column: column for column in cells[course.exercises[0].id]}
    widths, room = _widths(console.width - len(margin), [head, *cells.values()])

    def line(row: Mapping[str, str], title: str, style: str) -> Text:
        columns = (f"{row[c]:{'>' if c in _RIGHT else '<'}{widths[c]}}" for c in widths)
        shown = cut(title, room, marks_for(console)) if room >= SHORTEST_TITLE else ""
        return Text.assemble(margin, ("  ".join(columns), style), "  ", shown)

    yield line(head, "title", "dim")
    is_long = len(cells) + len(chapters) + 1 > console.height - _BELOW_A_LIST
    for chapter, exercises in chapters.items():
        if margin:
            states = [standings[exercise.id] for exercise in exercises]
            progress = progress_of(states, course, by_all_tests=is_served)
            name = f"{chapter:<{len(margin) + widths['exercise']}}"
            yield Text.assemble((name, "bold"), "  ", (progress.words, "dim"))
        if not opened or not is_long or chapter == opened:
            for exercise in exercises:
                style = _STYLES.get(standings[exercise.id], "red")
                # Put it before the title, since a narrow terminal shows only its beginning.
                extra = f"{EXTRA_CREDIT}: " if exercise.id in course.extra_credit else ""
                yield line(cells[exercise.id], f"{extra}{exercise.title}", style)
    progress = progress_of(standings.values(), course, by_all_tests=is_served)
    yield Text()
    yield Text.assemble((progress.words, "bold"), bar(console, progress.done, progress.whole))


def _cells(workspace: Workspace, exercise: Exercise, standing: Standing) -> dict[str, str]:
    """Return the text of each column for an exercise."""
    cells = {"exercise": exercise.id, "state": standing_words(standing, workspace.course)}
    # A public release has no points, but the course's server has.
    if not workspace.course.is_public or workspace.logbook.is_served:
        points_now = workspace.logbook.score(exercise, workspace.handed(exercise))
        before = "" if points_now is None else f"{number(points_now.score)} / "
        cells["points"] = f"{before}{number(_worth(exercise))}"
    minutes, difficulty = str(exercise.minutes), DIFFICULTY[exercise.difficulty]
    return {**cells, "minutes": minutes, "difficulty": difficulty}


def _extra(course: Course, exercise: Exercise) -> str:
    """Return the mark of an exercise that full marks do not need."""
    return f", {EXTRA_CREDIT}" if exercise.id in course.extra_credit else ""


def _worth(exercise: Exercise) -> float:
    """Return the points that can be earned for an exercise here."""
    if not exercise.unmet:
        return exercise.points
    # Imported here, so that quick answers do not import the judge.
    from grader.judge.scoring import worth_of

    return worth_of(exercise)


def _widths(width: int, rows: Sequence[Mapping[str, str]]) -> tuple[dict[str, int], int]:
    """Return the columns that fit beside a title with their widths, and the room left for the title."""
    widths = {column: max(len(row[column]) for row in rows) for column in rows[0]}

    def room() -> int:
        return width - sum(widths.values()) - 2 * len(widths)

    for column in _DISPENSABLE:
        # Drop points last: they matter more than the end of a title.
        if room() < (-2 if column == "points" else SHORTEST_TITLE):
            widths.pop(column, None)
    return widths, room()


def hint_lines(console: Console, exercise: Exercise, which: int, more: str) -> Iterator[Text]:
    """Return a hint, counted from 1, with `more` below it."""
    yield Text(f"{exercise.title}, hint {which} of {len(exercise.hints)}", "bold")
    yield from hang(console, "  ", exercise.hints[which - 1])
    if more:
        yield from hang(console, "", more, "dim")


show_hint = printed(hint_lines)


def show_source(console: Console, path: Path, text: str) -> None:
    """Print a file: with its path and colors on a terminal, else only the text."""
    if is_plain(console):
        console.file.write(text)
        return
    from rich.syntax import Syntax

    from grader.student.next_step import shown_path

    print_lines(console, [Text(shown_path(path), "cyan"), Text()])
    console.print(Syntax(text, "python", theme="ansi_dark", background_color="default"))


@printed
def show_chapter(console: Console, workspace: Workspace, chapter: str) -> Iterator[Text]:
    """Print the way through a chapter: its exercises, their topics, and exercises to do before."""
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
        state = (f"  {standing_words(standing, course)}{_extra(course, exercise)}", style)
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
    """Print an exercise's topic, its checks, and where to read on."""
    from grader.student.next_step import shown_path

    course = workspace.course
    standing = workspace.logbook.standing(exercise, workspace.handed(exercise))
    points, difficulty = number(_worth(exercise)), DIFFICULTY[exercise.difficulty]
    about = (
        f"{points} points{_extra(course, exercise)}, about {exercise.minutes} minutes, {difficulty}"
    )
    yield Text(exercise.title, "bold")
    yield from hang(console, "", f"{about}, {standing_words(standing, course)}", "dim")
    yield Text(shown_path(file_of(course.folder, exercise)), "cyan")
    if exercise.given:
        yield from hang(console, "", f"given beside it: {', '.join(exercise.given)}", "dim")
    yield Text()
    yield from hang(console, "", exercise.teaches)
    for need in exercise.unmet:
        yield from hang(console, "", need.remark, "dim")
    tests = tests_of(course, exercise, tuple(Visibility))
    titles = [test.title for test in tests if test.visibility is Visibility.PUBLIC]
    if hidden := len(tests) - len(titles):
        titles.append(f"and {counted(hidden, 'hidden test')}")
    paragraphs = {
        "What is checked": titles,
        "Not allowed": dict.fromkeys(rule.sentence for rule in exercise.forbidden),
        "Better done before": [course.exercise(name).title for name in exercise.prerequisites],
        "Further reading": exercise.reading,
    }
    for title, rows in paragraphs.items():
        if rows:
            yield from (Text(), Text(title, "bold"))
        for row in rows:
            yield from hang(console, "  - ", row)


@printed
def show_walls(console: Console, walls: Iterable[WallSurvey], level: Level) -> Iterator[Text]:
    """Print every wall, whether it is active, and advice if it is not."""
    for wall in walls:
        remedy = f" {marks_for(console).arrow} {wall.remedy}" if wall.remedy else ""
        text = wall.meaning if wall.stands else f"missing: {wall.reason}.{remedy}"
        yield from checked(console, wall.stands, text, label=f"{wall.name:<18} ")
    yield Text(f"Isolation reaches the level: {level.value}.", "bold")
