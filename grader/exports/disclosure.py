"""Decide how much students read of hidden tests: one policy for every output to them.

An `Entry` holds everything. Output for a student is made from `disclosed(entry)`, in which a hidden test
reveals no more than the course allows, and no expected, given or printed value. Anything not known to be
harmless is withheld, including times and printed text, which could carry the inputs of a test.

The levels, from `disclose` in course.toml: `everything` changes nothing. `mistake` keeps, of a failed hidden
test, its title, the name of the mistake, and the line in the student's file. `title` keeps the title and the
outcome. `nothing` folds all hidden tests of an exercise into two lines, passed and not passed. Public tests are
complete at every level, but with `nothing` they contain no title of a hidden test.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from grader.findings import message_of, without_values
from grader.results import (
    AS_IT_RUNS,
    Disclosure,
    Entry,
    ExerciseResult,
    Finding,
    Outcome,
    Place,
    Result,
    Status,
    TestResult,
    Visibility,
)

# Students control the line number, so a line up to 1,000 leaks at most 10 bits.
_LAST_LINE = 1_000
_AS_IT_RAN = "the code did something odd as it ran"


class Audience(enum.Enum):
    """The readers of a format: students, who get disclosed entries, or staff, who get everything."""

    STUDENTS = "for students"
    STAFF = "for staff"


class DisclosedEntries:
    """Entries as students may read them; each iteration reads them anew, one at a time."""

    def __init__(self, entries: Iterable[Entry], disclose: Disclosure | None) -> None:
        self._entries, self._disclose = entries, disclose

    def __iter__(self) -> Iterator[Entry]:
        return (disclosed(entry, self._disclose) for entry in self._entries)


def disclosed(
    entry: Entry, disclose: Disclosure | None = None, not_open: Collection[str] = ()
) -> Entry:
    """Return the entry as its student may read it, at the given level or the course's own.

    Exercises that are `not_open` yet are left out, but the points are still those of all exercises.
    """
    result = disclosed_result(entry.result, disclose)
    if not_open:
        opened = tuple(each for each in result.exercises if each.name not in not_open)
        result = replace(result, exercises=opened)
    return replace(entry, result=result)


def disclosed_result(result: Result, disclose: Disclosure | None = None) -> Result:
    """Return the result as its student may read it."""
    level = disclose or result.course.disclose
    if level is Disclosure.EVERYTHING:
        return result
    exercises = tuple(_exercise(exercise, level) for exercise in result.exercises)
    if exercises == result.exercises:
        return result
    seconds = round(sum(exercise.duration_seconds for exercise in exercises), 3)
    return replace(result, exercises=exercises, duration_seconds=seconds)


def may_be_timed(visibility: Visibility, level: Disclosure) -> bool:
    """Return whether students may learn when a test of this suite ended, and so how long it took."""
    return level is Disclosure.EVERYTHING or visibility is Visibility.PUBLIC


def _exercise(exercise: ExerciseResult, level: Disclosure) -> ExerciseResult:
    """Return the exercise as its student may read it at this level; one with only public tests is unchanged."""
    if exercise.status is Status.UNJUDGED:
        # The message of an unjudged exercise is about a fault of the grader, such as one in a hidden suite.
        # Every format has its own words for it.
        exercise = replace(exercise, message="")
    if all(test.visibility is Visibility.PUBLIC for test in exercise.tests):
        return exercise
    if level is Disclosure.NOTHING:
        exercise = _untitled(exercise)
        tests = list(_folded(exercise))
    else:
        reduced = _named if level is Disclosure.MISTAKE else _withheld
        tests = [test if _is_open(test, exercise) else reduced(test) for test in exercise.tests]
    # Printed text and times exist for all tests together, with the inputs of hidden ones, and for each.
    public = [test for test in exercise.tests if test.visibility is Visibility.PUBLIC]
    # Code could choose the odd line by the inputs of hidden tests.
    held = dict.fromkeys(_AS_IT_RAN if AS_IT_RUNS in each else each for each in exercise.held)
    return replace(
        exercise,
        tests=tuple(tests),
        held=tuple(held),
        output="\n".join(test.printed for test in public if test.printed),
        duration_seconds=round(sum(test.duration_seconds for test in public), 4),
    )


def _untitled(exercise: ExerciseResult) -> ExerciseResult:
    """Return the exercise without titles and names of hidden tests in other texts.

    A public test may name a hidden one that must pass first, and a person may name a dropped one.
    """
    hidden = [test for test in exercise.tests if test.visibility is Visibility.HIDDEN]
    public = [test for test in exercise.tests if test.visibility is Visibility.PUBLIC]
    words = {word for test in hidden for word in (test.title, test.name)}
    words -= {word for test in public for word in (test.title, test.name)}
    if not words:
        return exercise
    pattern = _any_of(words)

    def plain(text: str) -> str:
        return pattern.sub(lambda found: f"{'a' if found.start() else 'A'} further test", text)

    def finding(test: TestResult) -> Finding | None:
        if test.finding is None:
            return None
        values = {name: plain(value) for name, value in test.finding.values.items()}
        return replace(test.finding, values=values)

    tests = tuple(
        replace(test, message=plain(test.message), hint=plain(test.hint), finding=finding(test))
        if test.visibility is Visibility.PUBLIC
        else test
        for test in exercise.tests
    )
    if (mark := exercise.mark) is not None:
        reasons = tuple(plain(reason) for reason in mark.reasons)
        mark = replace(mark, reasons=reasons, comment=plain(mark.comment))
    return replace(exercise, tests=tests, mark=mark)


def _any_of(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern for these titles and names in quotes, and for longer ones also without quotes.

    A single word, such as "Shapes", is probably part of an ordinary sentence.
    """
    found = []
    for word in sorted(words, key=len, reverse=True):
        text = re.escape(word)
        found.append(rf"“{text}\.?”|\"{text}\.?\"")
        if " " in word or "_" in word:
            found.append(rf"(?<!\w){text}(?!\w)")
    return re.compile("|".join(found))


