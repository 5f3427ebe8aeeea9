"""The course's own solution: cached results, blame for its failures, and calls in which it stands in."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import load_course
from grader.course.suite import SuiteTest
from grader.errors import GraderError, JudgeError
from grader.judge import solution as module
from grader.judge.assignment import GradingOptions
from grader.judge.checks.promise import Case, Outcomes
from grader.judge.outcomes import CheckFailed, StudentError, TimedOut, student_error
from grader.judge.session import BegunTest
from grader.judge.solution import Solution, Solved
from grader.results import Outcome, Visibility
from grader.sandbox.wire.messages import Backward, Call, Returned, StandInBackward, StandInCall
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import Opaque, ProtocolError

COURSE = load_course(Path(__file__).parents[1] / "courses" / "plain")
EXERCISE = COURSE.exercise("greeting")
# Looked up here because its package has a function of the same name.
PROMISE = sys.modules[Case.__module__]
TEST, PROBE = BegunTest(seed=1, draw_seed=2), Path("tests/hidden/text/test_greeting.py")


class FakeSession:
    """A session whose sandbox answers with `reply`."""

    def __init__(self) -> None:
        self.reply: Any = Returned(3)
        self.asked: list[Any] = []
        self.raised: list[StudentError] = []
        self.test, self.run_seed = BegunTest(), 0
        self.solution: Any = None
        self.loaded = self.closed = 0

    def begin_test(self, test: BegunTest) -> None:
        self.test = test

    def load(self) -> None:
        self.loaded += 1

    def close(self) -> None:
        self.closed += 1

    def is_out_of_time(self, share: str) -> bool:
        return False

    def ask(self, request: Any, packing: Packing) -> tuple[Any, Packing]:
        self.asked.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply, packing


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def solution(monkeypatch: pytest.MonkeyPatch, session: FakeSession) -> Solution:
    monkeypatch.setattr(module, "session_of", lambda *given: session)
    source = COURSE.solution_source(EXERCISE)
    assert source is not None
    return Solution(COURSE, EXERCISE, source, GradingOptions(), None, Solved())  # type: ignore[arg-type]


def raised(**fields: Any) -> StudentError:
    error = student_error("ValueError", ("ValueError",), "no\nTraceback", ())
    for name, value in fields.items():
        setattr(error, name, value)
    return error


# --- cached results -------------------------------------------------------------------------------


def outcomes(value: Any = 1) -> Outcomes:
    return Outcomes((Case("the value", value, {}),), ())


def test_the_newest_results_are_kept_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = Solved()
    monkeypatch.setattr(module, "_MAX_BYTES", 200)
    for number in range(4):
        # A number counts 64 bytes.
        solved.keep(("digest", number, "test"), outcomes([{"a": number}]))
    kept = [solved.get(("digest", number, "test")) is not None for number in range(4)]
    assert kept == [False, True, True, True]
    solved.keep(("digest", 2, "longer"), outcomes([1, 2]))
    assert solved.get(("digest", 2, "test")) is None
    assert solved.get(("digest", 3, "test")) is not None
    solved.keep(("digest", 9, "large"), outcomes([1] * 100))
    assert solved.get(("digest", 9, "large")) is not None, "the newest is always kept"
    assert solved.get(("digest", 3, "test")) is None


def test_a_test_runs_once_for_each_seed(
    solution: Solution, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, int]] = []

    def run(body: Callable[..., Any], code: Any, seed: int) -> Outcomes:
        ran.append((body.__name__, seed))
        random.random()
        return outcomes(random.random())

    monkeypatch.setattr(PROMISE, "outcomes_of", run)

    def first(code: Any, draw: Any) -> Any: ...
    def second(code: Any, draw: Any) -> Any: ...

    random.seed(7)
    state = random.getstate()
    once = solution.outcomes(TEST, PROBE, first)
    assert random.getstate() == state, "the test goes on drawing for the student's answer"
    assert isinstance(once, Outcomes)
    assert solution.outcomes(TEST, PROBE, first) is once
    solution.outcomes(TEST, PROBE, second)
    solution.outcomes(BegunTest(draw_seed=3), PROBE, first)
    assert ran == [("first", 2), ("second", 2), ("first", 3)]
    assert session.test == BegunTest(draw_seed=3)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CheckFailed("It is 3.25."), "first: the course's own solution does not pass it"),
        (raised(), "first: the course's own solution: ValueError: no"),
        (
            raised(probe=("probe_greeting", 4)),
            "first: probe_greeting.py, line 4: ValueError: no, with the course's own solution, too",
        ),
    ],
)
def test_a_failing_solution_is_a_fault_reported_without_values(
    solution: Solution,
    session: FakeSession,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    def run(*given: Any) -> Outcomes:
        raise error

    def first(code: Any, draw: Any) -> Any: ...

    monkeypatch.setattr(PROMISE, "outcomes_of", run)
    with pytest.raises(JudgeError) as caught:
        solution.outcomes(TEST, PROBE, first)
    assert str(caught.value) == message
    assert session.closed == 1, "the next test has a new sandbox"
    error = GraderError("The fork server ended.")
    with pytest.raises(GraderError, match="The fork server ended"):
        solution.outcomes(TEST, PROBE, first)


# --- blame for a failure --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outcome", "fault"),
    [
        (None, Outcome.PASSED, ""),
        (CheckFailed("No."), Outcome.FAILED, "the course's own solution does not pass it"),
        (raised(), Outcome.ERROR, "the course's own solution: ValueError: no"),
        (JudgeError("misuse"), Outcome.ERROR, "misuse"),
    ],
)
def test_a_test_that_the_solution_fails_is_at_fault(
    solution: Solution,
    session: FakeSession,
    error: Exception | None,
    outcome: Outcome,
    fault: str,
) -> None:
    calls: list[int] = []

    def function(student: Any) -> None:
        calls.append(1)
        if error is not None:
            raise error

    test = SuiteTest("test_a", "A", Visibility.HIDDEN, requires=("test_before",))
    end = solution.end(test, PROBE, function)
    assert end.outcome is outcome
    assert end.fault.endswith(fault) and bool(end.fault) == bool(fault)
    assert solution.end(test, PROBE, function) is end
    assert (len(calls), session.closed, session.solution) == (1, 1, solution)


# --- in place of a student's function -------------------------------------------------------------


def test_a_call_is_answered_with_the_value_of_the_solution(
    solution: Solution, session: FakeSession
) -> None:
    solution.begin_to_stand_in()
    solution.begin_to_stand_in()
    session.reply = Returned([3, "a"], graph=5, differentiable=(0,))
    answer, _ = solution.stand_in(TEST, StandInCall("base", [1], {"y": 2}, wants=(0,)))
    assert (answer.graph, answer.differentiable, answer.raised) == (5, (0,), None)
    assert answer.value == Packing().pack([3, "a"])
    (request,) = session.asked
    assert isinstance(request, Call)
    assert (request.function, request.wants) == ("base", (0,))
    assert solution.answered == {True}
    assert (session.test, session.loaded) == (TEST, 1)


def test_gradients_are_requested_by_graph(solution: Solution, session: FakeSession) -> None:
    solution.stand_in(TEST, StandInBackward(5, [1.0]))
    (request,) = session.asked
    assert request == Backward(5, Packing().pack([1.0]), False)


def test_an_exception_of_the_solution_is_passed_on(
    solution: Solution, session: FakeSession
) -> None:
    session.reply = raised()
    answer, _ = solution.stand_in(TEST, StandInCall("base", [], {}))
    assert answer.raised == ("ValueError", "no\nTraceback")
    assert solution.answered == {True}


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (StandInCall("base", [[Opaque("a model")]], {}), Returned(3)),
        (StandInCall("base", [], {"y": {"a": Opaque("a file")}}), Returned(3)),
        (StandInCall("base", [], {}), Returned([Opaque("a model")])),
        (StandInCall("base", [], {}), Returned(3, mutated=("x",))),
    ],
    ids=["argument", "keyword", "result", "changed argument"],
)
def test_a_value_that_cannot_be_sent_gives_a_type_error(
    solution: Solution, session: FakeSession, call: StandInCall, reply: Returned
) -> None:
    session.reply = reply
    answer, _ = solution.stand_in(TEST, call)
    assert answer.raised is not None and answer.raised[0] == "TypeError"
    assert solution.answered == {False}
    solution.begin_to_stand_in()
    assert solution.answered == set()


def test_a_call_that_takes_too_long_ends_the_test(solution: Solution, session: FakeSession) -> None:
    session.reply = TimedOut("No answer.")
    with pytest.raises(ProtocolError, match="the solution gave no answer: No answer"):
        solution.stand_in(TEST, StandInCall("base", [], {}))
    solution.close()
    assert session.closed == 1
    solution.close()
    assert session.closed == 1
