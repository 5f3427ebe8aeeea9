"""Text of strangers stays text, and nothing in it is invisible."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from grader.exports.report import render
from grader.exports.report.render import Renderer, code_lines, shown
from grader.results import Status
from tests.grader.exports.report.classes import an_entry, an_exercise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zoë Müller", "Zoë Müller"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("a\x1b[31mb\x00", "a\\x1b[31mb\\x00"),
        ("one\ntwo\u2028three", "one\\ntwo\\u2028three"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("<b>", "<b>"),
    ],
)
def test_invisible_characters_are_shown_as_escapes(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_code_is_split_only_at_line_feeds_and_bounded() -> None:
    assert code_lines(b"a\r\n\tb\x0cc\n") == ["a", "    b\\x0cc"]
    assert code_lines("\n" * 20_000)[-1] == "… the rest is not shown here"
    assert len(code_lines(b"x\n" * 1_000_000)) == 5001
    assert sum(map(len, code_lines("y" * 10_000_000))) < 6000


def test_code_that_is_not_text_is_shown_too() -> None:
    assert code_lines(b"\xff\xfe") == ["\N{REPLACEMENT CHARACTER}" * 2]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.001, "1 %"), (0.5, "50 %"), (0.999, "99 %"), (1, "100 %")],
)
def test_only_exact_shares_are_shown_as_0_and_100_percent(share: float, text: str) -> None:
    assert render.percent(share) == text


def test_numbers_read_as_a_person_writes_them() -> None:
    assert [render.seconds(value) for value in (0.034, 12.4)] == ["0.03 s", "12 s"]
    assert render.correlation(-0.001) == "+0.00"
    assert render.correlation(-0.25) == "\N{MINUS SIGN}0.25"
    assert render.spans(((3, 3), (7, 9))) == "3, 7\N{EN DASH}9"


def test_a_misspelled_name_in_a_template_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        Renderer().write(tmp_path / "page.html", "student.html", unjudged=0)


def test_templates_do_not_change_when_a_newer_version_is_installed(tmp_path: Path) -> None:
    """Otherwise a running server would fill newer templates with values of its older code."""
    for name in ("used.html", "not_used_yet.html"):
        (tmp_path / name).write_text("{{ old }}", encoding="utf-8")
    renderer = Renderer(tmp_path)
    assert renderer.text("used.html", old="as ever") == "as ever"
    for name in ("used.html", "not_used_yet.html"):
        (tmp_path / name).write_text("{{ new }}", encoding="utf-8")
        assert renderer.text(name, old="as ever") == "as ever"


def test_points_that_a_partly_passed_exercise_lacks_are_shared_by_tests(tmp_path: Path) -> None:
    exercise = an_exercise("glu", "ppfpff", points=10.0)
    missed = render.missed(exercise)
    assert list(missed.values()) == pytest.approx([0, 0, 1.67, 0, 1.67, 1.66])
    entry = an_entry("ada", [exercise, an_exercise("gelu", "ff")])
    page = tmp_path / "page.html"
    Renderer().write(page, "student.html", title="A lab", entry=entry, unjudged=0, chapters={})
    text = page.read_text(encoding="utf-8")
    assert text.count("\N{MINUS SIGN}1.67") == 2
    assert text.count("\N{MINUS SIGN}1.66") == 1
    # An exercise without points lacks everything, so its tests are not listed.
    assert text.count("\N{MINUS SIGN}") == 3


def test_one_cause_is_open_and_everything_else_is_folded(tmp_path: Path) -> None:
    broken = an_exercise("glu", "ffff", status=Status.ERROR, message="glu.py is not valid Python.")
    page = tmp_path / "page.html"
    for exercise, cause in (
        (broken, "glu.py is not valid Python."),
        (an_exercise("glu", "pfff"), "Case 1 of glu differs."),
    ):
        entry = an_entry("ada", [exercise])
        Renderer().write(page, "student.html", title="A lab", entry=entry, unjudged=0, chapters={})
        text = page.read_text(encoding="utf-8")
        assert "<details open" not in text
        shown = text.partition("<details>")[0]
        assert cause in shown
        assert "Case 2 of glu differs." not in shown
    assert "2 more tests do not hold; begin with this one." in shown
