"""Output of `grade batch`: its progress, the class, and the list of things to look at."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    and_more,
    called,
    called_within,
    cut,
    hang,
    marks_for,
    printed,
    say,
    status_words,
)
from grader.cli.terminal.progress import ProgressBar
from grader.exports.verdicts import unjudged
from grader.gradebook.batch import BatchProgress, BatchSummary, ScoreChange
from grader.gradebook.review import Attention, AttentionGroup, Reason, grouped
from grader.judge.scoring import is_provisional
from grader.results import Entry, ExerciseResult, Outcome, Status, StudentInfo
from grader.text import MOST_NAMES, clean, counted, listed_names, number

_LONGEST_NAME, _SHORTEST_NAME = 60, 12
# Up to this many exercises are named above their marks, which have spaces between them; in a longer course only
# the chapters are.
_MAX_MARKS = 8
# The class is listed up to this many students; the gradebook and the report always have all.
_SHOWN_STUDENTS = 40
# Most groups shown of one kind: of costly ones, and of odd code.
_SHOWN_COSTLY, _SHOWN_ODD = 20, 10
_SHOWN_STUDENTS_OF_GROUP = 5
_LONGEST_WHAT = 400
_SHOWN_UNDATED = 5
# Ways in which tests changed without a change of the score.
_SHOWN_SAME = 5


class BatchDisplay(BatchProgress):
    """Progress on stderr with rate and time left; a line for every tenth if stderr is not a terminal."""

    def __init__(self, *, anonymous: bool = False) -> None:
        self._anonymous = anonymous
        self._bar = ProgressBar("graded", timed=True)
        self._is_shown = False
        self._total = self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def begin(self, students: int) -> None:
        """Begin to count."""
        self._total = students
        self._is_shown = self._bar.start("", students)

    def judged(self, student: str, result: ExerciseResult) -> None:
        """Show the student being judged."""
        who = "" if self._anonymous else f"{clean(student, 30)}: "
        self._bar.describe(f"{who}{result.name}")

    def done(self, student: str) -> None:  # noqa: ARG002  # as inherited
        """Count one more student."""
        self._done += 1
        self._bar.advance()
        tenths = [count * 10 // max(self._total, 1) for count in (self._done - 1, self._done)]
        if not self._is_shown and tenths[0] != tenths[1]:
            print(f"graded {self._done} of {self._total}", file=sys.stderr, flush=True)  # noqa: T201


@printed
def show_class(console: Console, entries: Iterable[Entry]) -> Iterator[Text]:
    """Print a line for each student and the class's mean; for a large class only the mean.

    The mean is over students who handed something in and whose total is final; unjudged exercises do not count
    as 0.
    """
    scores: list[float] = []
    lines: list[Text] = []
    students = absent = 0
    columns: dict[str, None] = {}
    for entry in entries:
        students += 1
        exercises = entry.result.exercises
        is_long = len(exercises) > _MAX_MARKS
        columns |= dict.fromkeys(each.chapter if is_long else each.name for each in exercises)
        if entry.absent:
            absent += 1
        elif not unjudged(entry.result):
            scores.append(entry.result.score)
        if len(lines) < _SHOWN_STUDENTS:
            lines.append(_line(console, entry))
    if 0 < students <= _SHOWN_STUDENTS:
        yield from _legend(console, is_open=students > len(scores) + absent)
        if len(columns) > 1:
            text = f"From left to right: {', '.join(columns)}."
            yield from hang(console, "", text, "dim")
        yield from lines
    text = counted(students, "student")
    if open_ones := students - len(scores) - absent:
        text += f", {open_ones} without a final score"
    if scores:
        mean, middle = statistics.mean(scores), statistics.median(scores)
        # 1.45 is a little less in binary.
        text += f", mean {mean + 1e-9:.1f}, median {middle + 1e-9:.1f}"
        text += " of students who handed something in" if absent else ""
    if students:
        yield Text(text, "bold")
    if students > _SHOWN_STUDENTS:
        yield Text("`grade report` and `grade export` write all scores.", "dim")


# The meaning of the marks, in the order in which they are explained.
_LEGEND = (
    (Status.PASSED, "passed"),
    (Status.PARTIAL, "partly"),
    (Status.FAILED, "nothing earned"),
    (Status.NOT_ATTEMPTED, "no attempt"),
    (Status.UNJUDGED, "not judged"),
)


def _legend(console: Console, *, is_open: bool) -> Iterator[Text]:
    """Explain the columns, above the first line."""
    marks = marks_for(console)
    told = _LEGEND if is_open else _LEGEND[:-1]
    shown = [f"{status_words(status, marks)[0].plain} {words}" for status, words in told]
    yield from hang(console, "", f"Points; exercises: {', '.join(shown)}; student.", "dim")


def _line(console: Console, entry: Entry) -> Text:
    """Return a student's points, a mark for each exercise, and the name."""
    result, marks = entry.result, marks_for(console)
    by_chapter: dict[str, str] = {}
    for exercise in result.exercises:
        status = exercise.status if exercise.attempted else Status.NOT_ATTEMPTED
        mark = status_words(status, marks)[0].plain
        by_chapter[exercise.chapter] = by_chapter.get(exercise.chapter, "") + mark
    is_long = len(result.exercises) > _MAX_MARKS
    cells = " ".join(by_chapter.values() if is_long else "".join(by_chapter.values()))
    earned = "open" if unjudged(result) else number(result.score)
    score = f"{earned:>7} / {number(result.max_score)}"
    room = min(max(console.width - len(score) - len(cells) - 6, _SHORTEST_NAME), 32)
    name = cut(clean(entry.student.name or entry.student.id, _LONGEST_NAME), room, marks)
    remark = " late" if entry.late else " handed in nothing" if entry.absent else ""
    remark += " held" * is_provisional(result.exercises)
    return Text.assemble(score, "   ", cells, "   ", name, (remark, "yellow"))


