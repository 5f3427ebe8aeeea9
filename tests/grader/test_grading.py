"""Grading a submission: files settled without a judge, exercises without a verdict, and the total."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grader.course.manifest import Course, Exercise, load_course
from grader.errors import CourseError, GraderError, IsolationError, SubmissionError
from grader.grading import (
    Progress,
    foreign_names,
    grade,
    grading_options,
    nothing_handed_in,
    settle,
    unjudged,
    version_of,
    with_note,
)
from grader.judge import pool
from grader.judge.scoring import score_alike
from grader.results import ExerciseResult, Outcome, Place, Status, TestResult, Visibility
from grader.submissions import ExerciseFile, Submission
from tests.grader.builders import checked, exercise

PLAIN = Path(__file__).parent / "courses" / "plain"
COURSE = load_course(PLAIN)
GREETING = COURSE.exercise("greeting")
STUB = COURSE.stub(GREETING).source
WORK = b"def greeting(name):\n    return f'Hello, {name}!'\n"
OPTIONS = grading_options()
EMPTY = "text/greeting.py is empty: write your code into it and save it. Called Greeting.py."


class Judges:
    """Judges that end each exercise according to `ends`, with full marks by default."""

    ends: dict[str, Exception | Outcome]
    started: list[tuple[str, ...]]
    walls: bool

    def __init__(self, *, preload: tuple[str, ...], walls: bool) -> None:
        self.started.append(tuple(preload))
        Judges.walls = walls

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Start nothing."""

    def judge(
        self,
        course: Course,
        of: Exercise,
        source: bytes,
        options: Any,
        done: Callable[[TestResult], None],
    ) -> Any:
        end = self.ends.get(of.id, Outcome.PASSED)
        if isinstance(end, Exception):
            raise end
        from grader.course.suites import tests_of

        result = score_alike(of, tests_of(course, of, options.suites), end, "")
        for test in result.tests:
            done(test)
        return SimpleNamespace(result=result, walls=("seccomp",))


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> type[Judges]:
    Judges.ends, Judges.started = {}, []
    monkeypatch.setattr(pool, "Judges", Judges)
    return Judges


def submission(**files: bytes | None) -> Submission:
    sources: dict[str, bytes | None] = {e.id: COURSE.stub(e).source for e in COURSE.exercises}
    return Submission(
        "ada", {name: ExerciseFile(source) for name, source in {**sources, **files}.items()}
    )


# --- without a judge ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handed", "status", "message", "attempted"),
    [
        (ExerciseFile(None, "It is missing."), Status.ERROR, "It is missing.", False),
        (ExerciseFile(None, "Too large.", Path("x")), Status.ERROR, "Too large.", False),
        (
            ExerciseFile(b"\n", "Called Greeting.py."),
            Status.ERROR,
            EMPTY,
            False,
        ),
        (
            ExerciseFile(STUB),
            Status.NOT_ATTEMPTED,
            "Not attempted yet: text/greeting.py is still the stub.",
            False,
        ),
        (
            ExerciseFile(STUB, "Handed in besides: a.py."),
            Status.ERROR,
            "text/greeting.py is still the stub. Handed in besides: a.py.",
            False,
        ),
        (
            ExerciseFile(b"x = 1\ndef f(:\n", "Called Greeting.py."),
            Status.ERROR,
            "text/greeting.py is not valid Python: line 2: invalid syntax. Called Greeting.py.",
            True,
        ),
    ],
)
def test_a_file_without_work_is_settled_with_the_reason(
    handed: ExerciseFile, status: Status, message: str, attempted: bool
) -> None:
    result = settle(COURSE, GREETING, handed, OPTIONS)
    assert result is not None
    assert (result.status, result.message, result.settled) == (status, message, True)
    assert (result.score, result.max_score, result.attempted) == (0, 2.5, attempted)
    assert result.tests and {test.message for test in result.tests} == {message}
    places = {test.place for test in result.tests}
    assert places == {Place("text/greeting.py", 2, "") if attempted else None}


