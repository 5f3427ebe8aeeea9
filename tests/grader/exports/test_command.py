"""`grade export` on the command line, for a class and for one result."""

from __future__ import annotations

import csv
import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import msgspec
import pytest

from grader import submissions
from grader.cli import main
from grader.course.manifest import load_course
from grader.exports import FORMATS
from grader.exports.files import Options, StudentFormat, open_export
from grader.gradebook import Gradebook
from grader.results import Entry, Outcome, Result, StudentInfo
from grader.submissions import ExerciseFile, Submission
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import HERE, key_of

from ..builders import checked, entry, exercise, unjudged

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
STUDENTS = ("ada", "Zoë =1+1", "=bob")
NAMES = [name for name in FORMATS if name != "classroom50"]


def grade(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    done = invoke(*arguments, cwd=PLAIN, **environment)
    return subprocess.CompletedProcess(
        arguments, done.exit_code, done.stdout_bytes, done.stderr_bytes
    )


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gradebook of a class of three. Ada has no points for one of two exercises."""
    results, course = tmp_path_factory.mktemp("class") / "results", load_course(PLAIN)
    with Gradebook.open_to_write(results) as book:
        book.begin(course)
        for student in STUDENTS:
            outcome = Outcome.ERROR if student == "ada" else Outcome.PASSED
            source = student.encode()
            found = submissions.Attempt(
                student=StudentInfo(id=student), origin="lab.zip", path=Path("lab.zip")
            )
            files = dict.fromkeys(("word_count", "greeting"), ExerciseFile(source))
            attempt = book.register(found, Submission(student, files))
            for name, worth, end in (
                ("word_count", 10, Outcome.PASSED),
                ("greeting", 2.5, outcome),
            ):
                verdict = exercise(checked("t", end), name=name, worth=worth, chapter="text")
                book.keep(attempt, key_of(source), 0, verdict, HERE)
        book.finish(())
    return results


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_bytes(msgspec.json.encode(entry(exercise(checked())).result))
    return path


def test_the_help_lists_every_format_and_the_formats_of_an_option() -> None:
    shown = " ".join(grade("export", "--help").stdout.decode().split())
    for name, chosen in FORMATS.items():
        assert f" {name} {chosen.summary}" in shown
        assert set(chosen.reads) <= set(Options.__struct_fields__)
    assert "--template FILE canvas, moodle: the file that the platform exported" in shown


def test_importing_the_command_line_imports_no_format() -> None:
    code = "import sys, grader.cli; print([m for m in sys.modules if 'exports.formats.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize("name", NAMES)
def test_every_format_of_a_class(results: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "out"
    done = grade("export", results, "--format", name, "-o", output)
    assert done.returncode == 0, done.stderr
    if isinstance(FORMATS[name], StudentFormat):
        files = sorted(output.iterdir())
        assert len(files) == 3
        assert all(file.stat().st_size for file in files if name != "annotations")
        assert all(file.parent == output for file in files)
    else:
        assert grade("export", results, "--format", name).stdout == output.read_bytes()
        if name == "feedback_zip":
            assert len(zipfile.ZipFile(output).namelist()) == 3
        else:
            assert len(output.read_bytes().splitlines()) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_every_format_of_one_result(one: Path, name: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    done = grade("export", one, "--format", name, "-o", output)
    assert done.returncode == 0, done.stderr
    assert output.is_file()
    if name in ("csv", "junit"):
        assert grade("export", one, "--format", name).stdout == output.read_bytes()


def test_the_csv_of_a_class_has_the_graded_scores(results: Path) -> None:
    done = grade("export", results, "--format", "csv")
    rows = {
        row["student"].lstrip("'"): row for row in csv.DictReader(done.stdout.decode().splitlines())
    }
    with Gradebook.open(results) as book:
        entries = {each.student.id: each for each in book.entries()}
    assert len(rows) == len(entries) == 3
    for student, row in rows.items():
        assert float(row["total"]) == entries[student].result.score
    assert float(rows["ada"]["text/greeting"]) == 0
    assert float(rows["ada"]["text/word_count"]) == 10


def test_json_lines_of_a_class(results: Path) -> None:
    lines = grade("export", results, "--format", "jsonl").stdout.splitlines()
    with Gradebook.open(results) as book:
        assert [msgspec.json.decode(line, type=Entry) for line in lines] == list(book.entries())


def test_a_result_of_grade_run_can_be_exported(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    grade("run", "greeting", "--submission", PLAIN / "solutions", "--json", result)
    done = grade("export", result, "--format", "gradescope")
    assert json.loads(done.stdout)["score"] == 2.5
    assert msgspec.json.decode(result.read_bytes(), type=Result).score == 2.5


def test_classroom50_reads_the_environment(one: Path) -> None:
    done = grade("export", one, "--format", "classroom50")
    assert done.returncode == 2
    assert b"CLASSROOM, ASSIGNMENT" in done.stderr
    given = {"CLASSROOM": "c", "ASSIGNMENT": "a", "SUBMISSION_TAG": "submit/1"}
    done = grade("export", one, "--format", "classroom50", **given, COMMIT_URL="u", RELEASE_URL="r")
    assert json.loads(done.stdout)["max-score"] == 1500


def test_an_existing_folder_gets_a_file(one: Path, tmp_path: Path) -> None:
    assert grade("export", one, "--format", "junit", "-o", tmp_path).returncode == 0
    assert (tmp_path / "result.xml").is_file()


def test_without_a_verdict_there_is_no_file_and_exit_3(tmp_path: Path) -> None:
    path, output = tmp_path / "result.json", tmp_path / "results.json"
    path.write_bytes(msgspec.json.encode(entry(unjudged()).result))
    done = grade("export", path, "--format", "gradescope", "-o", output)
    assert done.returncode == 3
    assert b"gelu could not be judged" in done.stderr
    assert not output.exists()


def test_notes_are_printed_without_control_characters(results: Path, tmp_path: Path) -> None:
    template = tmp_path / "canvas.csv"
    template.write_text(
        "Student,ID,SIS Login ID,Section,Lab (1)\n    Points Possible,,,,20\n"
        "Ada,1,ada,A,\n\x1b[31mEve,2,eve,A,\n",
        encoding="utf-8",
    )
    done = grade("export", results, "--format", "canvas", "--template", template)
    assert done.returncode == 0
    assert done.stdout.splitlines()[2] == b"Ada,1,ada,A,10"
    assert b"is not in the template" in done.stderr
    assert b"There is no submission for the row [31mEve." in done.stderr
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "is not a result"),
        ("not json", "is not a result"),
        ("\x00\xff", "is not a result"),
        ('{"schema_version": 99}', "schema version 99"),
        ('{"schema_version": 1}', "is not a result"),
        ('{"schema_version": 2}', "is not a result"),
    ],
)
def test_a_file_that_is_not_a_result_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text, encoding="latin-1")
    done = grade("export", path, "--format", "csv")
    assert done.returncode == 2
    assert why in done.stderr.decode()
    assert len(done.stderr.splitlines()) <= 4


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["RESULTS", "--format", "junit"], "name a folder with -o"),
        (["RESULTS", "--format", "csv", "-o", "FOLDER"], "csv is one file"),
        (["FOLDER", "--format", "csv"], "There is no gradebook"),
        (["nowhere", "--format", "csv"], "does not exist"),
        (["RESULTS", "--format", "pdf"], "is not one of"),
    ],
)
def test_usage(results: Path, tmp_path: Path, arguments: list[str], why: str) -> None:
    places = {"RESULTS": str(results), "FOLDER": str(tmp_path)}
    done = grade("export", *(places.get(each, each) for each in arguments))
    assert done.returncode == 2
    assert why in done.stderr.decode()


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "grades.csv"
    path.write_text("before", encoding="utf-8")
    path.chmod(0o600)

    def interrupted() -> None:
        with open_export(path) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text(encoding="utf-8") == "before"
    with open_export(path) as out:
        out.write(b"after")
    assert path.read_text(encoding="utf-8") == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["grades.csv"]
    new = tmp_path / "new.csv"
    with open_export(new) as out:
        out.write(b"x")
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_an_unwritable_output_is_an_error(one: Path, tmp_path: Path) -> None:
    done = grade("export", one, "--format", "csv", "-o", tmp_path / "no" / "grades.csv")
    assert done.returncode == 2
    assert b"There is no folder" in done.stderr
    (tmp_path / "file").touch()
    done = grade("export", one, "--format", "csv", "-o", tmp_path / "file" / "grades.csv")
    assert (done.returncode, b"cannot be written" in done.stderr) == (2, True)
    if Path("/dev/full").exists():
        done = grade("export", one, "--format", "csv", "-o", "/dev/full")
        assert (done.returncode, b"cannot be written" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("csv", ("--template", __file__)),
        ("jsonl", ("--column", "Lab 1")),
        ("gradescope", ("--out-of", "10")),
        ("canvas", ("--excel",)),
    ],
)
def test_an_option_that_a_format_does_not_read_is_refused(
    results: Path, tmp_path: Path, name: str, option: tuple[str, ...]
) -> None:
    done = grade("export", results, "--format", name, *option, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert f"{name} has no use for {option[0]}".encode() in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("points", ["nan", "inf", "-inf", "0", "-5", "15,5"])
def test_out_of_must_be_a_positive_number(points: str) -> None:
    command = main.load("export")
    with pytest.raises(click.BadParameter, match=r"finite|range"):
        command.make_context("export", [str(PLAIN), "--format", "csv", "--out-of", points])
