"""The end of each test: who is at fault, and its effect on later tests."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.course.suite import SuiteTest
from grader.errors import GraderError, JudgeError
from grader.judge.outcomes import (
    KEEP_NAMES,
    KEEP_PARAMETERS,
    CheckFailed,
    Forbidden,
    Frame,
    NoTime,
    SandboxDied,
    StudentError,
    SubmissionFailure,
    TimedOut,
    student_error,
)
from grader.judge.suite_run import NotYet, SuiteRun, fitting_hint, meaning_of
from grader.judge.suite_run import TestEnd as End
from grader.results import Cause, Outcome, Visibility
from grader.sandbox.wire.values import ProtocolError

FRAME = Frame(3, "forward")
SUITE = Path("tests/hidden/one/test_task.py")
SOURCE = (
    "def base():\n    pass\n\n\ndef forward():\n    return base()\n\n\ndef alone():\n    pass\n"
)


def raised(name: str, text: str = "no", frames: tuple[Frame, ...] = (FRAME,)) -> StudentError:
    return student_error(name, (name, "Exception"), text, frames)


# --- the meaning of an exception ------------------------------------------------------------------


def test_a_test_that_returns_has_passed() -> None:
    assert meaning_of(None) == End(Outcome.PASSED)


@pytest.mark.parametrize(
    ("error", "outcome", "cause", "line"),
    [
        (CheckFailed("It is 2.", Cause.SHAPE), Outcome.FAILED, Cause.SHAPE, None),
        (AssertionError("It is 2."), Outcome.FAILED, Cause.MISTAKE, None),
        (AssertionError(), Outcome.FAILED, Cause.VALUES, None),
        (Forbidden("No loops.", FRAME), Outcome.FAILED, Cause.OTHER, 3),
        (Forbidden("No loops.", Frame(0, "")), Outcome.FAILED, Cause.OTHER, None),
        (raised("ValueError"), Outcome.ERROR, Cause.RAISE, 3),
        (raised("ValueError", frames=()), Outcome.ERROR, Cause.OTHER, None),
        (raised("NotImplementedError"), Outcome.NOT_IMPLEMENTED, Cause.OTHER, 3),
        (TimedOut("Too slow.", FRAME), Outcome.TIMEOUT, Cause.OTHER, 3),
        (TimedOut("Too slow."), Outcome.TIMEOUT, Cause.OTHER, None),
        (NoTime("No time."), Outcome.TIMEOUT, Cause.NO_TIME, None),
        (SandboxDied("It crashed.", FRAME), Outcome.ERROR, Cause.OTHER, 3),
        (NotYet("First another."), Outcome.SKIPPED, Cause.OTHER, None),
        (ProtocolError("odd"), Outcome.ERROR, Cause.TYPE, None),
    ],
)
def test_failures_of_the_submission_are_not_faults(
    error: Exception, outcome: Outcome, cause: Cause, line: int | None
) -> None:
    end = meaning_of(error)
    assert (end.outcome, end.cause, end.line, end.fault) == (outcome, cause, line, "")
    assert end.refused == isinstance(error, Forbidden)


@pytest.mark.parametrize(
    "error", [ValueError("odd"), KeyError("x"), GraderError("gone"), MemoryError()]
)
def test_anything_else_is_a_fault_of_the_grader(error: Exception) -> None:
    end = meaning_of(error)
    assert end.fault == f"{type(error).__name__} (the suite): {error}"
    assert not end.certain
    assert (end.outcome, end.finding) == (Outcome.ERROR, None)


def test_a_fault_is_reported_with_the_line_of_the_suite() -> None:
    def run(name: str, error: Exception) -> End:
        code = compile("\ndef helper(error):\n    raise error\n", name, "exec")
        space: dict[str, Any] = {}
        exec(code, space)
        with pytest.raises(type(error)) as caught:
            space["helper"](error)
        return meaning_of(caught.value)

    assert run("/course/test_glu.py", KeyError("x")).fault == "KeyError (test_glu.py, line 3): 'x'"
    certain = run("/course/test_glu.py", JudgeError("misuse"))
    assert (certain.fault, certain.certain) == ("test_glu.py, line 3: misuse", True)
    # A wrongly called check raises in a library. The line reported is that of its caller, in this file.
    assert run("/lib/contextlib.py", KeyError("x")).fault.startswith(
        "KeyError (test_suite_run.py, "
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forward\nand more", "Still to do: forward"),
        ("", "This part is still to be written."),
    ],
)
def test_an_unwritten_part_is_reported_as_such(text: str, message: str) -> None:
    assert meaning_of(raised("NotImplementedError", text)).message == message


def test_a_missing_operator_of_torch_is_not_an_unwritten_part() -> None:
    error = raised("NotImplementedError", "no kernel")
    error.unwritten = False
    end = meaning_of(error)
    assert (end.outcome, end.cause) == (Outcome.ERROR, Cause.OTHER)


def test_an_exception_is_reported_with_its_place_and_first_line() -> None:
    end = meaning_of(raised("ValueError", "too few:\nTraceback"))
    assert end.message == "Your code raised ValueError: too few (line 3, in forward)."
    assert (end.line, end.function) == (3, "forward")
    misused = raised("TypeError", "not iterable", frames=())
    misused.misuse = "your code returned None"
    assert meaning_of(misused).message == (
        "Your code returned None: the test's own code raised TypeError: not iterable."
    )


@pytest.mark.parametrize("keep", [KEEP_NAMES, KEEP_PARAMETERS])
def test_a_changed_name_or_parameter_is_not_reported_as_an_exception(keep: str) -> None:
    text = f"relu is not there; {keep}"
    end = meaning_of(raised("AttributeError", text, frames=()))
    assert end.message == f"{text}."
    assert end.finding is not None
    assert bool(end.finding.plain) == (keep == KEEP_PARAMETERS)
    assert meaning_of(raised("AttributeError", text)).message.startswith("Your code raised")


@pytest.mark.parametrize(
    ("sizes", "advice"),
    [("2x3 and 4x3", True), ("3x3 and 3x3", False), ("2x3 and 3x4", False), ("2x3 and 5x4", False)],
)
def test_a_transpose_is_advised_if_it_would_fit(sizes: str, advice: bool) -> None:
    error = raised("RuntimeError", f"mat1 and mat2 shapes cannot be multiplied ({sizes})")
    assert (".T" in meaning_of(error).message) == advice


# --- tests that build on others -------------------------------------------------------------------


class FakeSolution:
    def __init__(self) -> None:
        self.answered: set[bool] = set()


class FakeSession:
    """A session without a sandbox."""

    def __init__(self, builds_on: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.file = SimpleNamespace(tree=ast.parse(SOURCE))
        self.exercise = SimpleNamespace(builds_on=builds_on or {})
        self.solution: FakeSolution | None = FakeSolution()
        self.raised: list[StudentError] = []
        self.begun: list[Any] = []
        self.stand_ins: tuple[str, ...] = ()
        self.slow: set[str] = set()
        self.run_seed = 0

    def is_out_of_time(self, share: str) -> bool:
        return share in self.slow

    def begin_test(self, test: Any) -> None:
        self.begun.append(test)

    def with_stand_ins(self, names: tuple[str, ...]) -> FakeSession:
        other = FakeSession(self.exercise.builds_on)
        other.solution, other.stand_ins, other.begun = self.solution, names, self.begun
        return other


def declared(name: str, place: str, **fields: Any) -> SuiteTest:
    return SuiteTest(name, f"The {name}", Visibility.HIDDEN, place=place, **fields)


BASE, FORWARD = declared("base", "base"), declared("forward", "forward", requires=("base",))
OTHER = declared("other", "forward")


@pytest.fixture
def session() -> FakeSession:
    return FakeSession({"forward": ("base",)})


def running(session: FakeSession, seed: int = 0) -> SuiteRun:
    return SuiteRun(session, [BASE, FORWARD, OTHER], seed)  # type: ignore[arg-type]


def ending(
    session: FakeSession, *, solved: Exception | None = None, answered: bool = True
) -> Callable[[Any], None]:
    """Return a test that fails, but ends with `solved` once the solution stands in for the wrong function."""

    def function(student: Any) -> None:
        if not student._session.stand_ins:
            raise CheckFailed("It is wrong.")
        assert session.solution is not None
        session.solution.answered = {answered}
        if solved is not None:
            raise solved

    return function


def passing(student: Any) -> None:
    """Pass."""


def failing(student: Any) -> None:
    raise CheckFailed("It is wrong.")


def test_a_test_waits_for_its_prerequisite(session: FakeSession) -> None:
    run = running(session)
    end = run.judged(FORWARD, SUITE, passing)
    assert (end.outcome, end.message) == (
        Outcome.SKIPPED,
        'Not judged yet: first correct "The base".',
    )
    assert run.judged(BASE, SUITE, passing).outcome is Outcome.PASSED
    assert run.judged(FORWARD, SUITE, passing).outcome is Outcome.PASSED
    public = SuiteTest("base", "", Visibility.PUBLIC)
    assert (public.visibility, public.name) not in run.passed


def test_a_slow_test_uses_up_the_time_of_its_share(session: FakeSession) -> None:
    run = running(session)
    slow, late = declared("slow", "alone", share="alone"), declared("late", "alone", share="alone")

    def hang(student: Any) -> None:
        raise TimedOut("Too slow.", FRAME)

    session.slow.add("alone")
    end = run.judged(late, SUITE, passing)
    assert (end.outcome, end.cause) == (Outcome.TIMEOUT, Cause.NO_TIME)
    assert end.message == "alone ran out of time: it is too slow."
    session.slow.clear()
    run = running(session)
    assert run.judged(slow, SUITE, hang).outcome is Outcome.TIMEOUT
    session.slow.add("alone")
    end = run.judged(late, SUITE, passing)
    assert end.message == 'alone ran out of time: first correct "The slow".'
    assert run.judged(BASE, SUITE, passing).outcome is Outcome.PASSED


def test_the_sandbox_has_a_different_seed_from_the_draws(session: FakeSession) -> None:
    numbers = []
    for _ in range(2):
        running(session).begin(BASE)
        numbers.append(random.random())
    assert numbers[0] == numbers[1], "a suite draws the same in each run"
    running(session, seed=1).begin(BASE)
    running(session).begin(OTHER)
    first, same, other_seed, other_test = session.begun
    assert first.seed != first.draw_seed
    assert first == same
    assert len({each.draw_seed for each in session.begun}) == 3
    assert len({each.seed for each in session.begun}) == 3
    assert other_test.subject == "forward" != other_seed.subject


def test_a_mistake_in_an_earlier_function_is_not_counted_twice(session: FakeSession) -> None:
    run = running(session)
    assert run.judged(BASE, SUITE, failing).outcome is Outcome.FAILED
    end = run.judged(FORWARD, SUITE, ending(session))
    assert (end.outcome, end.stood_in) == (Outcome.PASSED, ("base",))
    assert (Visibility.HIDDEN, "forward") in run.passed
    assert id(run.session) == id(session), "the next test has the student's own functions"


def test_a_mistake_in_the_later_function_counts(session: FakeSession) -> None:
    run = running(session)
    run.judged(BASE, SUITE, failing)
    end = run.judged(OTHER, SUITE, ending(session, solved=CheckFailed("It is 3.")))
    assert (end.outcome, end.message, end.stood_in) == (Outcome.FAILED, "It is 3.", ("base",))


@pytest.mark.parametrize(
    "solved",
    [raised("ValueError"), TimedOut("Slow."), KeyError("x"), Forbidden("No.", FRAME), None],
    ids=["raised", "late", "fault", "refused", "not answered"],
)
def test_an_outcome_that_the_stand_in_may_have_caused_does_not_count(
    session: FakeSession, solved: Exception | None
) -> None:
    run = running(session)
    run.judged(BASE, SUITE, failing)
    end = run.judged(OTHER, SUITE, ending(session, solved=solved, answered=solved is not None))
    assert (end.outcome, end.message, end.stood_in) == (Outcome.FAILED, "It is wrong.", ())
    assert (Visibility.HIDDEN, "other") not in run.passed
    assert id(run.session) == id(session)


def test_there_is_no_second_run_without_a_wrong_function_that_is_used(session: FakeSession) -> None:
    assert running(session).judged(OTHER, SUITE, ending(session)).outcome is Outcome.FAILED
    for builds_on in ({}, {"forward": ("alone",)}, {"alone": ("base",)}):
        other = FakeSession(builds_on)
        run = running(other)
        for wrong in (BASE, declared("alone", "alone")):
            run.judged(wrong, SUITE, failing)
        assert run.judged(OTHER, SUITE, ending(other)).stood_in == ()
    session.solution = None
    run = running(session)
    run.judged(BASE, SUITE, failing)
    assert run.judged(OTHER, SUITE, failing).stood_in == ()


def test_a_test_that_fails_has_the_line_of_its_place(session: FakeSession) -> None:
    run = running(session)
    end = run.judged(BASE, SUITE, failing)
    assert (end.line, end.function) == (1, "base")
    elsewhere = run.error_of(OTHER, SUITE, failing)
    assert isinstance(elsewhere, CheckFailed)
    elsewhere.place = "alone"
    assert run.end(OTHER, elsewhere).line == 9
    own = run.end(OTHER, raised("ValueError", frames=(Frame(7, "helper"),)))
    assert (own.line, own.function) == (7, "helper")
    gone = run.end(declared("gone", "removed"), CheckFailed("No."))
    assert (gone.line, gone.function) == (None, "")


def test_running_out_of_memory_in_the_judge_does_not_end_a_test(session: FakeSession) -> None:
    run = running(session)

    def exhausted(student: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    def interrupted(student: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(MemoryError):
        run.judged(BASE, SUITE, exhausted)
    with pytest.raises(KeyboardInterrupt):
        run.judged(BASE, SUITE, interrupted)
    for error in (RuntimeError("odd"), ValueError("can't allocate memory")):

        def odd(student: Any, error: Exception = error) -> None:
            raise error

        assert run.judged(BASE, SUITE, odd).fault
    own = run.end(BASE, raised("MemoryError", "can't allocate memory"))
    assert own.outcome is Outcome.ERROR and "more memory than an exercise may use" in own.message


def test_a_fault_of_the_grader_concerns_the_exercise_but_one_of_the_suite_does_not(
    session: FakeSession,
) -> None:
    run = running(session)
    run.end(BASE, JudgeError("misuse"))
    assert run.fault is None
    gone = GraderError("The fork server ended.")
    run.end(BASE, gone)
    assert run.fault is gone


def test_an_end_records_whether_the_students_code_raised(session: FakeSession) -> None:
    run = running(session)
    assert not run.end(BASE, CheckFailed("No.")).raised
    assert run.end(BASE, raised("ValueError")).raised
    session.raised.append(raised("ValueError"))
    assert run.end(BASE, CheckFailed("No.")).raised


def test_a_suite_prints_nothing(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    running(session).judged(BASE, SUITE, lambda student: print("hidden"))
    assert capsys.readouterr().out == ""


def test_a_submission_cannot_end_the_second_run_with_its_own_failure(session: FakeSession) -> None:
    run = running(session)
    run.judged(BASE, SUITE, failing)

    def with_stand_ins(names: tuple[str, ...]) -> FakeSession:
        raise SubmissionFailure("It does not load.")

    session.with_stand_ins = with_stand_ins  # type: ignore[method-assign]
    end = run.judged(OTHER, SUITE, failing)
    assert (end.outcome, end.stood_in) == (Outcome.FAILED, ())


# --- hints ----------------------------------------------------------------------------------------


def compares(student: Any) -> None:
    student.assert_close(1)


@pytest.mark.parametrize(
    ("end", "visibility", "function", "kept"),
    [
        (meaning_of(CheckFailed("No.", Cause.VALUES)), Visibility.HIDDEN, None, True),
        (meaning_of(CheckFailed("No.", Cause.TYPE)), Visibility.HIDDEN, None, False),
        (meaning_of(CheckFailed("No.", Cause.NOTHING)), Visibility.HIDDEN, None, False),
        (meaning_of(Forbidden("No.", FRAME)), Visibility.HIDDEN, None, False),
        (meaning_of(CheckFailed("No.", Cause.LAW)), Visibility.PUBLIC, compares, False),
        (meaning_of(CheckFailed("No.", Cause.LAW)), Visibility.PUBLIC, failing, True),
        (meaning_of(CheckFailed("No.", Cause.LAW)), Visibility.HIDDEN, compares, True),
        (meaning_of(CheckFailed("No.", Cause.VALUES)), Visibility.PUBLIC, compares, True),
    ],
)
def test_a_hint_is_about_values(
    end: End, visibility: Visibility, function: object, kept: bool
) -> None:
    test = SuiteTest("a", "A", visibility, hint="Look at the axis.")
    assert fitting_hint(test, end, function).hint == ("Look at the axis." if kept else "")
