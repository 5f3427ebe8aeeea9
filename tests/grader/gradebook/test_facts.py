"""The facts of a gradebook as JSON: new fields have defaults, and durations stay as people write them."""

from __future__ import annotations

import msgspec
import pytest

from grader.gradebook.facts import AssignmentPart, Facts, MarkDraft, Remarks, decoded, encoded
from grader.gradebook.policy import Late, Rules
from grader.gradebook.times import read_span
from grader.results import CourseInfo
from tests.grader.builders import exercise, result


def test_facts_survive_encoding() -> None:
    facts = Facts(
        course=CourseInfo("plain", "1", "c0ffee"),
        exercises=("glu",),
        assignments={"week1": AssignmentPart("Week 1", ("glu",), "2026-10-12T00:00:00Z", True)},
        blank=result(exercise()),
        mark_drafts=(MarkDraft("glu", ("ada",), "c0ffee", Remarks(("k",), ("so",))),),
        totals={"ada": 7.25},
        revision=3,
    )
    assert decoded(encoded(facts)) == facts


def test_defaults_are_not_written() -> None:
    assert encoded(Facts()) == "{}"
    assert decoded("{}") == Facts()
    assert decoded('{"of_a_later_grader": 1, "revision": 2}') == Facts(revision=2)


def test_an_earlier_graders_list_of_exercises_is_read() -> None:
    entry = {"kind": "unreadable", "student": "ada", "exercise": "glu, gelu", "what": "a list, odd"}
    text = msgspec.json.encode({"attention": [entry], "revision": 2}).decode()
    (found,) = decoded(text).attention
    assert (found.exercises, found.what) == (("glu", "gelu"), "a list, odd")
    assert decoded(encoded(decoded(text))) == decoded(text)


def test_drafts_of_marks_by_an_earlier_grader_are_read() -> None:
    remarks = {"keys": ["d"], "comments": ["Name it."]}
    names = ["glu abc", "glu ada abc", "glu ada of the list abc"]
    text = msgspec.json.encode({"drafts": dict.fromkeys(names, remarks), "revision": 2}).decode()
    facts = decoded(text)
    assert facts.mark_drafts == tuple(
        MarkDraft("glu", students, "abc", Remarks(("d",), ("Name it.",)))
        for students in ((), ("ada",), ("ada of the list",))
    )
    assert facts.revision == 2 and decoded(encoded(facts)) == facts


def test_a_duration_is_written_as_people_write_it() -> None:
    late = Late(grace=read_span("30 minutes"), closes=read_span("2 days"))
    facts = Facts(policy=Rules(late=late, cool_down=read_span("12 hours")))
    text = encoded(facts)
    assert '"cool_down":"12 hours"' in text and '"grace":"30 minutes"' in text
    assert decoded(text) == facts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"revision": "x"}',
        '{"totals": {"ada": "x"}}',
        '{"attention": [{"exercise": "glu"}]}',
        '{"attention": {"exercise": "glu"}}',
        '{"drafts": {"glu ada abc": 1}}',
        '{"drafts": []}',
    ],
)
def test_damaged_facts_are_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded(text)
