"""JUnit XML, as most CI systems show it: a suite for each exercise, a case for each test."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree  # it writes here, and reads nothing

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import one_line, shortened
from grader.exports.verdicts import explanation, is_judged, not_judged
from grader.findings import first_line
from grader.results import Entry, ExerciseResult, Outcome, TestResult
from grader.student.blocks import remarks
from grader.text import number

_LONGEST_TEXT = 10_000
# Characters that XML 1.0 cannot express, not even as an entity.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHILD = {
    Outcome.FAILED: "failure",
    Outcome.NOT_IMPLEMENTED: "failure",
    Outcome.ERROR: "error",
    Outcome.TIMEOUT: "error",
    Outcome.SKIPPED: "skipped",
}


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Return the result of one student as XML."""
    result = entry.result
    root = Tree.Element("testsuites", name=_legal(one_line(result.course.name)))
    suites = [_suite(exercise) for exercise in result.exercises]
    root.extend(suites)
    # The schema of Jenkins' xunit plugin has no total of skipped tests.
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.set("time", f"{result.duration_seconds:.3f}")
    for suite in suites:
        suite.set("timestamp", result.started_at.removesuffix("Z"))
    Tree.indent(root)
    written: bytes = Tree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _suite(exercise: ExerciseResult) -> Tree.Element:
    """Return the suite of an exercise: its points as properties, a case for each test, and printed output."""
    # The schema has no file and no line of a case: they are in the text of its failure.
    suite = Tree.Element(
        "testsuite",
        name=f"{exercise.chapter}.{exercise.name}",
        file=_legal(f"{exercise.chapter}/{exercise.name}.py"),
    )
    # The points that count; JUnit has only properties for them.
    points = Tree.SubElement(suite, "properties")
    earned = {"score": number(exercise.score)} if is_judged(exercise) else {}
    practice = {"practice": "true"} if exercise.practice else {}
    worth = {"max_score": number(exercise.max_score)}
    for name, value in (earned | worth | practice).items():
        Tree.SubElement(points, "property", name=name, value=value)
    if is_judged(exercise):
        cases = [_case(exercise, test, name) for test, name in _named(exercise)]
    else:
        about = {"classname": f"{exercise.chapter}.{exercise.name}", "name": "verdict"}
        cases = [Tree.Element("testcase", about, time="0.000")]
        text = not_judged(exercise)
        Tree.SubElement(cases[0], "error", message=text, type="unjudged").text = text
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for key, child in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(child) is not None for case in cases)))
    suite.set("time", f"{exercise.duration_seconds:.3f}")
    if texts := [text for text in (remarks(exercise), exercise.output) if text.strip()]:
        output = Tree.SubElement(suite, "system-out")
        output.text = _legal(shortened("\n\n".join(texts), _LONGEST_TEXT))
    return suite


def _named(exercise: ExerciseResult) -> list[tuple[TestResult, str]]:
    """Return each test with a unique name: if two are equal, readers drop one."""
    named: dict[str, TestResult] = {}
    for test in exercise.tests:
        name = _legal(one_line(test.title)) or test.name
        if name in named:
            name = f"{name} ({_legal(one_line(test.name))})"
        count, unique = 2, name
        while unique in named:
            unique, count = f"{name} #{count}", count + 1
        named[unique] = test
    return [(test, name) for name, test in named.items()]


def _case(exercise: ExerciseResult, test: TestResult, name: str) -> Tree.Element:
    """Return the case of a test; one that did not pass has a child with the reason."""
    case = Tree.Element(
        "testcase",
        classname=f"{exercise.chapter}.{exercise.name}",
        name=name,
        time=f"{test.duration_seconds:.3f}",
    )
    if test.outcome in _CHILD:
        first = one_line(first_line(test.finding) or explanation(test))
        child = Tree.SubElement(case, _CHILD[test.outcome], message=_legal(first))
        child.set("type", test.outcome.value)
        child.text = _legal(shortened(explanation(test), _LONGEST_TEXT))
    return case


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


FORMATS = {"junit": StudentFormat("JUnit XML", Audience.STUDENTS, (), ".xml", render)}
