"""`grade export` refuses conflicting options, and names students without a file or final points."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from grader.course.manifest import Course
from grader.gradebook import Gradebook
from grader.gradebook.policy import Due, Rules
from grader.gradebook.review import Attention, Reason
from grader.results import Outcome, Status, StudentInfo
from tests.grader import builders
from tests.grader.builders import checked, entry, exercise, unjudged
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import HERE, SUITE, School, key_of

CSV = ("--format", "csv")
CANVAS = ("--format", "canvas", "--template", "t.csv")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, write_course: Callable[..., Course]) -> Path:
    """A folder with a result, and RESULTS of ann, bob (not judged) and cem (points held)."""
    folder = tmp_path_factory.mktemp("export")
    school = School(write_course(folder / "course", SUITE), folder / "results")
    right = exercise(checked(), name="task", worth=10)
    held = msgspec.structs.replace(right, held=("line 1 imports ctypes",))
    verdicts = {"ann": right, "bob": unjudged("task", 10), "cem": held}
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student, verdict in verdicts.items():
            source = student.encode()
            book.keep(school.hand_in(book, student, source), key_of(source), 0, verdict, HERE)
        book.keep_student(StudentInfo(id="ann", ids={"section": "A"}))
        book.finish(())
    (folder / "one.json").write_bytes(msgspec.json.encode(entry(right).result))
    (folder / "t.csv").write_text("Student,ID,SIS Login ID,Section,Lab (1)\n", encoding="utf-8")
    return folder


def export(place: Path, *words: str | Path) -> Result:
    return invoke("export", *words, cwd=place)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("results", *CANVAS, "-o", "t.csv"), "-o would overwrite t.csv"),
        (("results", *CANVAS, "--anonymous"), "A template needs names"),
        (("one.json", *CSV, "--anonymous"), "--anonymous is for a gradebook"),
        (("one.json", *CSV, "--assignment", "week1"), "--assignment is for a gradebook"),
        (("one.json", *CSV, "--section", "A"), "--section is for a gradebook"),
        (("results", *CSV, "--disclose", "title"), "csv is for staff and shows everything"),
        (("results", *CSV, "--section", "B"), "No student is in section 'B'. There is: A."),
        (("results", *CSV, "--layout", "moodle"), "csv has no use for --layout"),
    ],
)
def test_conflicting_options_are_refused_and_write_nothing(
    place: Path, words: tuple[str, ...], told: str
) -> None:
    before = (place / "t.csv").read_bytes()
    done = export(place, *words)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert done.stdout == "" and (place / "t.csv").read_bytes() == before


def test_a_template_may_be_filled_into_another_file(place: Path) -> None:
    assert export(place, "results", *CANVAS, "-o", "filled.csv").exit_code == 0
    assert export(place, "results", *CANVAS).exit_code == 0, "stdout is not a file"


def test_zeros_with_something_to_look_at_are_counted(
    tmp_path: Path, write_course: Callable[..., Course]
) -> None:
    school = School(write_course(tmp_path / "course", SUITE), tmp_path / "results")
    wrong = exercise(checked(outcome=Outcome.FAILED), name="task", worth=10)
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student in ("ann", "bob"):
            source = student.encode()
            book.keep(school.hand_in(book, student, source), key_of(source), 0, wrong, HERE)
        listed = [
            Attention(kind, "ann", ("task",), "x") for kind in (Reason.MISNAMED, Reason.TIMEOUT)
        ]
        book.finish((*listed, Attention(Reason.ODD_CODE, "bob", ("task",), "x")))
    told = "1 student with something to look at, such as a misnamed file, has 0 points in that exercise"
    assert told in " ".join(export(tmp_path, "results", *CSV).stderr.split())
    assert "to look at" not in export(tmp_path, "results", *CSV, "--anonymous").stderr


def test_provisional_points_are_reported(place: Path) -> None:
    done = export(place, "results", *CSV)
    assert "Points of cem are provisional because of odd code" in done.stderr
    assert "ann" not in done.stderr
    assert "provisional" not in export(place, "results", *CSV, "--section", "A").stderr


def test_only_the_unjudged_student_has_no_file(place: Path, tmp_path: Path) -> None:
    done = export(place, "results", "--format", "gradescope", "-o", tmp_path / "out")
    assert done.exit_code == 3
    assert "bob: task could not be judged" in done.stderr
    assert "1 of the students have no file" in done.stderr
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == ["ann", "cem"]


def test_pseudonyms_replace_ids(place: Path) -> None:
    done = export(place, "results", *CSV, "--anonymous")
    assert done.exit_code == 0 and "anon-" in done.stdout
    assert "ann" not in done.stdout and "cem" not in done.stdout + done.stderr


def test_a_zero_before_the_due_time_is_reported(
    tmp_path: Path, write_course: Callable[..., Course]
) -> None:
    school = School(write_course(tmp_path / "course", SUITE), tmp_path / "results")
    nothing = exercise(name="task", worth=10, score=0.0, status=Status.NOT_ATTEMPTED)
    due = datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)

    def told(at: datetime.datetime) -> str:
        with Gradebook.open_to_write(school.results) as book:
            rules = Rules(timezone="UTC", due=(Due(at=at),))
            book.begin(school.course, builders.result(nothing), rules)
            book.keep_student(StudentInfo(id="ann"))
            book.finish(())
        done = export(tmp_path, "results", *CSV)
        assert done.exit_code == 0 and "ann" in done.stdout
        return done.stderr

    said = "1 student who handed in no work and can do so until 2999-01-01 00:00 UTC"
    assert told(due) == f"{said}: 0 points for now.\n"
    assert told(due.replace(year=2020)) == ""
