"""The standing of a student: the attempt that counts for each exercise, and its points.

These are pure functions of a student's `Work` and the `ClassRules`; nothing is read or written here. An attempt
without a file for an exercise leaves that exercise as it was. The order of commands does not matter: attempts
are ordered by their times, or in the order in which they were found if a time is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader.gradebook.corrections import (
    Correction,
    GivenExtension,
    about_file,
    corrected,
    holding,
    of_tests,
    rejudged,
    released,
)
from grader.gradebook.policy import Counted, File, Policy
from grader.gradebook.work import Attempt, Request, Verdict, Work
from grader.judge.scoring import sum_of, with_extra_credit
from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Mark,
    Outcome,
    Result,
    Status,
    StudentInfo,
    StudentRequest,
    SubmissionInfo,
)
from grader.submissions.submission import digest_of_files
from grader.text import rounded, utc

NOT_YET = "Not judged yet: the grading goes on, or was interrupted; run `grade batch` again."
_REGRADE = "Not judged yet: `grade regrade` judges it."


class ClassRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for every student of a class.

    `exercises` are the names of the exercises that count, and `stubs` the SHA-256 of their stubs. `blank` is
    the result of a student who handed in nothing. Points for `extra_credit` are added, but not part of the
    maximum; points for `practice` are in no total. Results of exercises `without_hints` have no hints of tests.
    One member hands in exercises `of_teams` for all. While a grading is unfinished, an exercise without a
    verdict is open.
    """

    course: CourseInfo
    exercises: tuple[str, ...]
    stubs: Mapping[str, str] = {}
    blank: Result | None = None
    policy: Policy = Policy()
    has_policy: bool = False
    corrections: tuple[Correction, ...] = ()
    extensions: tuple[GivenExtension, ...] = ()
    unfinished: bool = False
    extra_credit: frozenset[str] = frozenset()
    practice: frozenset[str] = frozenset()
    without_hints: frozenset[str] = frozenset()
    of_teams: frozenset[str] = frozenset()

    def is_shared(self, student: StudentInfo, exercise: str) -> bool:
        """Whether a student hands an exercise in for a team."""
        return exercise in self.of_teams and bool(student.team)

    def blank_of(self, exercise: str) -> ExerciseResult | None:
        """Return the result of an exercise for which nothing was handed in."""
        exercises = self.blank.exercises if self.blank is not None else ()
        return next((result for result in exercises if result.name == exercise), None)

    def corrections_of(self, exercise: str) -> list[Correction]:
        """Return the corrections of an exercise, in their order."""
        return [correction for correction in self.corrections if correction.exercise == exercise]


class Choice(NamedTuple):
    """The attempt that counts for an exercise, and the number of the attempt with its verdict, if any.

    `counted` has its file and points, None if there is no file.
    """

    attempt: Attempt
    judged_as: int | None
    counted: Counted | None = None

    @property
    def source(self) -> str:
        """The digest of its file, empty if there is none."""
        return self.counted.file.source if self.counted is not None else ""

    @property
    def submitted_at(self) -> str:
        """The time of its file, empty if there is none, or if it is not known."""
        return self.counted.file.submitted_at if self.counted is not None else ""


# --- which attempt ------------------------------------------------------------------------------------


def with_late_days(work: Work, rules: ClassRules) -> ClassRules:
    """Return the rules with the late days that the student used, as `Policy.with_late_days` counts them."""
    policy = rules.policy
    if not policy.rules.late_days or policy.used is not None:
        return rules
    files = {name: handed_in(work, rules, name) for name in rules.exercises}
    return msgspec.structs.replace(rules, policy=policy.with_late_days(work.student, files))


def choices(work: Work, rules: ClassRules) -> dict[str, Choice]:
    """Return the attempt that counts by exercise, omitting exercises with neither a file nor a verdict."""
    rules = with_late_days(work, rules)
    chosen = ((name, _choice(work, rules, name)) for name in rules.exercises)
    return {name: choice for name, choice in chosen if choice is not None}


def needed(work: Work, rules: ClassRules, exercise: str) -> list[Attempt]:
    """Return the attempts that have to be judged before `choices` can tell which counts for an exercise."""
    if not (files := handed_in(work, rules, exercise)):
        return []
    rules = with_late_days(work, rules)
    worth = _worth(work, rules, exercise)
    numbers = rules.policy.needed(work.student, exercise, worth, files)
    return [attempt for attempt, _ in work.sources(exercise) if attempt.number in numbers]


def handed_in(work: Work, rules: ClassRules, exercise: str) -> list[File]:
    """Return the files for an exercise, oldest first; an unchanged file keeps the first time it came.

    In a team, ignore stubs once any file has work: members may hand in stubs of exercises that others solve.
    """
    first: dict[str, Attempt] = {}
    files = []
    for attempt, source in work.sources(exercise):
        since = first.setdefault(source, attempt)
        # The clock of a server may have been ahead when the file first came in.
        if attempt.submitted_at and attempt.submitted_at < since.submitted_at:
            since = first[source] = attempt
        judged = _judged(work, rules, exercise, work.judged_as(exercise, attempt.id))
        is_stub = source == rules.stubs.get(exercise)
        untouched = is_stub or work.is_untouched(exercise, attempt.id)
        files.append(
            File(attempt.number, since.submitted_at, since.late, judged, source, untouched)
        )
    if rules.is_shared(work.student, exercise):
        return [file for file in files if not file.untouched] or files
    return files


