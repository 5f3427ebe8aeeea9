"""Students to help first: each is listed with reasons and numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from grader.exports.report import write_report
from grader.exports.report.overview import ExerciseView, figures
from grader.exports.report.tally import Tally, folded
from grader.exports.report.triage import (
    Stuck,
    class_mistakes,
    sections,
    sections_of,
    stuck_at,
    weak_tests,
    worries,
)
from grader.results import Entry, ExerciseResult
from tests.grader.exports.report.classes import SOURCE, an_entry, an_exercise

NAMES = ("glu", "gelu", "collate", "lr_finder")


def tallied(*entries: Entry, files: Sequence[str] = NAMES) -> Tally:
    tally = Tally()
    for entry in entries:
        there = files if entry.attempt else ()
        tally.add(entry, attempts=entry.attempt, alike=0, files=there)
    return tally


def a_student(name: str, *outcomes: str, **changes: object) -> Entry:
    """Return a student whose four exercises have these outcomes."""
    pairs = zip(NAMES, outcomes, strict=True)
    return an_entry(name, [an_exercise(each, letters) for each, letters in pairs], **changes)


def reasons(tally: Tally, **told: object) -> dict[str, tuple[str, ...]]:
    options = {"stuck": {}, "before": {}, **told}
    return {worry.row.id: worry.reasons for worry in worries(tally, **options)}  # type: ignore[arg-type]  # as told


def test_low_students_and_untouched_work_are_listed() -> None:
    whole = [a_student(f"s{number}", "pp", "pp", "pp", "pf") for number in range(6)]
    low = a_student("low", "pf", "ff", "ff", "pf")
    stub = a_student("stub", "nn", "nn", "nn", "nn")
    assert reasons(tallied(*whole, low, stub)) == {
        "low": ("low: 10 of 40 points",),
        "stub": ("has not begun",),
    }


def test_a_submission_without_a_readable_file_is_not_called_unbegun(tmp_path: Path) -> None:
    zipped = a_student("zipped", "nn", "nn", "nn", "nn")
    tally = tallied(zipped, files=())
    assert reasons(tally) == {"zipped": ("no usable file",)}
    seen = figures(tally)
    assert (seen.untouched, seen.unusable, seen.students) == (0, 1, 1)
    write_report([zipped], tmp_path, sources=lambda _: {})
    page = (tmp_path / "staff" / "index.html").read_text(encoding="utf-8")
    assert "<dt>Nothing written</dt><dd>0</dd>" in page
    assert "<dt>No usable file</dt><dd>1</dd>" in page


def test_half_of_the_points_is_not_low_in_a_strong_class() -> None:
    whole = [a_student(f"s{number}", "pp", "pp", "pp", "pp") for number in range(6)]
    assert reasons(tallied(*whole, a_student("half", "pf", "pf", "pf", "pf"))) == {}


def test_a_student_who_gets_worse_than_the_class_is_falling() -> None:
    whole = [a_student(f"s{number}", "pp", "pp", "pp", "pf") for number in range(9)]
    one = a_student("one", "pp", "pp", "pf", "ff")
    told = reasons(tallied(*whole, one))
    assert told == {"one": ("falling: 45 % lower in the later exercises, relative to the class",)}


def test_lost_points_are_listed_and_gained_ones_are_not() -> None:
    tally = tallied(a_student("a", "pp", "pp", "pp", "pf"), a_student("b", "pp", "pp", "pp", "pp"))
    assert reasons(tally, before={"a": 40.0, "b": 38.5}) == {
        "a": ("lost 5 points since the last grading",)
    }


def test_absent_students_are_listed_but_not_counted() -> None:
    there = [a_student(f"s{number}", "pp", "pp", "pp", "pf") for number in range(3)]
    absent = an_entry("absent", [an_exercise(each, "nn") for each in NAMES], attempt=0)
    tally = tallied(*there, absent)
    assert reasons(tally) == {"absent": ("handed in nothing",)}
    assert {len(each.scores) for each in tally.exercises.values()} == {3}


def verdicts(*outcomes: str) -> dict[str, list[ExerciseResult]]:
    return {"glu": [an_exercise("glu", letters) for letters in outcomes]}


@pytest.mark.parametrize(
    ("outcomes", "tries"),
    [
        (("fff", "pff", "ppf"), 3),
        (("fff", "fff", "pff", "ppf"), 4),
        (("ppf", "ppp", "ppf", "ppf"), 0),
        (("nnn", "nnn", "nnn", "nnf"), 0),
        (("ppf", "ppf"), 0),
        (("ppf", "ppf", "ppf", "ppp"), 0),
    ],
)
def test_failing_a_test_three_times_in_a_row_is_stuck(
    outcomes: tuple[str, ...], tries: int
) -> None:
    expected = (Stuck("glu", "The glu holds in case 2", tries),) if tries else ()
    assert stuck_at(verdicts(*outcomes)) == expected


def test_sections_come_from_the_roster() -> None:
    students = [
        a_student("a", "pp", "pp", "pp", "pp", ids={"section": "Mon"}),
        a_student("b", "pp", "pp", "ff", "ff", ids={"section": "Mon"}),
        a_student("c", "nn", "nn", "nn", "nn"),
    ]
    views = [
        (each.name, each.students, each.mean, each.untouched)
        for each in sections(tallied(*students))
    ]
    assert views == [("", 1, 0.0, 1), ("Mon", 2, 0.75, 0)]
    assert sections(tallied(*students[:2])) == []


def test_a_student_in_two_sections_counts_in_each() -> None:
    cells = {"a": "Mon and Tue", "b": "Tue", "c": "Research and Development"}
    students = [a_student(name, *["pp"] * 4, ids={"section": cell}) for name, cell in cells.items()]
    tally = tallied(*students)
    counts = {each.name: each.students for each in sections(tally)}
    assert counts == {"Mon": 1, "Tue": 2, "Research and Development": 1}
    assert sections_of(tally.rows)["a"] == ("Mon", "Tue")


def test_the_most_common_mistakes_name_their_students() -> None:
    tally = tallied(
        a_student("a", "pf", "pp", "pp", "pp"),
        a_student("b", "pf", "ff", "pp", "pp"),
        a_student("c", "pf", "ff", "pp", "pp"),
    )
    views = [ExerciseView(tally, each) for each in tally.exercises.values()]
    found = [
        (each.exercise.name, [tally.rows[row].id for row in each.mistake.rows])
        for each in class_mistakes(views)
    ]
    assert found == [("glu", ["a", "b", "c"]), ("gelu", ["b", "c"])]


def test_a_test_that_good_students_fail_is_listed_first() -> None:
    chance = random.Random(5)
    entries = []
    for number in range(60):
        strength = number / 60
        odd = "f" if strength > 0.5 else "p"
        coin = chance.choice("pf")
        rest = "".join("p" if chance.random() < strength else "f" for _ in range(6))
        entries.append(a_student(f"s{number:02}", odd + coin + rest, rest, rest, rest))
    tally = tallied(*entries)
    weak = weak_tests(ExerciseView(tally, each) for each in tally.exercises.values())
    assert weak[0].test.name == "test_glu_0"
    assert weak[0].why == "students who are good at the rest fail it"
    assert {each.test.name for each in weak} <= {"test_glu_0", "test_glu_1"}


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("Łukasz Gödel", "lukasz godel"),
        ("Søren Đorđe Ærø", "soren dorde aero"),
        ("STRAẞE Weiß", "strasse weiss"),
        ("İbrahim Ilık", "ibrahim ilik"),  # noqa: RUF001  # a letter of its own
        ("Nguyễn", "nguyen"),
    ],
)
def test_names_are_found_without_accents(name: str, typed: str) -> None:
    assert folded(name) == typed


def test_the_page_of_the_class_begins_with_students_who_need_help(tmp_path: Path) -> None:
    entries = [
        a_student("low", "pf", "ff", "ff", "pf", ids={"section": "Mon"}),
        *(a_student(f"s{number}", "pf", "pp", "pp", "pf") for number in range(5)),
    ]
    stuck = verdicts("ff", "pf", "pf")
    write_report(
        entries,
        tmp_path,
        sources=lambda entry: dict.fromkeys((each.name for each in entry.result.exercises), SOURCE),
        history=lambda entry: stuck if entry.student.id == "low" else {},
        before={"s0": 28.0},
    )
    page = (tmp_path / "staff" / "index.html").read_text(encoding="utf-8")
    assert "low: 10 of 40 points; " in page
    assert "stuck in glu: 3 tries failed: The glu holds in case 1" in page
    assert "+2" in page
    common = page.partition('id="common"')[2].partition("</section>")[0]
    assert '<a href="students/s3.html">' in common
    assert "seed 0" in page


def test_absent_students_do_not_lower_the_mean(tmp_path: Path) -> None:
    there = a_student("there", "pp", "pp", "pp", "pp")
    absent = an_entry("gone", [an_exercise(each, "nn") for each in NAMES], attempt=0, name="Zed N.")
    write_report(
        [there, absent],
        tmp_path,
        sources=lambda entry: dict.fromkeys(NAMES[: 9 * entry.attempt], SOURCE),
    )
    page = (tmp_path / "staff" / "index.html").read_text(encoding="utf-8")
    assert "<dt>Mean</dt><dd>100 %</dd>" in page
    assert "<dt>Not handed in</dt><dd>1</dd>" in page
    assert "Zed N." in page.partition('id="help"')[2].partition("</section>")[0]
