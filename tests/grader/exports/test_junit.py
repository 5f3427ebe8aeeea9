"""JUnit XML in a real reader: complete, valid with any message, and with every case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from grader.exports import FORMATS
from grader.results import Mark, Outcome

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged
from .schema import Schema

JENKINS = Schema(Path(__file__).with_name("junit-10.xsd"))
TESTS = (
    checked(),
    checked("b", Outcome.FAILED),
    checked("c", Outcome.ERROR),
    checked("d", Outcome.TIMEOUT),
    checked("e", Outcome.SKIPPED),
    checked("f", Outcome.NOT_IMPLEMENTED),
)


def test_counts_places_and_children() -> None:
    root = ElementTree.fromstring(rendered(FORMATS["junit"], entry(exercise(*TESTS, output="hi"))))
    assert root.tag == "testsuites"
    (suite,) = root
    for element in (root, suite):
        counts = [element.get(key) for key in ("tests", "failures", "errors")]
        assert counts == ["6", "2", "2"]
    assert suite.get("skipped") == "1"
    cases = suite.findall("testcase")
    assert {case.get("classname") for case in cases} == {"modules.glu"}
    children = [child.tag for case in cases for child in case]
    assert suite.get("file") == "modules/glu.py"
    assert children == ["failure", "error", "error", "skipped", "failure"]
    assert "modules/glu.py:7" in (cases[1][0].text or "")
    assert cases[1][0].get("message") == "It does not hold."
    assert "Hint: Look again." in (cases[1][0].text or "")
    assert suite.findtext("system-out") == "hi"


def test_practice_is_marked() -> None:
    exercises = exercise(checked()), exercise(checked(), name="gelu", practice=True)
    root = ElementTree.fromstring(rendered(FORMATS["junit"], entry(*exercises)))
    marked = [suite.find("properties/property[@name='practice']") is not None for suite in root]
    assert marked == [False, True]


def test_equal_titles_get_names_of_their_own() -> None:
    same = [checked(name, title="Same") for name in ("a", "a", "a", "b")]
    root = ElementTree.fromstring(rendered(FORMATS["junit"], entry(exercise(*same))))
    assert [case.get("name") for case in root.iter("testcase")] == [
        "Same",
        "Same (a)",
        "Same (a) #2",
        "Same (b)",
    ]


def test_an_unjudged_exercise_is_an_error_of_its_own() -> None:
    root = ElementTree.fromstring(
        rendered(FORMATS["junit"], entry(exercise(checked()), unjudged()))
    )
    error = root.find("testsuite[@name='modules.gelu']/testcase/error")
    assert error is not None
    assert error.get("type") == "unjudged"
    assert root.get("errors") == "1"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_legal_xml(text: str) -> None:
    root = ElementTree.fromstring(rendered(FORMATS["junit"], hostile_entry(text)))
    assert len(list(root.iter("testcase"))) == 3
    names = [case.get("name") for case in root.iter("testcase")]
    assert len(names) == len(set(names))
    assert all(names)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_junitparser_reads_it(text: str) -> None:
    suites = list(JUnitXml.fromstring(rendered(FORMATS["junit"], hostile_entry(text))))
    assert [(suite.tests, suite.failures, suite.errors) for suite in suites] == [
        (2, 1, 0),
        (1, 0, 1),
    ]
    results = [case.result for suite in suites for case in suite]
    assert [type(each[0]).__name__ for each in results if each] == ["Failure", "Error"]


def complaints(text: bytes) -> list[str]:
    return list(JENKINS.complaints(ElementTree.fromstring(text)))


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_jenkins_xunit_plugin_accepts_it(text: str) -> None:
    assert complaints(rendered(FORMATS["junit"], hostile_entry(text))) == []


def test_every_kind_of_test_is_valid() -> None:
    marked = exercise(*TESTS, name="marked", output="printed", mark=Mark(1.0, ("Late.",)))
    of = entry(exercise(*TESTS, output="hi"), unjudged(), marked, exercise(name="empty"))
    assert complaints(rendered(FORMATS["junit"], of)) == []


@pytest.mark.parametrize(
    ("valid", "broken", "told"),
    [
        (b"<testcase classname", b"<testcase line='7' classname", "testcase: no attribute line"),
        (b"<testsuites name", b"<testsuites skipped='1' name", "testsuites: no attribute skipped"),
        (b"<failure ", b"<odd/><failure ", "testcase: no odd in it"),
        (b' tests="6"', b"", "testsuite: tests is required"),
        (b'time="0.500"', b'time="half"', "testsuite: time='half'"),
    ],
)
def test_the_validator_finds_violations(valid: bytes, broken: bytes, told: str) -> None:
    text = rendered(FORMATS["junit"], entry(exercise(*TESTS)))
    assert valid in text
    assert told in complaints(text.replace(valid, broken))
