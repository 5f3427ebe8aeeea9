"""`grade term`: totals checked against computation by hand, and cases reported rather than guessed."""

from __future__ import annotations

import csv
import datetime
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.cli.term import UPLOADS
from grader.course.manifest import Course, load_course
from grader.errors import SubmissionError
from grader.exports import FORMATS
from grader.exports.files import ClassFormat, Options
from grader.exports.formats.feedback import plain_feedback
from grader.exports.term import write_upload
from grader.exports.verdicts import why_open
from grader.gradebook import Gradebook
from grader.gradebook.policy_file import policy_of
from grader.gradebook.term import Term, TermRow, TermSoFar, add_up, read_graded
from grader.gradebook.verdict_key import VerdictKey
from grader.results import Environment, Status, StudentInfo
from grader.submissions import Attempt, ExerciseFile, Submission
from tests.grader import builders

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
HERE = Environment("1", "3.12", "2.13", "Linux", ("seccomp",))
# word_count is worth 10 points, greeting 2.5 and running_mean 7.5.
ASSIGNMENTS = """
[[assignment]]
id = "week1"
title = "Week 1"
exercises = ["word_count"]

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["greeting"]

[[assignment]]
id = "final"
title = "Final"
exercises = ["running_mean"]
weight = 2
can_drop = false
"""
EXERCISE = {"week1": "word_count", "week2": "greeting", "final": "running_mean"}
WORTH = {"word_count": 10.0, "greeting": 2.5, "running_mean": 7.5}
Points = Mapping[str, float | None]


