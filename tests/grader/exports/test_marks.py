"""Points that a policy or a person changed: every format shows the totals that count and the reasons."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.exports import FORMATS
from grader.exports.disclosure import disclosed
from grader.exports.files import StudentFormat
from grader.judge.scoring import shares_that_count
from grader.results import Disclosure, Entry, ExerciseResult, Mark, Outcome, Status, Visibility

from ..builders import checked, entry, exercise, rendered, written
from .test_classroom import annotation, reporter_reads, table
from .test_disclosure import ENVIRONMENT

LATE = "Handed in 1 day late: 20 per cent are taken off."
COMMENT = "Ask me about the gate."
PASSED = checked("a", weight=3)
FAILED = checked("b", Outcome.FAILED, 2)


def marked(
    score: float, *tests: Any, judged: float | None = None, **changes: Any
) -> ExerciseResult:
    """Return a marked exercise worth 10 points. `score` counts instead of the points from its tests."""
    plain = exercise(*(tests or (PASSED, FAILED)), worth=10)
    gave = plain.score if judged is None else judged
    mark = Mark(gave, (LATE,), COMMENT, attempt=2)
    return exercise(*plain.tests, worth=10, score=score, mark=mark, **changes)


CASES = {
    "late": marked(4.8),
    "late, all passed": marked(8, PASSED),
    "nothing left": marked(0),
    "given more": marked(9.5),
    "given all": marked(10),
    "given, none passed": marked(5, FAILED),
    "only explained": marked(6),
    "fractions": marked(3.33),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def of(request: pytest.FixtureRequest) -> Entry:
    other = exercise(checked(), checked("z", Outcome.FAILED), name="gelu")
    return entry(request.param, other)


def read(name: str, of: Entry) -> Any:
    return json.loads(rendered(FORMATS[name], of, environment=ENVIRONMENT))


def hundredths(value: float) -> int:
    return round(value * 100)


def test_gradescope(of: Entry) -> None:
    shown = read("gradescope", of)
    assert shown["score"] == of.result.score
    assert sum(hundredths(t["score"]) for t in shown["tests"]) == hundredths(of.result.score)
    assert sum(hundredths(t["max_score"]) for t in shown["tests"]) == 2500
    (line,) = [t for t in shown["tests"] if LATE in t["output"]]
    assert COMMENT in line["output"]
    assert line["visibility"] == "visible"
    assert LATE in shown["output"]


def test_prairielearn(of: Entry) -> None:
    shown = read("prairielearn", of)
    assert shown["score"] == pytest.approx(of.result.score / 25)
    assert sum(hundredths(t["points"]) for t in shown["tests"]) == hundredths(of.result.score)
    assert sum(hundredths(t["max_points"]) for t in shown["tests"]) == 2500
    assert LATE in shown["message"]


def test_classroom50(of: Entry) -> None:
    shown = read("classroom50", of)
    assert (shown["score"], shown["max-score"]) == (hundredths(of.result.score), 2500)
    assert all(0 <= t["score"] <= t["max-score"] for t in shown["tests"])
    assert any(LATE in t["output"] and COMMENT in t["output"] for t in shown["tests"])


def test_classroom(of: Entry) -> None:
    runners = reporter_reads(of)
    assert table(runners) == annotation(runners) == (hundredths(of.result.score), 2500)
    assert LATE in str(runners)


def test_junit(of: Entry) -> None:
    suite = ElementTree.fromstring(rendered(FORMATS["junit"], of))[0]
    points = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert points == {"score": f"{of.result.exercises[0].score:g}", "max_score": "10"}
    assert LATE in (suite.findtext("system-out") or "")
    assert len(suite.findall("testcase")) == len(of.result.exercises[0].tests)


@pytest.mark.parametrize("name", ["markdown", "feedback", "mailmerge"])
def test_pages_and_mails(of: Entry, name: str) -> None:
    chosen = FORMATS[name]
    if isinstance(chosen, StudentFormat):
        text = rendered(chosen, of).decode()
    else:
        text, _ = written(chosen, [of])
    text = re.sub(r"&#(\d+);", lambda sign: chr(int(sign[1])), text)
    assert LATE in text
    assert COMMENT in text
    assert f"{of.result.score:g} of 25 points" in text


tests = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 26.0]), st.booleans()), min_size=1, max_size=6
)


@given(tests, st.integers(0, 1000))
def test_shares_that_count_add_up(weighted: list[tuple[float, bool]], score: int) -> None:
    made = [
        checked(f"t{n}", Outcome.PASSED if passed else Outcome.FAILED, weight)
        for n, (weight, passed) in enumerate(weighted)
    ]
    shares, added = shares_that_count(marked(score / 100, *made))
    everything = [*shares, added]
    assert sum(share.score for share in everything) == score
    assert sum(share.max_score for share in everything) == 1000
    assert all(0 <= share.score <= share.max_score for share in everything)


# --- students who handed in nothing ---------------------------------------------------------------

MISSING = "modules/glu.py is missing: hand it in under this name."
NOTHING = exercise(
    checked("a", Outcome.ERROR, message=MISSING),
    message=MISSING,
    status=Status.ERROR,
    settled=True,
)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_accepts_a_student_who_handed_in_nothing(name: str) -> None:
    of = entry(
        NOTHING, attempt=0, email="ada@uni.example", ids={"moodle_identifier": "Participant 5"}
    )
    chosen = FORMATS[name]
    if isinstance(chosen, StudentFormat):
        assert rendered(chosen, of, environment=ENVIRONMENT)
        return
    text, notes = written(chosen, [of]) if name != "feedback_zip" else ("ada", [])
    assert "ada" in text
    assert notes in ([], [notes[0]] if name == "canvas" else [])


def test_feedback_says_that_nothing_was_handed_in() -> None:
    assert (
        "Nothing was handed in."
        in rendered(FORMATS["feedback"], entry(NOTHING, attempt=0)).decode()
    )


@pytest.mark.parametrize("name", [k for k, v in FORMATS.items() if isinstance(v, StudentFormat)])
def test_at_level_nothing_no_correction_names_a_hidden_test(name: str) -> None:
    test = checked("secret", Outcome.FAILED, visibility=Visibility.HIDDEN)
    reason = f"“{test.title}” is given to all: unclear"
    given = exercise(checked("a"), test, score=10, worth=10, mark=Mark(5, (reason,)))
    told = disclosed(entry(given), Disclosure.NOTHING)
    out = rendered(FORMATS[name], told, environment=ENVIRONMENT).decode("utf-8", "replace")
    assert test.title not in out
    assert "A further test is given to all" in out or "unclear" not in out