def test_work_is_not_settled() -> None:
    assert settle(COURSE, GREETING, ExerciseFile(WORK), OPTIONS) is None
    assert settle(COURSE, GREETING, ExerciseFile(WORK, "Another is there."), OPTIONS) is None


def test_an_absent_student_has_no_points_and_no_hints() -> None:
    result = nothing_handed_in(COURSE, COURSE.exercises, OPTIONS)
    assert (result.score, result.max_score) == (0, 20)
    assert {each.status for each in result.exercises} == {Status.NOT_ATTEMPTED}
    assert {test.hint for each in result.exercises for test in each.tests} == {""}
    assert not any(each.attempted for each in result.exercises)
    assert result.environment.isolation == ()


def test_an_unjudged_exercise_has_a_reason_and_its_worth() -> None:
    fault = unjudged(COURSE, GREETING, OPTIONS, "No sandbox.")
    assert (fault.status, fault.message, fault.waiting) == (Status.UNJUDGED, "No sandbox.", False)
    assert (fault.score, fault.max_score) == (0, 2.5)
    assert {test.outcome for test in fault.tests} == {Outcome.SKIPPED}
    waiting = unjudged(COURSE, GREETING, OPTIONS, "In the queue.", waiting=True)
    assert waiting.waiting and waiting.tests[0].message == "Not judged yet."


def test_a_broken_suite_still_has_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise CourseError("line 3")

    monkeypatch.setattr("grader.grading.tests_of", broken)
    assert unjudged(COURSE, GREETING, OPTIONS, "line 3").tests == ()


# --- notes ----------------------------------------------------------------------------------------


def judged(outcome: Outcome, **changes: Any) -> ExerciseResult:
    return exercise(checked(), checked("b", outcome), **changes)


def test_a_note_is_about_the_file_that_was_judged() -> None:
    result, handed = judged(Outcome.FAILED), ExerciseFile(WORK, "Called Greeting.py.")
    assert with_note(result, handed).note == "Called Greeting.py."
    assert with_note(result, ExerciseFile(WORK)) is result
    assert with_note(judged(Outcome.FAILED, note="Old."), ExerciseFile(WORK)).note == ""
    assert with_note(judged(Outcome.FAILED, settled=True), handed).note == ""
    assert with_note(result, ExerciseFile(None, "Missing.")).note == ""


def test_names_missing_in_this_python_are_noted_only_if_the_code_raised() -> None:
    source = b"x = get_ipython()\n"
    assert "export of a notebook" in foreign_names(judged(Outcome.ERROR), source)
    assert "export of a notebook" in foreign_names(exercise(status=Status.ERROR), source)
    assert foreign_names(judged(Outcome.FAILED), source) == ""
    assert foreign_names(judged(Outcome.ERROR, settled=True), source) == ""
    assert foreign_names(judged(Outcome.ERROR), WORK) == ""
    noted = with_note(judged(Outcome.ERROR), ExerciseFile(source, "Called G.py."))
    assert noted.note.startswith("Called G.py. It is the export")


# --- a whole submission ---------------------------------------------------------------------------


class RecordedProgress(Progress):
    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, exercise: Exercise, tests: int) -> None:
        self.events.append(f"begin {exercise.id} {tests}")

    def test(self, exercise: Exercise, result: TestResult) -> None:
        self.events.append("test")

    def end(self, exercise: Exercise, result: ExerciseResult) -> None:
        self.events.append(f"end {exercise.id}")


def test_stubs_are_graded_without_a_judge(judges: type[Judges]) -> None:
    result = grade(submission(), course=COURSE)
    assert (result.score, result.max_score, judges.started) == (0, 20, [])
    assert (result.environment.torch, result.environment.isolation) == ("", ())
    assert [each.name for each in result.exercises] == ["word_count", "greeting", "running_mean"]


