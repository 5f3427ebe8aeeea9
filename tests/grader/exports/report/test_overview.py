"""The figures of a class equal figures computed by hand."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from grader.exports.report import write_report
from grader.exports.report.overview import ExerciseView, figures
from grader.exports.report.tally import Tally
from grader.results import Entry, Mark, Status
from tests.grader.exports.report.classes import an_entry, an_exercise


def tally_of(*entries: Entry) -> Tally:
    tally = Tally()
    for entry in entries:
        tally.add(entry, attempts=entry.attempt, alike=0)
    return tally


def view_of(tally: Tally, name: str) -> ExerciseView:
    return ExerciseView(tally, tally.exercises[name])


def test_figures_of_an_exercise_count_students_who_attempted_it() -> None:
    tally = tally_of(
        an_entry("a", [an_exercise("glu", "pppp", duration_seconds=1.0)]),
        an_entry("b", [an_exercise("glu", "pfff", duration_seconds=3.0)]),
        an_entry("c", [an_exercise("glu", "ffff", duration_seconds=2.0)]),
        an_entry("d", [an_exercise("glu", "nnnn", duration_seconds=0.0)]),
    )
    view = view_of(tally, "glu")
    assert view.attempted == 3
    assert view.passed == pytest.approx(1 / 3)
    assert view.mean == pytest.approx((10 + 2.5 + 0) / 3)
    assert view.difficulty == pytest.approx(1 - 12.5 / 30)
    assert (view.median_seconds, view.slow_seconds, view.longest_seconds) == (2.0, 3.0, 3.0)
    assert view.statuses[Status.NOT_ATTEMPTED] == 1
    assert [(test.passed, test.attempted) for test in view.tests] == [
        (2, 3),
        (1, 3),
        (1, 3),
        (1, 3),
    ]


def test_an_item_is_compared_with_the_points_of_all_others() -> None:
    # Two exercises of 10 points: students who pass glu's first test have 10 more in gelu.
    strong = [an_exercise("glu", "pf"), an_exercise("gelu", "pp")]
    weak = [an_exercise("glu", "fp"), an_exercise("gelu", "ff")]
    tally = tally_of(
        *(an_entry(f"strong{n}", strong) for n in range(10)),
        *(an_entry(f"weak{n}", weak) for n in range(10)),
    )
    first, second = view_of(tally, "glu").tests
    assert first.discrimination == pytest.approx(1.0)
    assert second.discrimination == pytest.approx(-1.0)
    # Everybody has 5 points in glu, which tells nobody apart.
    assert view_of(tally, "glu").discrimination is None
    assert view_of(tally, "gelu").discrimination is None


def test_practice_is_compared_with_all_points_but_not_added_to_totals() -> None:
    # Everybody passes glu. Students who pass the practice have full points in gelu, too.
    practice = [an_exercise("more", "p", practice=True), an_exercise("more", "f", practice=True)]
    strong = [an_exercise("glu", "p"), an_exercise("gelu", "p"), practice[0]]
    weak = [an_exercise("glu", "p"), an_exercise("gelu", "f"), practice[1]]
    tally = tally_of(
        *(an_entry(f"strong{n}", strong) for n in range(10)),
        *(an_entry(f"weak{n}", weak) for n in range(10)),
    )
    view = view_of(tally, "more")
    assert view.discrimination == view.tests[0].discrimination == pytest.approx(1.0)
    assert next(iter(tally.paired_exercise(tally.exercises["more"]))) == (10, 20)
    row = tally.rows[0]
    assert {name: (cell.score, cell.practice) for name, cell in row.chapters.items()} == {
        "one": (20, False)
    }
    unjudged = an_exercise("more", "f", practice=True, status=Status.UNJUDGED)
    (row,) = tally_of(an_entry("a", [*strong[:2], unjudged])).rows
    assert row.unjudged == 0
    assert row.chapters["one"].status is Status.PASSED
    # A chapter of practice has its own points.
    (row,) = tally_of(an_entry("a", practice[:1])).rows
    assert (row.chapters["one"].score, row.chapters["one"].practice, row.score) == (10, True, 0)


def test_an_unjudged_exercise_is_not_a_zero() -> None:
    unjudged = an_exercise("glu", "ffff", status=Status.UNJUDGED)
    tally = tally_of(
        an_entry("a", [an_exercise("glu", "pppp"), an_exercise("gelu", "p")]),
        an_entry("b", [unjudged, an_exercise("gelu", "p")]),
    )
    view = view_of(tally, "glu")
    assert (view.attempted, view.mean, view.difficulty) == (1, 10.0, 0.0)
    assert view.tests[0].attempted == 1
    seen = figures(tally)
    assert (seen.students, seen.final, seen.mean, seen.full) == (2, 1, 1.0, 1)
    assert sum(bar.count for bar in seen.distribution.bars) == 1


def test_a_missing_file_is_not_an_attempt() -> None:
    tally = Tally()
    whole = an_exercise("glu", "pp")
    raised = an_exercise("glu", "ff", status=Status.ERROR)
    # A missing or empty file is settled. A file that is not valid Python has a line.
    tests = [msgspec.structs.replace(test, place=None) for test in raised.tests]
    missing = msgspec.structs.replace(raised, settled=True, tests=tuple(tests))
    for student, exercise, files in (
        ("a", whole, {"glu"}),
        ("b", missing, set[str]()),
        ("c", missing, {"glu"}),
        ("d", msgspec.structs.replace(raised, settled=True), {"glu"}),
    ):
        tally.add(an_entry(student, [exercise]), attempts=1, alike=0, files=files)
    view = view_of(tally, "glu")
    assert (view.attempted, view.missing, view.mean) == (2, 2, 5.0)
    assert view.statuses == {Status.PASSED: 1, Status.ERROR: 1}
    assert [test.attempted for test in view.tests] == [2, 2]
    assert [row.score for row in tally.rows] == [10.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("status", [Status.ERROR, Status.NOT_ATTEMPTED])
def test_points_given_by_a_person_are_in_the_row_even_without_a_file(
    tmp_path: Path, status: Status
) -> None:
    given = an_exercise("gelu", "ff", status=status)
    mark = Mark(0.0, reasons=("Set to 7 points: shown in the lab.",))
    given = msgspec.structs.replace(given, score=7.0, mark=mark)
    nothing = an_exercise("fit", "ff", status=status)
    of = an_entry("ada", [an_exercise("glu", "pp"), given, nothing])
    write_report([of], tmp_path, sources=lambda _: {"glu": b"x = 1"})
    page = (tmp_path / "staff" / "index.html").read_text(encoding="utf-8")
    (row,) = re.findall(r"<tr data-tags.*?</tr>", page, re.DOTALL)
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)]
    assert cells[1] == "17"
    assert cells[2:4] == ["10", "7"], "the points of a row add up to its total"
    # A faulty file is an attempt that earned 0.
    nothing_there = "0" if status is Status.ERROR else ("–", "○")  # noqa: RUF001
    assert cells[4].startswith(nothing_there)


def test_an_exercise_that_nobody_attempted_has_no_numbers() -> None:
    view = view_of(tally_of(an_entry("a", [an_exercise("glu", "nn")])), "glu")
    assert (view.attempted, view.passed, view.mean, view.difficulty) == (0, None, None, None)
    assert view.tests == ()


def test_an_empty_class_has_no_mean() -> None:
    seen = figures(Tally())
    assert (seen.students, seen.mean, seen.median) == (0, None, None)


def test_a_student_who_wrote_nothing_is_counted_with_a_final_score() -> None:
    seen = figures(tally_of(an_entry("a", [an_exercise("glu", "nn"), an_exercise("gelu", "n")])))
    assert (seen.untouched, seen.final, seen.mean) == (1, 1, 0.0)
