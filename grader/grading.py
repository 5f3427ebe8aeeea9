"""Grade a submission: settle cases that need no judge, have the rest judged, and compose the result."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import grader
from grader.course.manifest import Course, Exercise, load_course
from grader.course.suites import tests_of
from grader.errors import CourseError, GraderError, IsolationError, SubmissionError
from grader.judge.assignment import GradingOptions
from grader.judge.scoring import score_alike, sum_of, with_extra_credit
from grader.results import (
    Environment,
    ExerciseResult,
    Outcome,
    Place,
    Result,
    Status,
    SubmissionInfo,
    TestResult,
    Visibility,
)
from grader.submissions import ExerciseFile, State, Submission, read_submission
from grader.submissions.not_python import about_names
from grader.text import utc

# Imported when needed: if nothing has to be judged, no judge is loaded.
if TYPE_CHECKING:
    from grader.judge.pool import Judges


class Progress:
    """The events of a grading; every method does nothing unless overridden."""

    def begin(self, exercise: Exercise, tests: int) -> None:
        """Called when an exercise is about to be judged by this many tests."""

    def test(self, exercise: Exercise, result: TestResult) -> None:
        """Called when a test ended."""

    def end(self, exercise: Exercise, result: ExerciseResult) -> None:
        """Called when the exercise is judged or settled."""


def grade(
    submission: Submission | Path | str,
    *,
    course: Course | Path | str = ".",
    exercises: Iterable[str] = (),
    seed: int = 0,
    suite: str = "all",
    walls: bool = True,
    require_isolation: str = "none",
    allow_empty: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Grade one submission and return its result.

        result = grade("my-submission", course="course", exercises=["glu"])
        print(result.score, "of", result.max_score)

    Args:
        submission: a folder with `<chapter>/<exercise>.py` files; one such file, of any name if one
            exercise is graded; or a submission that was read.
        course: the course, or a folder at or below it.
        exercises: ids of the exercises to grade; all of them by default.
        seed: seeds the inputs of every test; the same seed gives the same result.
        suite: `public`, `hidden` or `all` suites.
        walls: False to run the student's code unconfined (for measurements).
        require_isolation: refuse weaker isolation than this level: `none`, `limits`, `kernel`,
            `namespaces` or `full`.
        allow_empty: accept a folder or an archive without any file of the course, as a submission in which
            every exercise is missing.
        progress: called with every test as it ends.

    Raises:
        SubmissionError: there is nothing to grade at this path.
        CourseError: the course has a mistake, or no such exercise.
        GraderError: any other fault that is not the submission's, if no exercise has a verdict. If others
            have one, an exercise without a verdict is `unjudged` in the result.
    """
    begin, started = time.monotonic(), utc()
    if not isinstance(course, Course):
        course = load_course(course)
    exercises = tuple(exercises)
    if not isinstance(submission, Submission):
        only = course.exercise(exercises[0]) if len(exercises) == 1 else None
        submission = read_submission(Path(submission), course, only=only, allow_empty=allow_empty)
    options = grading_options(seed, suite, require_isolation)
    selected = _selected(course, submission, exercises, options)
    grading = _Grading(course, submission, options, progress or Progress())
    with grading.judges_started(selected, walls=walls):
        # Computed while the judge loads.
        course_info = course.info()
        results = [grading.result(exercise) for exercise in selected]
    if len(grading.faults) == len(results):
        raise grading.faults[0]
    judged = with_extra_credit(results, course.extra_credit)
    score, max_score = sum_of(judged)
    return Result(
        course=course_info,
        submission=submission.info(),
        score=score,
        max_score=max_score,
        seed=seed,
        exercises=judged,
        started_at=started,
        duration_seconds=round(time.monotonic() - begin, 3),
        environment=environment_of(grading.torch, grading.walls),
    )