def test_work_is_judged_and_the_rest_is_settled(
    judges: type[Judges], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests may have learned late imports of an exercise.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    progress = RecordedProgress()
    result = grade(submission(greeting=WORK), course=COURSE, seed=7, progress=progress)
    assert (result.score, result.max_score, result.seed) == (2.5, 20, 7)
    assert judges.started == [()], "only the modules that greeting preloads"
    assert result.environment.isolation == ("seccomp",)
    count = len(result.exercises[1].tests)
    assert progress.events == [
        "end word_count",
        f"begin greeting {count}",
        *["test"] * count,
        "end greeting",
        "end running_mean",
    ]


def test_code_runs_behind_walls_by_default(judges: type[Judges]) -> None:
    grade(submission(greeting=WORK), course=COURSE)
    assert judges.walls
    grade(submission(greeting=WORK), course=COURSE, walls=False)
    assert not judges.walls


def test_a_folder_or_a_file_of_any_name_is_read(judges: type[Judges], tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "greeting.py").write_bytes(WORK)
    names = iter(["greeting"])
    assert grade(tmp_path, course=PLAIN, exercises=names).score == 2.5
    assert grade(str(tmp_path), course=PLAIN).score == 2.5
    (tmp_path / "mine.py").write_bytes(WORK)
    assert grade(tmp_path / "mine.py", course=COURSE, exercises=["greeting"]).score == 2.5
    with pytest.raises(SubmissionError):
        grade(tmp_path / "mine.py", course=COURSE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SubmissionError):
        grade(tmp_path / "empty", course=COURSE)
    nothing = grade(tmp_path / "empty", course=COURSE, allow_empty=True)
    assert {each.status for each in nothing.exercises} == {Status.ERROR}


def test_a_fault_does_not_affect_other_exercises(judges: type[Judges]) -> None:
    judges.ends["greeting"] = GraderError("The judge ended.")
    result = grade(submission(greeting=WORK, running_mean=WORK), course=COURSE)
    assert [each.status for each in result.exercises] == [
        Status.NOT_ATTEMPTED,
        Status.UNJUDGED,
        Status.PASSED,
    ]
    assert (result.score, result.exercises[1].message) == (7.5, "The judge ended.")


def test_without_any_verdict_the_fault_is_raised(judges: type[Judges]) -> None:
    judges.ends["greeting"] = GraderError("The judge ended.")
    with pytest.raises(GraderError, match="The judge ended"):
        grade(submission(greeting=WORK), course=COURSE, exercises=["greeting"])


def test_weak_isolation_ends_everything(judges: type[Judges]) -> None:
    judges.ends["greeting"] = IsolationError("no seccomp")
    with pytest.raises(IsolationError):
        grade(submission(greeting=WORK), course=COURSE)


def test_only_the_named_exercises_and_suites_are_graded(judges: type[Judges]) -> None:
    files = submission(greeting=WORK)
    result = grade(files, course=COURSE, exercises=["greeting"])
    assert (result.score, result.max_score) == (2.5, 2.5)
    # greeting has no hidden suite.
    hidden = grade(files, course=COURSE, suite="hidden")
    assert [each.name for each in hidden.exercises] == ["word_count", "running_mean"]
    with pytest.raises(SubmissionError, match="no hidden suite here for greeting; choose another"):
        grade(files, course=COURSE, exercises=["greeting"], suite="hidden")
    single = Submission("ada", {"greeting": ExerciseFile(WORK)})
    assert grade(single, course=COURSE).max_score == 2.5
    with pytest.raises(SubmissionError, match="not the one of 'word_count'"):
        grade(single, course=COURSE, exercises=["word_count"])


def test_options_have_the_names_of_the_command_line() -> None:
    assert grading_options().suites == (Visibility.PUBLIC, Visibility.HIDDEN)
    assert grading_options(3, "hidden").suites == (Visibility.HIDDEN,)
    assert grading_options(3).seed == 3 and grading_options().recognize
    assert grading_options().required_walls == ()
    assert grading_options(require_isolation="kernel").required_walls
    with pytest.raises(ValueError, match="suite is 'most', not 'public', 'hidden' or 'all'"):
        grading_options(suite="most")


def test_the_version_of_a_package_is_found_without_importing_it() -> None:
    assert version_of("msgspec") == msgspec.__version__
    assert version_of("no_such_package") == ""
