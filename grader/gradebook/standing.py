"""What stands for a student: of every exercise the attempt that counts, and the points after all rules.

An attempt without a file for an exercise leaves that exercise as it was. No order of commands decides: attempts
are ordered by their times, and where one has none, by when they were found.
"""

from __future__ import annotations

import functools
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grader.gradebook.cells import read_environment, read_result, read_stubs
from grader.gradebook.corrections import (
    Correction,
    Kind,
    corrected,
    holding,
    of_tests,
    rejudged,
    released,
)
from grader.gradebook.policy import Counted, HandedIn
from grader.gradebook.work import Attempt, Work
from grader.judge.scoring import rounded, sum_of
from grader.results import (
    Entry,
    Environment,
    ExerciseResult,
    Mark,
    Outcome,
    Result,
    Status,
    StudentInfo,
    SubmissionInfo,
)

if TYPE_CHECKING:
    from grader.gradebook.book import Gradebook

NOT_YET = "Not judged yet: the grading goes on, or was interrupted; run `grade batch` again."
_REGRADE = "Not judged yet: `grade regrade` judges it."


class Choice(NamedTuple):
    """The attempt that counts for an exercise; the one that has its verdict, if there is one.

    What is `counted` of it, and since when its file is there; None where there is no file at all.
    """

    attempt: Attempt
    judged_as: int | None
    source: str = ""
    counted: Counted | None = None
    submitted_at: str = ""


class _Kept(NamedTuple):
    """A verdict as it stands in the gradebook."""

    result: ExerciseResult
    graded_at: str
    seed: int
    environment: Environment