class _Grading:
    """One submission on its way through settling and judging.

    `torch` is the version and `walls` are the walls with which it was judged; empty if nothing was judged.
    """

    def __init__(
        self,
        course: Course,
        read: Submission,
        options: GradingOptions,
        progress: Progress,
    ) -> None:
        self.walls: tuple[str, ...] = ()
        self.faults: list[GraderError] = []
        self.torch = ""
        self._course, self._files = course, read.files
        self._options, self._progress = options, progress
        self._judges: Judges | None = None

    @contextlib.contextmanager
    def judges_started(self, selected: Iterable[Exercise], *, walls: bool) -> Iterator[None]:
        """Start a judge first, if any of these exercises needs one, since that takes longest."""
        course, files = self._course, self._files
        # Without reading a suite, so that a judge can start first.
        open_ones = [e for e in selected if files[e.id].state(course.stub(e)) is State.EDITED]
        if not open_ones:
            yield
            return
        from grader.judge.pool import Judges
        from grader.judge.preloading import modules_of

        with Judges(preload=modules_of(course, open_ones), walls=walls) as self._judges:
            self._judges.start()
            self.torch = version_of("torch")
            yield

    def result(self, exercise: Exercise) -> ExerciseResult:
        """Settle or judge one exercise; a fault of the grader leaves it unjudged, and the others go on."""
        file = self._files[exercise.id]
        try:
            settled = settle(self._course, exercise, file, self._options)
            result = with_note(self._judged(exercise), file) if settled is None else settled
        except IsolationError:
            raise
        except GraderError as error:
            self.faults.append(error)
            result = unjudged(self._course, exercise, self._options, str(error))
        self._progress.end(exercise, result)
        return result

    def _judged(self, exercise: Exercise) -> ExerciseResult:
        """Have one exercise judged, and report each test as it ends."""
        source = self._files[exercise.id].source
        assert self._judges is not None and source is not None, (
            "a judge was started for open exercises"
        )
        self._progress.begin(exercise, len(tests_of(self._course, exercise, self._options.suites)))
        judgment = self._judges.judge(
            self._course,
            exercise,
            source,
            self._options,
            functools.partial(self._progress.test, exercise),
        )
        self.walls = judgment.walls
        return judgment.result


def _selected(
    course: Course, read: Submission, ids: Iterable[str], options: GradingOptions
) -> tuple[Exercise, ...]:
    """Return the named or handed-in exercises that have one of the chosen suites.

    A missing hidden suite is not a fault, since students have none. An exercise that no test would judge is
    never scored.
    """
    named = course.select(tuple(ids) or read.files)
    for exercise in named:
        if exercise.id not in read.files:
            raise SubmissionError(f"{read.name} is a single file, not the one of {exercise.id!r}.")
        if not course.suites(exercise):
            public = course.suite(exercise, Visibility.PUBLIC)
            raise CourseError(
                f"The exercise {exercise.id!r} has no suite: write or restore {public}."
            )
    judged = tuple(
        exercise for exercise in named if set(options.suites) & set(course.suites(exercise))
    )
    if not judged:
        kind = options.suites[0].value
        names = ", ".join(exercise.id for exercise in named)
        raise SubmissionError(f"There is no {kind} suite here for {names}; choose another --suite.")
    return judged


def grading_options(
    seed: int = 0, suite: str = "all", require_isolation: str = "none"
) -> GradingOptions:
    """Return options by their names on a command line; `suite` is `public`, `hidden` or `all`."""
    if suite not in ("all", *(visibility.value for visibility in Visibility)):
        raise ValueError(f"suite is {suite!r}, not 'public', 'hidden' or 'all'.")
    suites = tuple(Visibility) if suite == "all" else (Visibility(suite),)
    if require_isolation == "none":
        return GradingOptions(seed, suites, recognize=True)
    # Imported here, since the first `grade` of a fresh clone needs no walls.
    from grader.sandbox.walls.survey import walls_of
    from grader.sandbox.walls.wall import Level

    return GradingOptions(seed, suites, walls_of(Level(require_isolation)), recognize=True)


