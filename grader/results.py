"""The result of a grading: typed structs that every export, report and command reads, and their schema."""

from __future__ import annotations

import enum
from string import Formatter
from typing import Any

import msgspec

SCHEMA_VERSION = 2
# Shown beside an exercise that full marks do not need, and beside one that counts in no total.
EXTRA_CREDIT, PRACTICE = "extra credit", "practice"


class Visibility(enum.Enum):
    """Whether students may see the suite of a test."""

    PUBLIC = "public"
    HIDDEN = "hidden"


class Outcome(enum.Enum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_IMPLEMENTED = "not_implemented"
    ERROR = "error"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


class Cause(enum.Enum):
    """The kind of problem that the message of a failed test is about."""

    # An exception, a crash, a forbidden function, an unwritten part: the outcome says it.
    OTHER = "other"
    # A sentence names the mistake: the test's own, or that of a law for all exercises.
    MISTAKE = "mistake"
    LAW = "law"
    TYPE = "type"
    # None instead of a value, so that code using it raises.
    NOTHING = "nothing"
    SHAPE = "shape"
    VALUES = "values"
    GRADIENT = "gradient"
    # The code reached a `raise` of its own, to which another mistake may have led.
    RAISE = "raise"
    # Earlier tests of the same share took the time of this one.
    NO_TIME = "no_time"


class Status(enum.Enum):
    """How one exercise ended."""

    PASSED = "passed"
    PARTIAL = "partial"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"
    ERROR = "error"
    TIMEOUT = "timeout"
    # A fault of the grader: there is no verdict. This is not a loss, so readers of the score must check for it
    # first.
    UNJUDGED = "unjudged"


class Disclosure(enum.Enum):
    """How much a student may read of a hidden test, in ascending order."""

    NOTHING = "nothing"
    TITLE = "title"
    MISTAKE = "mistake"
    EVERYTHING = "everything"


class Place(msgspec.Struct, frozen=True):
    """A place in the submission; `line` counts from 1."""

    file: str
    line: int
    function: str


class Finding(msgspec.Struct, frozen=True):
    """The problem found by a check, as data: a sentence, values by name, and a cause.

    The `sentence` is the most informative, and the `details` follow it. Their words are the author's or the
    grader's; a name in braces is replaced by one of the `values` of the run, and other braces are doubled. If
    values may not be shown, the lines of `plain` are shown instead, if there are any. `grader.findings`
    composes messages.
    """

    sentence: str
    details: tuple[str, ...] = ()
    values: dict[str, str] = {}
    cause: Cause = Cause.OTHER
    plain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a sentence with a lone brace, as in a file that a person edited; raises ValueError."""
        for words in (self.sentence, *self.details):
            for _ in Formatter().parse(words):
                pass


class TestResult(msgspec.Struct, frozen=True):
    """One test of a suite: its name, its message for the student, and its points.

    `printed` is the printed output in this test, bounded; of a hidden test it is for staff. A `refused` test
    ended early because the code used something forbidden. The `message` is as much of the `finding` as its
    reader may know. A test that did not pass has its `subject`, a function or class, and the others that it
    `uses` and that do not pass either. It `carries` the points of this many passed tests, which do not count
    yet. All tests that one known mistake explains have the same `mistake` number, from 1. Functions of the
    solution `stood_in` for the student's own, which other tests found wrong.
    """

    # pytest collects classes by this prefix.
    __test__ = False

    name: str
    title: str
    visibility: Visibility
    outcome: Outcome
    score: float
    max_score: float
    duration_seconds: float
    message: str
    hint: str
    place: Place | None = None
    printed: str = ""
    refused: bool = False
    finding: Finding | None = None
    subject: str = ""
    uses: tuple[str, ...] = ()
    carries: int = 0
    mistake: int = 0
    stood_in: tuple[str, ...] = ()

    @property
    def cause(self) -> Cause:
        """The cause of the finding."""
        return Cause.OTHER if self.finding is None else self.finding.cause


class Mark(msgspec.Struct, frozen=True):
    """The effect of a policy and corrections on the points of an exercise; `judged` are the judge's points.

    The reasons are sentences for the student, as are the lines of the comment. The attempt counts from 1, and
    its file was handed in at `submitted_at`. The exercise was `due` by the policy, without an extension, and
    lateness cost the `lost` points. Times are ISO 8601 in UTC, empty if they are not known.
    """

    judged: float
    reasons: tuple[str, ...] = ()
    comment: str = ""
    attempt: int = 0
    submitted_at: str = ""
    due: str = ""
    lost: float = 0.0


class StudentRequest(msgspec.Struct, frozen=True):
    """A student's regrade request, and the answer, empty while there is none.

    Times are ISO 8601 in UTC.
    """

    message: str
    asked_at: str
    answer: str = ""
    answered_at: str = ""


# In reasons to hold points for an action that was reported while the code ran, perhaps in a hidden test.
AS_IT_RUNS = "as it runs"


class ExerciseResult(msgspec.Struct, frozen=True):
    """One exercise of one submission; `output` is the printed output of the student's code, bounded.

    A `settled` exercise needed no judge: it is missing, unreadable, not Python, or still the stub. `left_out`
    lists tests that do not count here because a package is missing. In a gradebook, `score` is the points that
    count; if they differ from the judge's, `mark` explains them. While `held` names odd code in the file, the
    points are provisional until a person has looked. `requests` are the student's own, oldest first. Points for
    `extra_credit` are added to the score, and full marks do not need them. Points for `practice`, which belongs
    to no assignment of a term, are in no total. The `note` is a sentence about the file: that it has another
    name, that others were also handed in, or that it is for a newer Python. An unjudged exercise that is
    `waiting` has no verdict yet, without any fault.
    """

    name: str
    title: str
    chapter: str
    status: Status
    score: float
    max_score: float
    duration_seconds: float
    message: str
    tests: tuple[TestResult, ...]
    output: str
    settled: bool = False
    left_out: str = ""
    mark: Mark | None = None
    held: tuple[str, ...] = ()
    requests: tuple[StudentRequest, ...] = ()
    extra_credit: bool = False
    note: str = ""
    waiting: bool = False
    practice: bool = False

    @property
    def aside(self) -> str:
        """The words beside the points that say how they count, if they are not needed for full marks."""
        return EXTRA_CREDIT if self.extra_credit else PRACTICE if self.practice else ""

    @property
    def provisional(self) -> str:
        """A sentence for the student if there are held points, else empty."""
        if not self.held or not self.score:
            return ""
        return f"Provisional until a person has looked at the file: {'; '.join(self.held)}."

    @property
    def attempted(self) -> bool:
        """Whether it is an attempt: a file with something of the student's own, even if it is not valid Python.

        A stub, an empty file, and a missing or unreadable one are not attempts, and neither is code in which
        everything called raised NotImplementedError. Every count of attempts uses this.
        """
        if self.status is Status.ERROR and self.settled:
            # Invalid Python has the line of its mistake; an unreadable file has no line.
            return any(test.place is not None for test in self.tests)
        return self.status is not Status.NOT_ATTEMPTED

    @property
    def untouched(self) -> bool:
        """Whether it is still the stub; judged code that raised NotImplementedError everywhere is not."""
        return self.settled and self.status is Status.NOT_ATTEMPTED


class CourseInfo(msgspec.Struct, frozen=True):
    """The course that judged; the digest covers its manifest and suites.

    `disclose` is how much students read of hidden tests, unless a command sets another level.
    """

    name: str
    version: str
    digest: str
    disclose: Disclosure = Disclosure.MISTAKE


class SubmissionInfo(msgspec.Struct, frozen=True):
    """The submission that was judged; the digest covers the exercise files."""

    name: str
    digest: str


class Environment(msgspec.Struct, frozen=True):
    """The machine and versions of a judgment; `isolation` names the walls of every sandbox."""

    grader: str
    python: str
    torch: str
    platform: str
    isolation: tuple[str, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A graded submission: `score` of `max_score` points over its exercises."""

    schema_version: int = SCHEMA_VERSION
    course: CourseInfo
    submission: SubmissionInfo
    score: float
    max_score: float
    seed: int
    exercises: tuple[ExerciseResult, ...]
    started_at: str
    duration_seconds: float
    environment: Environment


# Keys of `StudentInfo.ids` that are no ids: other students share the value.
SECTION, TEAM = "section", "team"
GROUPS = (SECTION, TEAM)


class StudentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A student: `id` is the key of a class, `ids` are the same person's names in other systems.

    The keys of `ids` are those of the formats: `canvas_id`, `sis_user_id`, `sis_login_id`, `section`, `team`,
    `moodle_identifier`, `username`, `gradescope_sid`.
    """

    id: str
    name: str = ""
    email: str = ""
    ids: dict[str, str] = {}

    @property
    def other_ids(self) -> dict[str, str]:
        """The `ids` that belong only to this person: no section and no team."""
        return {kind: id_ for kind, id_ in self.ids.items() if kind not in GROUPS}

    @property
    def section(self) -> str:
        """The cell of sections in the class list, which may name several; empty without one."""
        return self.ids.get(SECTION, "")

    @property
    def team(self) -> str:
        """The team, empty without one."""
        return self.ids.get(TEAM, "")

    def cell(self, column: str) -> str:
        """Return the student's cell in a column of the class list, empty if there is none."""
        own = {"id": self.id, "email": self.email, "name": self.name}
        return own.get(column, self.ids.get(column, ""))


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one student that counts; exports and reports are written from these.

    For each exercise, it has the newest attempt that counts. `attempt` counts from 1 in the order in which
    attempts were found, and is 0 for a student who handed in nothing; `submitted_at` is ISO 8601 in UTC, empty
    if it is not known; `late` says whether a file of this attempt came late; `origin` is its place in the
    download. People read times in the class's `timezone`, or in UTC if it has none.
    """

    student: StudentInfo
    attempt: int = 1
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    timezone: str = ""
    result: Result

    @property
    def absent(self) -> bool:
        """Whether the student handed in nothing at all."""
        return self.attempt == 0


def in_version_2(raw: bytes) -> bytes:
    """Return JSON of a result or an exercise in schema version 2; it may have been written in version 1.

    There a test had a `cause`, and in `named` the text without values. The text with values becomes one
    sentence.
    """
    # In a string, the quotes would be escaped.
    if b'"named":' not in raw:
        return raw
    result = msgspec.json.decode(raw)
    for test in (test for each in result.get("exercises", [result]) for test in each["tests"]):
        sentence = test["message"].replace("{", "{{").replace("}", "}}")
        plain = [named] if (named := test.pop("named")) else []
        cause = test.pop("cause", Cause.OTHER.value)
        test["finding"] = (
            {"sentence": sentence, "cause": cause, "plain": plain} if sentence else None
        )
    if "schema_version" in result:
        result["schema_version"] = SCHEMA_VERSION
    return msgspec.json.encode(result)


def to_json(result: Result) -> bytes:
    """Return the result as indented UTF-8 JSON, as `grade run --json` writes it."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def schema_json() -> bytes:
    """Return the schema as indented UTF-8 JSON, as `grade schema` writes it."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2) + b"\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a result."""
    # Through JSON, so that a default that is a tuple becomes an array.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Result)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Lab Bench result, schema version {SCHEMA_VERSION}",
        **schema,
    }