class Semester:
    """A course with assignments, and gradebooks into which a test writes points."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PLAIN, folder / "course", ignore=shutil.ignore_patterns("__pycache__"))
        self.rule()

    def rule(self, text: str = "", assignments: str = ASSIGNMENTS) -> Course:
        """Write assignments.toml with the rules of the term below the assignments, and load the course."""
        path = self.folder / "course/exercises/assignments.toml"
        path.write_text(assignments + text, encoding="utf-8")
        self.course = load_course(self.folder / "course")
        return self.course

    def grade(self, assignment: str, points: Points, *people: StudentInfo) -> Path:
        """Make a gradebook with these points for the first exercise of an assignment. None means unjudged."""
        part = self.course.assigned(assignment)
        infos = {each.id: each for each in people}
        with Gradebook.open_to_write(self.folder / assignment) as book:
            book.assign(part)
            book.begin(part)
            for student, score in points.items():
                self._hand_in(book, infos.get(student, StudentInfo(id=student)), assignment, score)
            book.finish(())
        return self.folder / assignment

    def _hand_in(
        self, book: Gradebook, student: StudentInfo, assignment: str, score: float | None
    ) -> None:
        exercise, source = EXERCISE[assignment], f"{student.id}\n".encode()
        found = Attempt(student=student, submitted_at="", origin="a.zip", path=Path("a.zip"))
        with book.transaction():
            attempt = book.register(found, Submission(student.id, {exercise: ExerciseFile(source)}))
            status = Status.UNJUDGED if score is None else Status.PARTIAL
            result = builders.exercise(
                name=exercise, worth=WORTH[exercise], status=status, score=score or 0.0
            )
            key = VerdictKey(source.hex(), "course", "grader", source.hex())
            book.keep(attempt, key, 0, result, HERE)

    def term(self, *assignments: str) -> Term:
        folders = [self.folder / name for name in assignments or EXERCISE]
        graded = [each for folder in folders for each in read_graded(folder, self.course)]
        return add_up(graded, self.course)


@pytest.fixture
def semester(tmp_path: Path) -> Semester:
    return Semester(tmp_path)


def graded(semester: Semester, **students: tuple[float | None, ...]) -> dict[str, TermRow]:
    """Return the rows of students with these points for week1, week2 and the final."""
    for place, assignment in enumerate(EXERCISE):
        semester.grade(assignment, {name: points[place] for name, points in students.items()})
    return {row.student.id: row for row in semester.term().rows}


def test_weights(semester: Semester) -> None:
    # 60 %, 80 % and 50 %, with weights 1, 1 and 2: (60 + 80 + 100) / 4.
    row = graded(semester, zoe=(6.0, 2.0, 3.75))["zoe"]
    assert row.total == 60
    assert row.words == (
        "week1 6 / 10 = 60 %, weight 1: 15; week2 2 / 2.5 = 80 %, weight 1: 20; "
        "final 3.75 / 7.5 = 50 %, weight 2: 25. Total: 60 %"
    )


def test_shares_add_up_to_the_total(semester: Semester) -> None:
    semester.rule(assignments=ASSIGNMENTS.replace("weight = 2", "weight = 1"))
    row = graded(semester, zoe=(10.0, 2.5, 7.5), kim=(1.0, 0.5, 2.5))
    assert row["zoe"].total == 100
    assert sorted(part.share or 0 for part in row["zoe"].parts) == [33.33, 33.33, 33.34]
    # 10, 20 and 33.33 of 3: 21.11.
    assert row["kim"].total == 21.11
    assert sum(round(100 * (part.share or 0)) for part in row["kim"].parts) == 2111


def test_totals_use_exact_points(semester: Semester) -> None:
    """(0 + 2 / 3) / 2 is 33.33 %. Rounding to 66.67 % before weighting would give 33.34 %."""
    semester.rule(assignments=ASSIGNMENTS.replace("weight = 2", "weight = 1"))
    semester.grade("week1", {"zoe": 0.0})
    semester.grade("final", {"zoe": 5.0})
    (row,) = semester.term("week1", "final").rows
    assert row.total == 33.33
    assert row.words.endswith("final 5 / 7.5 = 66.67 %, weight 1: 33.33. Total: 33.33 %")


def test_the_lowest_is_dropped_but_never_the_final(semester: Semester) -> None:
    semester.rule("[term]\ndrop_lowest = 1\ncuts = {A = 90, B = 70, F = 0}\n")
    rows = graded(semester, zoe=(6.0, 2.0, 3.75), kim=(9.0, 2.5, 0.0), eva=(5.0, 1.25, 7.5))
    # (80 + 100) / 3
    assert (rows["zoe"].total, rows["zoe"].letter) == (60, "F")
    assert "week1 6 / 10 = 60 %, dropped as the lowest;" in rows["zoe"].words
    assert rows["kim"].total == 33.33, "90 % is dropped, and 0 % of the final is not"
    assert (rows["eva"].total, rows["eva"].letter) == (83.33, "B")


def test_the_final_replaces_a_lower_result(semester: Semester) -> None:
    semester.rule(assignments=ASSIGNMENTS + 'replaces = ["week1"]\n')
    rows = graded(semester, zoe=(1.0, 2.5, 7.5), kim=(10.0, 2.5, 3.75))
    assert rows["zoe"].total == 100
    assert "week1 1 / 10 = 10 %, replaced by 100 % of final, weight 1: 25" in rows["zoe"].words
    assert rows["kim"].total == 75


def test_extra_credit_and_caps(semester: Semester) -> None:
    both = ASSIGNMENTS.replace(
        '["word_count"]', '["word_count", "greeting"]\nextra_credit = ["greeting"]'
    )
    one = both[: both.index("[[assignment]]", 5)]
    semester.rule(assignments=one + "at_most = 110\n")
    with Gradebook.open_to_write(semester.folder / "week1") as book:
        part = semester.course.assigned("week1")
        book.assign(part)
        book.begin(part)
        for name, scores in {"zoe": (9.0, 2.5), "kim": (5.0, 1.0)}.items():
            files = {e.id: ExerciseFile(f"{name}{e.id}".encode()) for e in part.exercises}
            found = Attempt(student=StudentInfo(id=name), submitted_at="", origin="", path=Path())
            with book.transaction():
                attempt = book.register(found, Submission(name, files))
                for (exercise, file), score in zip(files.items(), scores, strict=True):
                    assert file.source is not None
                    key = VerdictKey(file.source.hex(), "c", "g", file.source.hex())
                    result = builders.exercise(
                        name=exercise, worth=WORTH[exercise], status=Status.PARTIAL, score=score
                    )
                    book.keep(attempt, key, 0, result, HERE)
        book.finish(())

    def totals() -> dict[str, float | None]:
        return {row.student.id: row.total for row in semester.term("week1").rows}

    with Gradebook.open(semester.folder / "week1") as kept:
        results = [entry.result for entry in kept.entries()]
    assert [(result.score, result.max_score) for result in results] == [(6, 10), (11.5, 10)]
    # 11.5 and 6 of 10 points. The assignment is capped at 110 %, the term at 100 %.
    assert totals() == {"zoe": 100, "kim": 60}
    semester.rule("[term]\nat_most = 120\n", assignments=one + "at_most = 110\n")
    assert totals() == {"zoe": 110, "kim": 60}
    assert (
        "week1 11.5 / 10 = 115 %, with 2.5 of extra credit, at most 110 % count, weight 1: 110."
        in semester.term("week1").rows[1].words
    )


def test_a_missing_student_is_reported_rather_than_guessed(semester: Semester) -> None:
    semester.grade("week1", {"zoe": 6.0, "kim": 5.0})
    semester.grade("week2", {"zoe": 2.0})
    semester.grade("final", {"zoe": 3.75, "kim": 7.5})
    kim, zoe = semester.term().rows
    assert (kim.total, zoe.total) == (None, 60)
    assert kim.words.endswith("Total: open: week2 is missing")
    (note,) = semester.term().notes
    assert "week2" in note and "has no kim, who is in others" in note
    semester.rule('[term]\nmissing = "zero"\n')
    assert semester.term().rows[0].total == 62.5, "(50 + 0 + 200) / 4"
    excused = '[[term.excused]]\nstudent = "kim"\nassignment = "week2"\nreason = "ill"\n'
    semester.rule(excused)
    kim = semester.term().rows[0]
    assert kim.total == 83.33, "(50 + 200) / 3"
    assert "week2, excused (ill)" in kim.words


def test_two_ids_of_one_person_are_reported(semester: Semester) -> None:
    def zoe(name: str) -> StudentInfo:
        return StudentInfo(id=name, email="zoe@example.org")

    semester.grade("week1", {"zoe": 6.0}, zoe("zoe"))
    semester.grade("week2", {"zoe2": 2.0}, zoe("zoe2"))
    semester.grade("final", {"zoe": 3.75}, zoe("zoe"))
    term = semester.term()
    assert [row.total for row in term.rows] == [None, None]
    assert any('same = [["zoe", "zoe2"]]' in note for note in term.notes)
    semester.rule('[term]\nsame = [["zoe", "zoe2"]]\n')
    term = semester.term()
    assert [(row.student.id, row.total) for row in term.rows] == [("zoe", 60)]
    assert not term.notes
    semester.grade("week2", {"zoe": 1.0}, zoe("zoe"))
    (row,) = semester.term().rows
    assert (row.total, row.why) == (None, "week2 has the person as zoe and zoe2")


def test_an_unjudged_exercise_leaves_the_total_open(semester: Semester) -> None:
    rows = graded(semester, zoe=(6.0, None, 3.75))
    why = "week2 could not be judged because of a fault of the grader (greeting)"
    assert rows["zoe"].words.endswith(f"Total: open: {why}")


def test_a_waiting_verdict_is_not_a_fault_of_the_grader(semester: Semester, tmp_path: Path) -> None:
    graded(semester, zoe=(6.0, 2.0, 3.75))
    waiting = builders.exercise(
        name="greeting", worth=2.5, status=Status.UNJUDGED, score=0.0, waiting=True
    )
    with Gradebook.open_to_write(tmp_path / "week2") as book:
        attempt = book.tables.attempts_of("zoe")[0]
        key = VerdictKey("another", "course", "grader", "another")
        with book.transaction():
            book.keep(attempt, key, 0, waiting, HERE)
    (row,) = semester.term().rows
    assert row.words.endswith("Total: open: week2 is not judged yet (greeting)")
    note = upload_note(semester, tmp_path)
    assert note == "zoe: has no score. The total is open: week2 is not judged yet (greeting)."
    with Gradebook.open(tmp_path / "week2") as kept:
        (entry,) = kept.entries()
    assert why_open(entry) == waiting.message
    feedback = plain_feedback(entry)
    assert "fault" not in feedback and "Not judged yet: this costs no points." in feedback


def upload_note(semester: Semester, folder: Path) -> str:
    """Return the only note on an upload of the term for zoe."""
    template = folder / "canvas-export.csv"
    template.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,Term (7)\n"
        "    Points Possible,,,,,100\nzoe,1,zoe,,A,\n",
        encoding="utf-8",
    )
    chosen = FORMATS["canvas"]
    assert isinstance(chosen, ClassFormat)
    options = Options(template=template, column="Term (7)")
    info = semester.course.info()
    (note,) = write_upload(semester.term(), folder / "upload.csv", chosen, options, info)
    return note


def test_a_term_overwrites_only_a_term(semester: Semester, tmp_path: Path) -> None:
    graded(semester, zoe=(6.0, 2.0, 3.75))
    folders = [str(tmp_path / name) for name in EXERCISE]
    course = ["--course", str(tmp_path / "course")]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "grades.csv").write_text("my own", encoding="utf-8")
    refused = CliRunner().invoke(main, ["term", *folders, "-o", str(mine), *course])
    assert refused.exit_code == 2
    assert "contains something other than a term; name a new or an empty folder" in (
        " ".join(refused.output.split())
    )
    assert [path.name for path in mine.iterdir()] == ["grades.csv"]
    assert (mine / "grades.csv").read_text(encoding="utf-8") == "my own"
    for _ in range(2):
        done = CliRunner().invoke(main, ["term", *folders, "-o", str(tmp_path / "t"), *course])
        assert done.exit_code == 0, done.output
    upload = ["--format", "canvas", "--template", str(tmp_path / "t/canvas.csv")]
    (tmp_path / "t/canvas.csv").write_text("Student,ID\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["term", *folders, "-o", str(tmp_path / "t"), *course, *upload])
    assert done.exit_code == 2, "the template would be overwritten"


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "week1", "-o", "file/x"),
        ("export", "week1", "--format", "csv", "-o", "file/x.csv"),
        ("export", "week1", "--format", "gradescope", "-o", "file"),
        ("term", "week1", "-o", "file/x", "--course", "course"),
        ("pack", "--course", "course", "-o", "file"),
        ("pack", "--course", "course", "-o", "file/x"),
        ("mark", "week1", "word_count", "--course", "course"),
        ("new", "word_count", "--course", "course"),
        ("new", "Bad-Id", "--course", "course"),
        ("regrade", "week1", "--course", "course", "--json", "nowhere/x.json"),
    ],
)
def test_a_wrong_argument_is_not_a_fault_of_the_grader(
    semester: Semester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Exit code 3 is for faults of the grader, after which scripts try again."""
    semester.grade("week1", {"zoe": 6.0})
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, done.output
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_mail_names_the_title_of_the_assignment(semester: Semester, tmp_path: Path) -> None:
    semester.grade("week1", {"zoe": 6.0})
    out = tmp_path / "mails.csv"
    arguments = ["export", str(tmp_path / "week1"), "--format", "mailmerge", "-o", str(out)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    with out.open(encoding="utf-8", newline="") as file:
        (mail,) = csv.DictReader(file)
    assert mail["subject"] == "Week 1: your result"
    assert mail["text"].startswith("Week 1: 6 of 10 points")


def test_gradebooks_that_do_not_belong_to_the_term_are_refused(semester: Semester) -> None:
    graded(semester, zoe=(6.0, 2.0, 3.75))
    with pytest.raises(SubmissionError, match="are both the gradebook of week1"):
        semester.term("week1", "week1")
    assert "No gradebook of week2 and final was named" in semester.term("week1").notes[0]
    semester.rule(assignments=ASSIGNMENTS.replace('"week1"', '"week9"'))
    with pytest.raises(
        SubmissionError, match=r"of the assignment week1, which is no longer in assignments\.toml"
    ):
        semester.term()
    with Gradebook.open_to_write(semester.folder / "part") as book:
        book.begin(msgspec.structs.replace(semester.course, assignments=()))
    with pytest.raises(
        SubmissionError, match="the gradebook of no assignment; `grade regrade` with"
    ):
        semester.term("part")
    semester.rule(
        assignments=ASSIGNMENTS.replace('["greeting"]', '["greeting"]\nextra_credit = []')
    )
    assert not semester.term().notes


DUE = """
timezone = "Europe/Warsaw"

[[assignment]]
id = "week1"
title = "Week 1"
exercises = ["word_count"]
due = 2026-10-12T23:59:59

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["greeting", "running_mean"]
extra_credit = ["greeting"]
opens = 2026-10-12T23:59:59
due = 2026-10-19T23:59:59
"""


def of_october(day: int) -> datetime.datetime:
    return datetime.datetime(2026, 10, day, 12, tzinfo=datetime.UTC)


def course_gradebook(semester: Semester, policy: str = "", assignments: str = "") -> Path:
    """Make the gradebook of a whole course: zoe has 6, 2 and 3.75 points, and kim handed in nothing."""
    (semester.folder / "course/exercises/policy.toml").write_text(policy, encoding="utf-8")
    course, folder = semester.rule(assignments=assignments or DUE), semester.folder / "whole"
    blank = builders.result(
        *(builders.exercise(name=name, worth=worth, score=0.0) for name, worth in WORTH.items())
    )
    with Gradebook.open_to_write(folder) as book:
        book.keep_student(StudentInfo(id="kim"))
        book.begin(course, blank, policy_of(course))
        for assignment, score in {"week1": 6.0, "week2": 2.0, "final": 3.75}.items():
            semester._hand_in(book, StudentInfo(id="zoe"), assignment, score)
        book.finish(())
    return folder


def test_a_gradebook_of_the_whole_course_gives_each_assignment_that_is_due(
    semester: Semester,
) -> None:
    folder = course_gradebook(semester)
    (week1,) = read_graded(folder, semester.course, of_october(13))
    assert week1.scores["zoe"].words == "6 / 10 = 60 %"
    assert "week2 is due at 2026-10-19 23:59:59 CEST: the total does not include it." in week1.notes
    # The gradebook includes week2, although it does not count yet.
    assert not [note for note in add_up([week1], semester.course).notes if "was named" in note]
    with pytest.raises(SubmissionError, match="has no assignment that is due yet"):
        read_graded(folder, semester.course, of_october(12))

    whole = add_up(read_graded(folder, semester.course, of_october(20)), semester.course)
    assert not whole.notes
    zoe = {row.student.id: row for row in whole.rows}["zoe"]
    assert zoe.words == (
        "week1 6 / 10 = 60 %, weight 1: 30; "
        "week2 5.75 / 7.5 = 76.67 %, with 2 of extra credit, weight 1: 38.33. Total: 68.33 %"
    )


def test_a_total_is_open_until_the_end_of_an_extension(semester: Semester) -> None:
    policy = '[[extension]]\nstudent = "zoe"\nby = "3 days"\nreason = "ill"\nexercises = ["word_count"]\n'
    folder = course_gradebook(semester, policy)
    for day, total in ((15, None), (16, 60)):
        whole = add_up(read_graded(folder, semester.course, of_october(day)), semester.course)
        rows = {row.student.id: row.total for row in whole.rows}
        assert rows == {"zoe": total, "kim": 0}
    assert (
        "week1 may be handed in until 2026-10-15"
        in add_up(read_graded(folder, semester.course, of_october(15)), semester.course)
        .rows[1]
        .words
    )


def test_an_explanation_counts_practice_that_was_not_handed_in(
    semester: Semester,
) -> None:
    assignments = DUE.replace(', "running_mean"', "").replace('extra_credit = ["greeting"]\n', "")
    folder = course_gradebook(semester, assignments=assignments)
    kim, zoe = (
        CliRunner().invoke(main, ["policy", str(folder), "--explain", student]).output
        for student in ("kim", "zoe")
    )
    assert "Never due, and nothing was handed in: 1 more exercise." in kim
    assert "word_count  0 / 10" in kim and "running_mean" not in kim
    assert "running_mean  3.75 / 7.5" in zoe and "Never due" not in zoe


def test_parts_of_an_open_total_have_a_weight_but_no_share(semester: Semester) -> None:
    policy = '[[extension]]\nstudent = "zoe"\nby = "30 days"\nexercises = ["word_count"]\n'
    folder = course_gradebook(semester, policy)
    whole = add_up(read_graded(folder, semester.course, of_october(20)), semester.course)
    zoe = {row.student.id: row for row in whole.rows}["zoe"]
    assert "week2 5.75 / 7.5 = 76.67 %, with 2 of extra credit, weight 1. Total: open" in zoe.words


def test_a_students_term_so_far(semester: Semester, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = course_gradebook(semester)
    # Each page of a student computes it, so it must not read the whole class.
    monkeypatch.delattr(Gradebook, "students")

    def zoe(day: int) -> TermRow:
        with Gradebook.open(folder) as book:
            entry = book.entry_of("zoe")
            assert entry is not None
            row = TermSoFar(book, semester.course, of_october(day)).of(entry)
        assert row is not None
        return row

    assert zoe(12).words == (
        "week1 6 / 10 = 60 %, may be handed in until 2026-10-12 23:59:59 CEST. "
        "Total: open: no assignment counts yet"
    )
    assert [part.assignment for part in zoe(12).parts] == ["week1"]
    assert (zoe(13).total, [part.weight for part in zoe(13).parts]) == (60, [1, 0])
    assert zoe(20).total == 68.33
    semester.rule('[term]\nsame = [["kim", "zoe"], ["nobody", "nobody2"]]\n', DUE)
    assert "week1 has the person as kim and zoe" in zoe(20).words
    semester.rule('[term]\nsame = [["nobody", "zoe"]]\n', DUE)
    assert zoe(20).total == 68.33


def test_the_command_accepts_the_gradebook_of_a_whole_course(
    semester: Semester, tmp_path: Path
) -> None:
    folder = course_gradebook(semester)
    command = ["term", str(folder), "-o", str(tmp_path / "term")]
    done = CliRunner().invoke(main, [*command, "--course", str(semester.folder / "course")])
    assert done.exit_code == 0, done.output
    table = (tmp_path / "term/grades.csv").read_text("utf-8")
    assert "68.33" in table.splitlines()[2]


def test_the_command_writes_totals_a_page_and_an_upload(semester: Semester, tmp_path: Path) -> None:
    semester.rule("[term]\ncuts = {pass = 50, fail = 0}\n")
    graded(semester, zoe=(6.0, 2.0, 3.75), kim=(0.0, 0.0, 0.0))
    template = tmp_path / "canvas-export.csv"
    template.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,Term (7)\n"
        "    Points Possible,,,,,100\nzoe,1,zoe,,A,\nkim,2,kim,,A,\n",
        encoding="utf-8",
    )
    folders = [str(tmp_path / name) for name in EXERCISE]
    upload = ["--format", "canvas", "--template", str(template), "--column", "Term (7)"]
    course = ["--course", str(tmp_path / "course")]
    done = CliRunner().invoke(main, ["term", *folders, "-o", str(tmp_path / "t"), *course, *upload])
    assert done.exit_code == 0, done.output
    assert "2 students, mean 30 %" in done.output
    with (tmp_path / "t/grades.csv").open(encoding="utf-8", newline="") as file:
        kim, zoe = csv.DictReader(file)
    assert (kim["total"], kim["letter"]) == ("0", "fail")
    assert (zoe["week1"], zoe["total"], zoe["letter"]) == ("60", "60", "pass")
    lines = (tmp_path / "t/explained.txt").read_text("utf-8").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["kim", "zoe"]
    assert "zoe,1,zoe,,A,60" in (tmp_path / "t/canvas.csv").read_text(encoding="utf-8")
    page = (tmp_path / "t/index.html").read_text(encoding="utf-8")
    assert "week1 6 / 10 = 60 %, weight 1: 15" in page and "60\N{EN DASH}69 %: 1" in page


def test_every_format_with_a_template_accepts_a_total() -> None:
    assert {name for name, chosen in FORMATS.items() if "template" in chosen.reads} == set(UPLOADS)
