"""The result of a grading: the typed structs that every export, report and command reads, and their schema."""

from __future__ import annotations

import enum
from string import Formatter
from typing import Any

import msgspec

SCHEMA_VERSION = 2
# What students read beside an exercise that full marks do not need.
EXTRA_CREDIT = "extra credit"


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
    """What the message of a test that did not pass says about the cause."""

    # An exception, a crash, what is not allowed, a part to be written: the outcome says it.
    OTHER = "other"
    # A sentence names it: that of the test's own matter, or that of a law that holds everywhere.
    MISTAKE = "mistake"
    LAW = "law"
    TYPE = "type"
    # None, where something else is expected: what uses it raises.
    NOTHING = "nothing"
    SHAPE = "shape"
    VALUES = "values"
    GRADIENT = "gradient"
    # The code ended it with a `raise` of its own: another mistake may have led there.
    RAISE = "raise"
    # Tests of the same share took the time of this one.
    NO_TIME = "no_time"


class Status(enum.Enum):
    """How one exercise ended."""

    PASSED = "passed"
    PARTIAL = "partial"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"
    ERROR = "error"
    TIMEOUT = "timeout"
    # A fault of the grader: no verdict. It is no loss either: a reader of the score has to see it first.
    UNJUDGED = "unjudged"


class Disclosure(enum.Enum):
    """What a student may read of a hidden test, each more than the one before."""

    NOTHING = "nothing"
    TITLE = "title"
    MISTAKE = "mistake"
    EVERYTHING = "everything"


class Place(msgspec.Struct, frozen=True):
    """Where in the submission to look: `line` counts from 1."""

    file: str
    line: int
    function: str


class Finding(msgspec.Struct, frozen=True):
    """What a check found, as data: a sentence, values by name, and a cause.

    The `sentence` says the most, and the `details` follow it. They are words of the author's or the grader's,
    in which a name in braces stands for one of the `values` of the run; any other brace is doubled. Where
    values may not be shown, the lines of `plain` are said instead, if there are any. `grader.findings` composes
    messages.
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
    """One test of a suite: its name, what it says to the student, and what it earned.

    `printed` is what the student's code printed in it, bounded; of a hidden test it is for staff. One that
    was `refused` ended where the code used what is not allowed, before it came to what the title says.
    The `message` is what its reader may know of the `finding`. One that did not pass has its `subject`, the
    function or class that it is about, and which others that do not pass this one `uses`; it `carries` the
    points of that many tests that hold and do not count yet. Tests in which one known mistake does the same
    have the same `mistake`, which counts from 1. Functions of the solution `stood_in` for the student's
    own, which other tests found wrong.
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
        """What the finding says about the cause."""
        return Cause.OTHER if self.finding is None else self.finding.cause


class Mark(msgspec.Struct, frozen=True):
    """What a policy and corrections made of the points of an exercise: `judged` are those of the judge.

    The reasons are sentences for the student, as are the lines of the comment. The attempt counts from 1, and
    its file was handed in at `submitted_at`. By the policy the exercise was `due`, without an extension, and so
    many points were `lost` by lateness. Times are ISO 8601 in UTC, empty where they are not known.
    """

    judged: float
    reasons: tuple[str, ...] = ()
    comment: str = ""
    attempt: int = 0
    submitted_at: str = ""
    due: str = ""
    lost: float = 0.0


class StudentRequest(msgspec.Struct, frozen=True):
    """A student's request to look at an exercise again, and the answer, empty while there is none.

    Times are ISO 8601 in UTC.
    """

    message: str
    asked_at: str
    answer: str = ""
    answered_at: str = ""


class ExerciseResult(msgspec.Struct, frozen=True):
    """One exercise of one submission; `output` is what the student's code printed, bounded.

    One that needed no judge is `settled`: missing, unreadable, not Python, or still the stub. `left_out`
    says which tests count for nothing here, for want of a package. In a gradebook `score` is what counts;
    where that is not what the judge gave, `mark` says what is, and why. While `held` names odd code in the
    file, the points are provisional: a person looks first. `requests` are the student's own, oldest first.
    Points for `extra_credit` are added to the score, and full marks do not need them. The `note` is a sentence
    about the file: that it has another name, what was handed in besides, or that it is for a newer Python.
    One that is unjudged and `waiting` has no verdict yet, for no fault of anybody's.
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

    @property
    def provisional(self) -> str:
        """A sentence for the student while there are points and they are held, else empty."""
        if not self.held or not self.score:
            return ""
        return f"Provisional until a person has looked at the file: {'; '.join(self.held)}."

    @property
    def attempted(self) -> bool:
        """Whether it is an attempt: a file with something of the student's own, also if it is not valid Python.

        A stub, an empty file and one that is missing or cannot be read are no attempt, and neither is code of
        which everything called raised NotImplementedError. Every count of attempts asks this.
        """
        if self.status is Status.ERROR and self.settled:
            # What is not valid Python has the line where it is not; where there is nothing to read, no line is.
            return any(test.place is not None for test in self.tests)
        return self.status is not Status.NOT_ATTEMPTED

    @property
    def untouched(self) -> bool:
        """Whether it is still the stub; what was judged and raised NotImplementedError everywhere is not."""
        return self.settled and self.status is Status.NOT_ATTEMPTED


class CourseInfo(msgspec.Struct, frozen=True):
    """The course that judged; the digest covers its manifest and suites.

    `disclose` is what students may read of hidden tests, unless a command asks for another level.
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


class StudentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A student: `id` is the key of a class, `ids` are the same person's names in other systems.

    The keys of `ids` are those of the formats: `canvas_id`, `sis_user_id`, `sis_login_id`,
    `section`, `team`, `moodle_identifier`, `username`, `gradescope_sid`.
    """

    id: str
    name: str = ""
    email: str = ""
    ids: dict[str, str] = {}

    @property
    def other_ids(self) -> dict[str, str]:
        """The `ids` that stand for this person alone: no section and no team."""
        return {kind: id_ for kind, id_ in self.ids.items() if kind not in ("section", "team")}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of one student: what exports and reports are written from.

    The newest attempt that counts for an exercise is shown: `attempt` counts from 1 in the order of being
    found, and is 0 for a student who handed in nothing; `submitted_at` is ISO 8601 in UTC, empty where it
    is not known; `origin` is where in the download it was found. People read times in the class's
    `timezone`, or in UTC where it has none.
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
    """JSON of a result, or of an exercise of one, of which a grader with schema version 1 may be the writer.

    There a test had a `cause`, and in `named` what was said without values. What was said with them stays one
    sentence.
    """
    # In a string the quotes would be escaped.
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
    """The result as indented UTF-8 JSON, as `grade run --json` writes it."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def schema_json() -> bytes:
    """The schema as indented UTF-8 JSON, as `grade schema` writes it."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2) + b"\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a result."""
    # Through JSON: a default that is a tuple is an array there.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Result)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Lab Bench result, schema version {SCHEMA_VERSION}",
        **schema,
    }