def _is_open(test: TestResult, exercise: ExerciseResult) -> bool:
    """Return whether a test is public, or only repeats a problem of the whole file: no hidden test ran."""
    whole = exercise.message and test.message == exercise.message
    return test.visibility is Visibility.PUBLIC or bool(whole)


def _named(test: TestResult) -> TestResult:
    """Keep the title, the name of the mistake, the author's hint, and the line in the student's file."""
    is_well = test.outcome in (Outcome.PASSED, Outcome.SKIPPED)
    finding = test.finding if is_well or test.finding is None else without_values(test.finding)
    return replace(
        test,
        message=test.message if is_well else "" if finding is None else message_of(finding),
        finding=finding,
        place=None if is_well else _line(test.place),
        printed="",
        duration_seconds=0.0,
    )


def _line(place: Place | None) -> Place | None:
    """Return the place without its function, or None beyond line 1,000.

    A program could raise its error on a line that depends on its input.
    """
    if place is None or place.line > _LAST_LINE:
        return None
    return Place(place.file, place.line, "")


def _withheld(test: TestResult) -> TestResult:
    """Keep the title and the outcome of a test."""
    is_skipped = test.outcome is Outcome.SKIPPED
    return replace(
        test,
        message=test.message if is_skipped else "",
        finding=test.finding if is_skipped else None,
        hint="",
        place=None,
        printed="",
        refused=False,
        mistake=0,
        duration_seconds=0.0,
    )


def _folded(exercise: ExerciseResult) -> Iterator[TestResult]:
    """Yield the public tests, and two entries for all hidden ones: passed, and not passed."""
    # `uses` and `mistake` may be known from hidden tests.
    public = (test for test in exercise.tests if test.visibility is Visibility.PUBLIC)
    yield from (replace(test, uses=(), mistake=0, stood_in=()) for test in public)
    hidden = [test for test in exercise.tests if test.visibility is Visibility.HIDDEN]
    for passed, words in ((True, "passed"), (False, "did not pass")):
        some = [test for test in hidden if (test.outcome is Outcome.PASSED) is passed]
        if not some:
            continue
        # If the whole file is at fault or not begun, hidden tests end as the public ones do.
        alike = _is_open(some[0], exercise)
        yield TestResult(
            name=f"further_tests_that_{words.replace(' ', '_')}",
            title=f"Further tests that {words}",
            visibility=Visibility.HIDDEN,
            outcome=some[0].outcome if passed or alike else Outcome.FAILED,
            score=sum(test.score for test in some),
            max_score=sum(test.max_score for test in some),
            duration_seconds=0.0,
            message=some[0].message if alike else "",
            hint="",
        )