def show_missing(console: Console, missing: Sequence[StudentInfo]) -> None:
    """Print the students of the roster who handed in nothing."""
    if missing:
        names = listed_names([student.name or student.id for student in missing], MOST_NAMES)
        say(console, f"In the roster, but handed in nothing: {names}.")


@printed
def show_dropped(console: Console, dropped: Mapping[str, int]) -> Iterator[Text]:
    """Print exercises with verdicts that are no longer part of the course."""
    for exercise, verdicts in dropped.items():
        text = (
            f"{clean(exercise, 40)} is no longer an exercise of the course: its "
            f"{counted(verdicts, 'verdict')} stay in the gradebook and count in no total."
        )
        yield from hang(console, "", text)


@printed
def show_summary(
    console: Console, summary: BatchSummary, names: Mapping[str, str]
) -> Iterator[Text]:
    """Print how much was done, and which attempt counts where times are missing.

    `names` maps ids to students' names.
    """

    def listed(students: Sequence[str]) -> str:
        return called_within(students, names, _SHOWN_UNDATED)

    done = (
        f"{counted(summary.attempts, 'attempt')} of {counted(summary.students, 'student')}: "
        f"{counted(summary.judged, 'exercise')} judged, "
        f"{summary.settled} settled without a judge, {summary.known} known already."
    )
    yield Text(done)
    if summary.undated:
        undated = (
            f"Not every attempt has a time ({listed(summary.undated)}): for each exercise, the file "
            "found last counts. `--times` gives the times of a download."
        )
        yield from hang(console, "", undated)
    if summary.older:
        older = (
            f"The gradebook has a newer attempt than this download ({listed(summary.older)}): "
            "the order in which downloads are graded changes nothing."
        )
        yield from hang(console, "", older)


@printed
def show_attention(
    console: Console, attention: Sequence[Attention], names: Mapping[str, str]
) -> Iterator[Text]:
    """Print things to look at, costly ones first. `names` maps ids to students' names."""
    if not attention:
        return
    kinds = Counter(entry.kind for entry in attention)
    heading = ", ".join(f"{kinds[kind]} {kind.value}" for kind in Reason if kinds[kind])
    yield from (Text(), Text(f"To look at: {heading}", "bold"))
    for kind, groups in grouped(attention).items():
        room = _SHOWN_COSTLY if kind.costs_points else _SHOWN_ODD
        for group in groups[:room]:
            yield from _group(console, group, names)
        left = groups[room:]
        of = counted(len({student for group in left for student in group.students}), "student")
        yield from and_more(len(left), "", " " * 14, f" of {of}; the report has them.")


def _group(console: Console, group: AttentionGroup, names: Mapping[str, str]) -> Iterator[Text]:
    prefix = Text.assemble("  ", (f"{group.kind.value:<10}", "yellow"), "  ")
    who = called_within(group.students, names, _SHOWN_STUDENTS_OF_GROUP)
    if len(group.students) > 1:
        who = f"{len(group.students)} students: {who}"
    text = f"{clean(group.where, 100)}: {clean(group.what, _LONGEST_WHAT)} ({who})"
    return hang(console, prefix, text)


@printed
def show_changes(
    console: Console, changes: Sequence[ScoreChange], names: Mapping[str, str]
) -> Iterator[Text]:
    """Print students who gained or lost, with the test responsible; the others only as counts.

    `names` maps ids to students' names.
    """
    moved = [change for change in changes if change.after != change.before]
    gained = sum(change.after > change.before for change in moved)
    text = f"{gained} gained, {len(moved) - gained} lost, "
    text += f"{len(changes) - len(moved)} with other tests but the same score."
    yield Text(text, "bold")
    for change in sorted(moved, key=lambda change: change.after - change.before):
        gain = change.after - change.before
        prefix = Text.assemble("  ", (f"{gain:+7.2f}", "green" if gain > 0 else "red"), "  ")
        tests = _tests_of(change)
        body = f"{called(change.student, names)} {change.exercise}: "
        body += f"{number(change.before)} to {number(change.after)}"
        yield from hang(console, prefix, f"{body} ({tests})" if tests else body)
    same = Counter((c.exercise, _tests_of(c)) for c in changes if c.after == c.before)
    for (exercise, tests), students in same.most_common(_SHOWN_SAME):
        yield from hang(console, " " * 11, f"{exercise}: {tests} ({counted(students, 'student')})")
    yield from and_more(len(same) - _SHOWN_SAME, "", " " * 11, " with the same score.")


def _tests_of(change: ScoreChange) -> str:
    """Return the tests with another outcome, in words."""
    words = []
    for name, before, after in change.tests:
        if after is None:
            words.append(f"{name} removed")
        elif before is None:
            words.append(f"{name} new: {_word(after)}")
        else:
            words.append(f"{name} {_word(before)} to {_word(after)}")
    return ", ".join(words)


def _word(outcome: Outcome) -> str:
    return outcome.value.replace("_", " ")
