"""The messages of a judge: an assignment in; tests as they end, then a judgment or a fault out."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from grader.results import ExerciseResult, TestResult, Visibility


class Forgery(enum.Enum):
    """A source of replies that replaces a sandbox and computes nothing.

    A replay has the source's own replies to the same tests, or only to the public ones, under another seed. The
    others have one reply to everything: an error that names every argument, the first tensor of the request,
    or a constant.
    """

    REPLAY = "replay"
    PUBLIC = "public"
    ERROR = "error"
    ECHO = "echo"
    NONE = "none"
    TRUE = "true"
    ZERO = "zero"
    TEXT = "text"
    LIST = "list"
    DICT = "dict"


class GradingOptions(msgspec.Struct, frozen=True):
    """The seed of the tests' inputs, the suites to run, and the walls that running code requires.

    With `recognize`, the judge looks for known mistakes: it runs wrong answers of the course in failed tests.
    """

    seed: int = 0
    suites: tuple[Visibility, ...] = tuple(Visibility)
    required_walls: tuple[str, ...] = ()
    recognize: bool = False


class AuthorOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options for sources that nobody handed in: mutants, and forged answers.

    `seconds` replaces the exercise's own. A `forgery` replaces the source's sandbox (`grader.judge.forgery`).
    """

    seconds: float | None = None
    stop_at_first_failure: bool = False
    forgery: Forgery | None = None


AS_HANDED_IN = AuthorOptions()


class Assignment(msgspec.Struct, frozen=True, tag="assignment", omit_defaults=True):
    """Judge the source of one exercise file; `course` is the path of the manifest.

    With `report_tests`, the judge reports every test as it ends, for a student who waits. With `learn`, it
    first runs the course's solution to list late imports, which pays off for many sources.
    """

    course: str
    exercise: str
    source: bytes
    options: GradingOptions
    author: AuthorOptions = AS_HANDED_IN
    report_tests: bool = False
    learn: bool = False


class CallOff(msgspec.Struct, frozen=True, tag="call_off"):
    """The caller no longer waits: end the judgment with a fault. An idle judge ignores it."""


class TestDone(msgspec.Struct, frozen=True, tag="test_done"):
    """A test ended; more may follow."""

    __test__ = False

    result: TestResult


class Judgment(msgspec.Struct, frozen=True, tag="judgment"):
    """The result of an exercise, and the walls that were active around the code.

    `provoked` has the tests in which the source caused a fault of the suite, each with the fault.
    """

    result: ExerciseResult
    walls: tuple[str, ...]
    provoked: tuple[tuple[str, str], ...] = ()


class JudgeFault(msgspec.Struct, frozen=True, tag="fault"):
    """A fault of the grader; the judge is ready for the next assignment.

    `kind` names the class of the error, since the caller treats each differently.
    """

    message: str
    kind: Literal["JudgeError", "SandboxError", "IsolationError"] = "JudgeError"
