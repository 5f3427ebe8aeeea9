"""Judge one exercise of one submission: run its suites with pytest and turn what happened into a result.

Theory of operation. The tests of an exercise are known beforehand, from the syntax tree of its suites
(`grader.course.suite`). pytest runs them in this process, in a session that stays for the next submission
(`grader.judge.collection`); `SuiteRun` says what each end means; a witness in pytest's call of the functions
says which of them returned (`grader.judge.collection`). The three must agree to the letter. A test that is
missing, ran twice or ended in a way that nobody explained is a fault of ours (`JudgeError`), never a pass
and never the student's loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from grader.course.manifest import Course, Exercise
from grader.course.suite import SuiteTest, tests_of
from grader.errors import JudgeError
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.collection import Collection, CollectionError, Collections, TestRun
from grader.judge.outcomes import SandboxDied, StudentError, TimedOut
from grader.judge.plugin import SuiteRun, TestEnd, meaning_of, visibility_of
from grader.judge.scoring import score_exercise, score_test
from grader.judge.session import Session
from grader.results import Outcome, Place, TestResult
from grader.sandbox.client import SandboxSource
from grader.text import clean_lines

MAX_OUTPUT = 8_000


def judge_exercise(
    course: Course,
    exercise: Exercise,
    source: bytes,
    options: GradingOptions,
    *,
    sandboxes: SandboxSource,
    collections: Collections,
    done: Callable[[TestResult], None] = lambda result: None,
) -> Judgment:
    """Judge the source of one exercise file; `done` is told of every test as it ends.

    `collections` are the judge's, which keeps the collected suites there from one call to the next.

    Raises SyntaxError if the source cannot be parsed, and GraderError for a fault of ours.
    """
    begin = time.monotonic()
    tests = tests_of(course, exercise, options.suites)
    session = Session(sandboxes, exercise, source, options.required_walls)
    try:
        # In this process the suites are imported meanwhile.
        session.begin()
        collection = _collected(collections, course, exercise, options)
        message, results = _run(collection, exercise, SuiteRun(session, tests, options.seed), done)
    finally:
        session.close()
    output = clean_lines(session.output.text(), MAX_OUTPUT)
    seconds = time.monotonic() - begin
    result = score_exercise(exercise, results, message=message, output=output, seconds=seconds)
    return Judgment(result, session.walls)


def _collected(
    collections: Collections, course: Course, exercise: Exercise, options: GradingOptions
) -> Collection:
    suites = course.suites(exercise)
    files = [path for visibility, path in suites.items() if visibility in options.suites]
    try:
        return collections.of(course.root, files)
    except CollectionError as error:
        raise JudgeError(
            f"pytest could not run the suites of {exercise.id!r}: {str(error)[-2000:]}"
        ) from error


def _not_loaded(
    exercise: Exercise, tests: list[SuiteTest], error: StudentError | TimedOut | SandboxDied
) -> tuple[str, list[TestResult]]:
    """The module itself does not run: one message for the exercise, and every test shares its end."""
    said = meaning_of(error)
    message = f"{exercise.file} cannot be imported. {said.message}"
    # Unfinished work at the top of a file is an error there, not a part still to be written.
    outcome = Outcome.ERROR if said.outcome is Outcome.NOT_IMPLEMENTED else said.outcome
    said = msgspec.structs.replace(said, message=message, outcome=outcome)
    return message, [_result(exercise, test, said, 0.0) for test in tests]


def _run(
    collection: Collection,
    exercise: Exercise,
    judged: SuiteRun,
    done: Callable[[TestResult], None],
) -> tuple[str, list[TestResult]]:
    """The message and the results of the tests; one message for all where the module fails."""
    tests = list(judged.tests.values())
    try:
        judged.session.load()
    except (StudentError, TimedOut, SandboxDied) as error:
        return _not_loaded(exercise, tests, error)
    reported = collection.run(judged, lambda test, said: done(_result(exercise, test, said, 0.0)))
    if judged.fault is not None:
        raise judged.fault
    return "", _agreed(exercise, tests, reported)


def _agreed(
    exercise: Exercise, tests: list[SuiteTest], reported: list[TestRun]
) -> list[TestResult]:
    """The results, if what was declared, what ran and what was said of it are the same tests."""
    declared = [(test.visibility, test.name) for test in tests]
    ran = [(visibility_of(report.file), report.name) for report in reported]
    if ran != declared:
        missing = ", ".join(name for visibility, name in declared if (visibility, name) not in ran)
        raise JudgeError(
            f"The suites of {exercise.id!r} declare {len(declared)} tests and {len(ran)} ran"
            + (f"; missing: {missing}." if missing else ", in another order or twice.")
        )
    results = []
    for test, report in zip(tests, reported, strict=True):
        said = report.said
        if said.fault or (said.outcome is Outcome.PASSED) != report.passed:
            why = said.fault or _ODD_END[report.passed]
            raise JudgeError(
                f"The suite of {exercise.id!r} is at fault in {test.name}: {why}. "
                "This is not about the submission, and costs it nothing; tell the course's author."
            )
        results.append(_result(exercise, test, said, report.seconds))
    return results


_ODD_END = {True: "pytest passed it, we did not", False: "pytest did not pass it"}


def _result(exercise: Exercise, test: SuiteTest, said: TestEnd, seconds: float) -> TestResult:
    place = Place(exercise.file, said.line, said.function) if said.line else None
    if said.refused:
        test = msgspec.structs.replace(test, hint="")
    return score_test(test, said.outcome, said.message, place, seconds)