class ClassStanding:
    """The rules of a class, read once, and what stands by them, one student at a time."""

    def __init__(
        self,
        book: Gradebook,
        connection: sqlite3.Connection,
        instead: Mapping[tuple[int, str], ExerciseResult] = {},
    ) -> None:
        """Verdicts `instead` of those of the gradebook are by the attempt's id and the exercise."""
        self._book, self._connection, self._instead = book, connection, instead
        self._exercises = tuple(filter(None, book.fact("exercises").split(",")))
        self._has_policy = bool(book.fact("policy"))
        self._unfinished = bool(book.unfinished)
        self._policy = book.policy
        self._corrections: dict[str, list[Correction]] = {}
        for each in filter(lambda each: not each.undone_at, book.corrections()):
            self._corrections.setdefault(each.exercise, []).append(each)
        self._environments: dict[int, Environment] = {}

    @functools.cached_property
    def _stubs(self) -> dict[str, str]:
        return read_stubs(self._book.fact("stubs", "{}"))

    @functools.cached_property
    def _blank(self) -> Result | None:
        return self._book.blank

    @functools.cached_property
    def _blanks(self) -> dict[str, ExerciseResult]:
        return {each.name: each for each in self._blank.exercises} if self._blank else {}

    # --- which attempt ---------------------------------------------------------------------------

    def choices(self, work: Work) -> dict[str, Choice]:
        """By exercise the attempt that counts; without those of which there is neither file nor verdict."""
        chosen = ((name, self._choice(work, name)) for name in self._exercises)
        return {name: choice for name, choice in chosen if choice is not None}

    def needed(self, work: Work, exercise: str) -> list[Attempt]:
        """The attempts with a file for an exercise that have to be judged before it is told what counts."""
        if not (files := self.handed_in(work, exercise)):
            return []
        numbers = self._policy.needed(work.student, exercise, self._worth(work, exercise), files)
        return [each for each, _ in work.sources(exercise) if each.number in numbers]

    def _choice(self, work: Work, exercise: str) -> Choice | None:
        files = self.handed_in(work, exercise)
        if not files:
            verdicts = work.verdicts.get(exercise, {})
            judged = [each for each in work.attempts if each.id in verdicts]
            return Choice(judged[-1], judged[-1].id) if judged else None
        if self._has_policy:
            worth = self._worth(work, exercise)
            counted = self._policy.counted(work.student, exercise, worth, files)
        else:
            # As a policy without rules says; to ask it takes a fifth of the time to read a class.
            counted = Counted(files[-1].attempt, files[-1].judged or 0.0)
        since = {each.attempt: each.submitted_at for each in files}
        attempt, source = next(
            pair for pair in work.sources(exercise) if pair[0].number == counted.attempt
        )
        judged_as = work.judged_as(exercise, attempt.id)
        return Choice(attempt, judged_as, source, counted, since[attempt.number])

    def handed_in(self, work: Work, exercise: str) -> list[HandedIn]:
        """The files for an exercise, oldest first; an unchanged one is there since it first was."""
        first: dict[str, Attempt] = {}
        files = []
        score_of = self._scores(work, exercise)
        for attempt, source in work.sources(exercise):
            since = first.setdefault(source, attempt)
            judged = score_of(work.judged_as(exercise, attempt.id))
            untouched = source == self._stubs.get(exercise) or work.is_untouched(
                exercise, attempt.id
            )
            files.append(
                HandedIn(attempt.number, since.submitted_at, since.late, judged, source, untouched)
            )
        return files

    def _scores(self, work: Work, exercise: str) -> Callable[[int | None], float | None]:
        """The points of an attempt's verdict, after the tests that were dropped or given."""
        verdicts = work.verdicts.get(exercise, {})
        held = self._corrections.get(exercise, [])
        changed = any(each.test for each in held)

        def score(attempt: int | None) -> float | None:
            if attempt is None or verdicts[attempt].score is None or not changed:
                return None if attempt is None else verdicts[attempt].score
            (row,) = self._rows(attempt, [exercise]).values()
            held_here = holding(held, work.student.id, exercise, row.result)
            return rejudged(row.result, held_here).score

        return score

    def _worth(self, work: Work, exercise: str) -> float:
        verdicts = work.verdicts.get(exercise, {})
        if verdicts:
            return verdicts[max(verdicts)].worth
        blank = self._blanks.get(exercise)
        return blank.max_score if blank is not None else 0.0

    # --- what it is worth ------------------------------------------------------------------------

    def entry(self, work: Work) -> Entry | None:
        """What counts for a student; None where nothing is known of the course."""
        choices = self.choices(work)
        rows = self._verdicts(choices)
        exercises = [
            found
            for name in self._exercises
            if (found := self._exercise(work, name, choices.get(name), rows.get(name))) is not None
        ]
        if not exercises:
            return None
        counting = {choice.attempt.id for choice in choices.values()}
        by_rules = [
            c.counted.late for c in choices.values() if c.counted and c.counted.late is not None
        ]
        shown = [each for each in work.attempts if each.id in counting] or work.attempts
        about = shown[-1] if shown else Attempt(0, work.student.id, 0)
        return Entry(
            student=work.student,
            attempt=about.number,
            submitted_at=about.submitted_at,
            late=any(by_rules) if by_rules else about.late,
            origin=about.origin,
            timezone=self._policy.rules.timezone,
            result=self._result(
                SubmissionInfo(work.student.id, _digest(about, choices)), exercises, rows.values()
            ),
        )

    def total(self, work: Work) -> float | None:
        """The points of what counts, as `entry` has them; None where something is not judged."""
        held = (each for found in self._corrections.values() for each in found)
        if any(each.student in ("", work.student.id) for each in held):
            entry = self.entry(work)
            exercises = entry.result.exercises if entry is not None else ()
            is_open = any(each.status is Status.UNJUDGED for each in exercises)
            return None if is_open or entry is None else entry.result.score
        total = 0.0
        # No result is read for it.
        for exercise, choice in self.choices(work).items():
            if choice.judged_as is None:
                return None
            score = work.verdicts[exercise][choice.judged_as].score
            if score is None:
                return None
            total += score if choice.counted is None else choice.counted.points
        return rounded(total)

    def _exercise(
        self, work: Work, exercise: str, choice: Choice | None, row: _Kept | None
    ) -> ExerciseResult | None:
        result = row.result if row is not None else self._nothing(exercise, choice)
        held = holding(self._corrections.get(exercise, ()), work.student.id, exercise, result)
        if result is not None and choice is not None and released(held, choice.source):
            result = msgspec.structs.replace(result, held=())
        held = [each for each in held if each.kind is not Kind.RELEASE]
        if result is None or not (held or self._has_policy):
            return result
        judged = rejudged(result, held)
        is_judged = result.status is not Status.UNJUDGED
        counted = choice.counted if choice is not None and is_judged else None
        points = counted.points if counted is not None else judged.score
        after = corrected(points, result.max_score, held)
        if not is_judged:
            if not after.final:
                return result
            judged = msgspec.structs.replace(judged, status=_status(after.points, result))
        mark = Mark(
            judged=result.score,
            reasons=(
                *of_tests(held, result),
                *(counted.reasons if counted is not None else ()),
                *after.reasons,
            ),
            comment=after.comment,
            attempt=choice.attempt.number if choice is not None else 0,
            submitted_at=choice.submitted_at if choice is not None else "",
            due=self._due(work.student, exercise),
            lost=counted.lost if counted is not None and not after.final else 0.0,
        )
        # Who set the points has looked at the file.
        held_for = () if after.final else result.held
        return msgspec.structs.replace(judged, score=after.points, mark=mark, held=held_for)

    def _due(self, student: StudentInfo, exercise: str) -> str:
        deadline = self._policy.deadline(student, exercise)
        return deadline.due.isoformat().replace("+00:00", "Z") if deadline is not None else ""

    def _nothing(self, exercise: str, choice: Choice | None) -> ExerciseResult | None:
        """Where there is no verdict: nothing was handed in, or it is not judged yet."""
        blank = self._blanks.get(exercise)
        if blank is None or (choice is None and not self._unfinished):
            return blank
        message = NOT_YET if self._unfinished else _REGRADE
        tests = tuple(
            msgspec.structs.replace(test, outcome=Outcome.SKIPPED, message=message)
            for test in blank.tests
        )
        return msgspec.structs.replace(
            blank, status=Status.UNJUDGED, tests=tests, message=message, settled=False
        )

    def _result(
        self, submission: SubmissionInfo, exercises: list[ExerciseResult], rows: Iterable[_Kept]
    ) -> Result:
        score, max_score = sum_of(exercises)
        verdicts, blank = list(rows), self._blank
        if not verdicts:
            assert blank is not None, "it is what the exercises are of"
            verdicts = [_Kept(exercises[0], blank.started_at, blank.seed, blank.environment)]
        return Result(
            course=self._book.course,
            submission=submission,
            score=score,
            max_score=max_score,
            seed=max(row.seed for row in verdicts),
            exercises=tuple(exercises),
            started_at=min(row.graded_at for row in verdicts),
            duration_seconds=round(sum(result.duration_seconds for result in exercises), 3),
            environment=_common([row.environment for row in verdicts]),
        )

    def _verdicts(self, choices: Mapping[str, Choice]) -> dict[str, _Kept]:
        """The verdict that counts of each exercise, where there is one."""
        of_attempts: dict[int, list[str]] = {}
        for name, choice in choices.items():
            if choice.judged_as is not None:
                of_attempts.setdefault(choice.judged_as, []).append(name)
        rows: dict[str, _Kept] = {}
        for attempt, names in of_attempts.items():
            rows |= self._rows(attempt, names)
        return {name: rows[name] for name in choices if name in rows}

    def _rows(self, attempt: int, exercises: Sequence[str]) -> dict[str, _Kept]:
        rows = self._connection.execute(
            "SELECT exercise, result, graded_at, seed, environment FROM grades WHERE attempt = ?",
            (attempt,),
        )
        return {
            exercise: _Kept(
                self._instead.get((attempt, exercise)) or read_result(result),
                graded_at,
                seed,
                self._environment(environment),
            )
            for exercise, result, graded_at, seed, environment in rows
            if exercise in exercises
        }

    def _environment(self, number: int) -> Environment:
        if number not in self._environments:
            (text,) = self._connection.execute(
                "SELECT environment FROM environments WHERE id = ?", (number,)
            ).fetchone()
            self._environments[number] = read_environment(text)
        return self._environments[number]


def _digest(about: Attempt, choices: Mapping[str, Choice]) -> str:
    """The digest of the files that count: the attempt's own, where they are all of one attempt."""
    handed = {name: choice for name, choice in choices.items() if choice.source}
    if all(choice.attempt.id == about.id for choice in handed.values()):
        return about.digest
    digest = hashlib.sha256()
    for name, choice in sorted(choices.items()):
        source = bytes.fromhex(choice.source) if choice.source else hashlib.sha256().digest()
        digest.update(name.encode() + b"\0" + source)
    return digest.hexdigest()


def _status(points: float, result: ExerciseResult) -> Status:
    """The status of what a person gave points for, and no judge."""
    if points >= result.max_score:
        return Status.PASSED
    return Status.PARTIAL if points > 0 else Status.FAILED


def _common(environments: list[Environment]) -> Environment:
    """The environment of the last one judged, with the walls that held around every one of them.

    One that was settled without being run names no torch, and no walls were needed.
    """
    judged = [environment for environment in environments if environment.torch]
    if not judged:
        return environments[0]
    common = set.intersection(*(set(environment.isolation) for environment in judged))
    walls = tuple(wall for wall in judged[-1].isolation if wall in common)
    return msgspec.structs.replace(judged[-1], isolation=walls)
