"""The messages of a judge: an assignment in; tests as they end, then a judgment or a fault out."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from grader.results import ExerciseResult, TestResult, Visibility


class Forgery(enum.Enum):
    """A source of replies that replaces a sandbox and computes nothing.

    A replay has the answers of the source's own sandboxes to the same tests, or only to the public ones, under
    another seed. The others have one answer for everything: an error that names every argument, the first
    tensor that they got, or a constant.
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
    """The seed of the tests' inputs, the suites to run, and the walls without which nothing is run.

    For mutants, whose marks do not count: `seconds` in the place of the exercise's own, and no test
    is run after the first one that fails. To `recognize` known mistakes, wrong answers of the course are run
    where the submission fails. With a `forgery` the sandbox of the source is not asked at all, and the forgery
    answers (`grader.judge.forgery`).
    """

    seed: int = 0
    suites: tuple[Visibility, ...] = tuple(Visibility)
    required_walls: tuple[str, ...] = ()
    seconds: float | None = None
    stop_at_first_failure: bool = False
    recognize: bool = False
    forgery: Forgery | None = None


class Assignment(msgspec.Struct, frozen=True, tag="assignment"):
    """Judge the source of one exercise file; `course` is the path of the manifest.

    With `report_tests`, the judge reports every test as it ends, for a student who waits. For a large batch, it
    should first `learn` which modules the course's solution imports late, unless they are known.
    """

    course: str
    exercise: str
    source: bytes
    options: GradingOptions
    report_tests: bool = False
    learn: bool = False


class CallOff(msgspec.Struct, frozen=True, tag="call_off"):
    """The caller no longer waits: end the current judgment with a fault. Ignored if there is none."""


class TestDone(msgspec.Struct, frozen=True, tag="test_done"):
    """One test has ended; more may follow."""

    __test__ = False

    result: TestResult


class Judgment(msgspec.Struct, frozen=True, tag="judgment"):
    """The exercise is judged; `walls` are those that were active around the code.

    `provoked` are tests in which the answer led to a fault of the suite, each with the fault.
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