def _choice(work: Work, rules: ClassRules, exercise: str) -> Choice | None:
    """Return the attempt that counts for an exercise; None if there is neither a file nor a verdict."""
    files = handed_in(work, rules, exercise)
    if not files:
        verdicts = work.verdicts.get(exercise, {})
        judged = [a for a in work.attempts if a.id in verdicts]
        return Choice(judged[-1], judged[-1].id) if judged else None
    if rules.has_policy:
        worth = _worth(work, rules, exercise)
        counted = rules.policy.counted(work.student, exercise, worth, files)
    else:
        # Same result as an empty policy, but skips its cost (20 % of reading a class).
        counted = Counted(files[-1], files[-1].judged or 0.0)
    attempt = next(each for each in work.attempts if each.number == counted.file.attempt)
    return Choice(attempt, work.judged_as(exercise, attempt.id), counted)


def _judged(work: Work, rules: ClassRules, exercise: str, attempt: int | None) -> float | None:
    """Return the points of an attempt's verdict, after the tests that were dropped or given."""
    if attempt is None:
        return None
    verdict, made = work.verdicts[exercise][attempt], rules.corrections_of(exercise)
    # Unpack the whole result only if needed.
    if verdict.judged is None or not any(correction.test for correction in made):
        return verdict.judged
    result = verdict.result
    return rejudged(result, holding(made, work.student.id, exercise, result)).score


def _worth(work: Work, rules: ClassRules, exercise: str) -> float:
    if verdicts := work.verdicts.get(exercise):
        return verdicts[max(verdicts)].max_score
    blank = rules.blank_of(exercise)
    return blank.max_score if blank is not None else 0.0


# --- the points ---------------------------------------------------------------------------------------


def entry_of(work: Work, rules: ClassRules) -> Entry | None:
    """Return the entry of a student, None if the gradebook has no exercise."""
    chosen = choices(work, rules)
    verdicts = {
        name: work.verdicts[name][choice.judged_as]
        for name, choice in chosen.items()
        if choice.judged_as is not None
    }
    results = (
        _exercise(work, rules, name, chosen.get(name), verdicts.get(name))
        for name in rules.exercises
    )
    readable = (hide_hints(result, rules.without_hints) for result in filter(None, results))
    marked = with_extra_credit(readable, rules.extra_credit)
    exercises = [
        _with_requests(
            msgspec.structs.replace(result, practice=True)
            if result.name in rules.practice
            else result,
            work.requests,
        )
        for result in marked
    ]
    if not exercises:
        return None
    counting = {choice.attempt.id for choice in chosen.values()}
    shown = [attempt for attempt in work.attempts if attempt.id in counting] or work.attempts
    about = shown[-1] if shown else Attempt(0, work.student.id, 0)
    # Other attempts may have other due times, and an untouched stub is not late.
    by_rules = [
        choice.counted.late
        for name, choice in chosen.items()
        if choice.attempt.id == about.id
        and choice.counted is not None
        and choice.counted.late is not None
        and not work.is_untouched(name, about.id)
    ]
    submission = SubmissionInfo(work.student.id, _digest(about, chosen))
    return Entry(
        student=work.student,
        attempt=about.number,
        submitted_at=about.submitted_at,
        late=any(by_rules) if by_rules else about.late,
        origin=about.origin,
        timezone=rules.policy.rules.timezone,
        result=result_of(rules.course, submission, exercises, verdicts.values(), rules.blank),
    )


def total_of(work: Work, rules: ClassRules) -> float | None:
    """Return the points that count at the end of a grading; None if something is not judged."""
    if any(correction.student in ("", work.student.id) for correction in rules.corrections):
        entry = entry_of(work, msgspec.structs.replace(rules, unfinished=False))
        exercises = entry.result.exercises if entry is not None else ()
        is_open = any(e.status is Status.UNJUDGED and not e.practice for e in exercises)
        return None if is_open or entry is None else entry.result.score
    # Results are not unpacked, which would take most of the time.
    total = 0.0
    for exercise, choice in choices(work, rules).items():
        if exercise in rules.practice:
            continue
        verdict = work.verdicts.get(exercise, {}).get(choice.judged_as or 0)
        if verdict is None or verdict.judged is None:
            return None
        total += verdict.judged if choice.counted is None else choice.counted.points
    return rounded(total)