def settle(
    course: Course, exercise: Exercise, handed: ExerciseFile, options: GradingOptions
) -> ExerciseResult | None:
    """Return the result of an exercise that needs no judge (missing, untouched, unreadable), or None."""
    look = handed.look(course.stub(exercise))
    outcome, place = Outcome.ERROR, None
    match look.state:
        case State.EDITED:
            return None
        case State.MISSING | State.UNREADABLE:
            message = handed.problem
        case State.EMPTY:
            message = f"{exercise.file} is empty: write your code into it and save it."
            message = f"{message} {handed.problem}".rstrip()
        case State.UNTOUCHED if handed.problem:
            message = f"{exercise.file} is still the stub. {handed.problem}"
        case State.UNTOUCHED:
            outcome = Outcome.NOT_IMPLEMENTED
            message = f"Not attempted yet: {exercise.file} is still the stub."
        case State.INVALID:
            message = f"{exercise.file} is not valid Python: line {look.line}: {look.error}"
            # Python's own words may end with a question: "Perhaps you forgot a comma?"
            message += "" if message.endswith("?") else "."
            message = f"{message} {handed.problem}".rstrip()
            place = Place(exercise.file, look.line, "")
    tests = tests_of(course, exercise, options.suites)
    return score_alike(exercise, tests, outcome, message, place, settled=True)


def with_note(result: ExerciseResult, handed: ExerciseFile) -> ExerciseResult:
    """Return the result with the note on this file; a settled one has it in its message."""
    note = ""
    if handed.source is not None and not result.settled:
        note = f"{handed.problem} {foreign_names(result, handed.source)}".strip()
    return result if note == result.note else msgspec.structs.replace(result, note=note)


def foreign_names(result: ExerciseResult, source: bytes) -> str:
    """Return a sentence about names that this Python lacks, if the code raised because of them; else empty."""
    raised = result.status is Status.ERROR or any(t.outcome is Outcome.ERROR for t in result.tests)
    return about_names(source) if raised and not result.settled else ""


def nothing_handed_in(
    course: Course, exercises: Iterable[Exercise], options: GradingOptions
) -> Result:
    """Return the result of a student of the class who handed in nothing."""
    results = []
    for exercise in exercises:
        # Hints are for students who tried.
        tests = [
            msgspec.structs.replace(test, hint="")
            for test in tests_of(course, exercise, options.suites)
        ]
        end = Outcome.NOT_IMPLEMENTED, "Nothing was handed in."
        results.append(score_alike(exercise, tests, *end, settled=True))
    blank = with_extra_credit(results, course.extra_credit)
    score, max_score = sum_of(blank)
    return Result(
        course=course.info(),
        submission=SubmissionInfo("", ""),
        score=score,
        max_score=max_score,
        seed=options.seed,
        exercises=blank,
        started_at=utc(),
        duration_seconds=0.0,
        environment=environment_of("", ()),
    )


def unjudged(
    course: Course, exercise: Exercise, options: GradingOptions, why: str, *, waiting: bool = False
) -> ExerciseResult:
    """Return the result without a verdict: `why` names the fault of the grader, or the reason for `waiting`."""
    try:
        tests = tests_of(course, exercise, options.suites)
    except CourseError:
        tests = []
    message = "Not judged yet." if waiting else "Not judged: a fault of the grader."
    result = score_alike(exercise, tests, Outcome.SKIPPED, message)
    return msgspec.structs.replace(result, status=Status.UNJUDGED, message=why, waiting=waiting)


def environment_of(torch: str, walls: tuple[str, ...]) -> Environment:
    """Return the environment of a result, without torch and walls if nothing had to be judged."""
    # `platform.platform()` would start a process to say more.
    system = platform.uname()
    return Environment(
        grader=grader.__version__,
        python=platform.python_version(),
        torch=torch,
        platform=f"{system.system} {system.release} {system.machine}",
        isolation=walls,
    )


def version_of(package: str) -> str:
    """Return the version of an installed package, without importing it; empty if there is none."""
    # Takes 20 ms: free while a judge loads, but too long if there is nothing to judge.
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