def _exercise(
    work: Work, rules: ClassRules, exercise: str, choice: Choice | None, verdict: Verdict | None
) -> ExerciseResult | None:
    """Return the result of an exercise with the points that count, None if nothing is known of it.

    The verdict comes first, without dropped tests and with given ones. Then the policy applies, and then points
    that a person added or set. `mark` has the judge's points, and the reasons why the points differ.
    """
    result = verdict.result if verdict is not None else _nothing(rules, exercise, choice)
    made = holding(rules.corrections_of(exercise), work.student.id, exercise, result)
    if result is not None and choice is not None and released(made, choice.source):
        result = msgspec.structs.replace(result, held=())
    made = about_file(made, choice.source if choice is not None else "")
    made = [correction for correction in made if not correction.release]
    if result is None or not (made or rules.has_policy):
        return result
    judged = rejudged(result, made)
    is_judged = result.status is not Status.UNJUDGED
    counted = choice.counted if choice is not None and is_judged else None
    points = counted.points if counted is not None else judged.score
    after = corrected(points, result.max_score, made)
    if not is_judged:
        if not after.final:
            return result
        # A person gave these points, not a judge.
        status = Status.PARTIAL if after.points > 0 else Status.FAILED
        status = Status.PASSED if after.points >= result.max_score else status
        judged = msgspec.structs.replace(judged, status=status)
    deadline = rules.policy.deadline(work.student, exercise)
    mark = Mark(
        judged=result.score,
        reasons=(
            *of_tests(made, result),
            *(counted.reasons if counted is not None else ()),
            *after.reasons,
        ),
        comment=after.comment,
        attempt=choice.attempt.number if choice is not None else 0,
        submitted_at=choice.submitted_at if choice is not None else "",
        due=utc(deadline.due) if deadline is not None else "",
        lost=counted.lost if counted is not None and not after.final else 0.0,
    )
    # A person who set the points has looked at the file.
    held = () if after.final else result.held
    return msgspec.structs.replace(judged, score=after.points, mark=mark, held=held)


def hide_hints(result: ExerciseResult, exercises: Collection[str]) -> ExerciseResult:
    """Return the result, without the hints of its tests if its exercise is one of these."""
    if result.name not in exercises:
        return result
    tests = tuple(msgspec.structs.replace(test, hint="") for test in result.tests)
    return msgspec.structs.replace(result, tests=tests)


def _with_requests(result: ExerciseResult, requests: Sequence[Request]) -> ExerciseResult:
    """Return the result with the student's requests about this exercise, and the last answer to each."""
    about = tuple(
        StudentRequest(r.message, r.asked_at)
        if r.is_open
        else StudentRequest(r.message, r.asked_at, r.answers[-1].text, r.answers[-1].answered_at)
        for r in requests
        if r.exercise == result.name
    )
    return msgspec.structs.replace(result, requests=about) if about else result


def _nothing(rules: ClassRules, exercise: str, choice: Choice | None) -> ExerciseResult | None:
    """Return the result without a verdict: nothing was handed in, or it is not judged yet."""
    blank = rules.blank_of(exercise)
    if blank is None or (choice is None and not rules.unfinished):
        return blank
    message = NOT_YET if rules.unfinished else _REGRADE
    tests = tuple(
        msgspec.structs.replace(test, outcome=Outcome.SKIPPED, message=message)
        for test in blank.tests
    )
    return msgspec.structs.replace(
        blank, status=Status.UNJUDGED, tests=tests, message=message, settled=False, waiting=True
    )


def result_of(
    course: CourseInfo,
    submission: SubmissionInfo,
    exercises: Sequence[ExerciseResult],
    verdicts: Collection[Verdict],
    blank: Result | None = None,
) -> Result:
    """Return a result made of verdicts from one or several gradings, or of a `blank` result."""
    score, max_score = sum_of(exercises)
    if verdicts:
        seed = max(verdict.seed for verdict in verdicts)
        started_at = min(verdict.graded_at for verdict in verdicts)
        environment = _common([verdict.environment for verdict in verdicts])
    else:
        assert blank is not None, "exercises without a verdict are from it"
        seed, started_at, environment = blank.seed, blank.started_at, blank.environment
    return Result(
        course=course,
        submission=submission,
        score=score,
        max_score=max_score,
        seed=seed,
        exercises=tuple(exercises),
        started_at=started_at,
        duration_seconds=round(sum(result.duration_seconds for result in exercises), 3),
        environment=environment,
    )


def _digest(about: Attempt, chosen: Mapping[str, Choice]) -> str:
    """Return the digest of the files that count: the attempt's own if they are all of one attempt."""
    handed = {name: choice for name, choice in chosen.items() if choice.source}
    if all(choice.attempt.id == about.id for choice in handed.values()):
        return about.digest
    return digest_of_files({name: choice.source for name, choice in chosen.items()})


def _common(environments: Sequence[Environment]) -> Environment:
    """Return the environment of the last verdict, with the walls that held around every one of them.

    Verdicts that were settled without a run name no torch, and needed no walls.
    """
    judged = [environment for environment in environments if environment.torch]
    if not judged:
        return environments[0]
    common = set.intersection(*(set(environment.isolation) for environment in judged))
    walls = tuple(wall for wall in judged[-1].isolation if wall in common)
    return msgspec.structs.replace(judged[-1], isolation=walls)
