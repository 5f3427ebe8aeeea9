"""Regrade requests: kept once, answered, shown to the student, and harmless whatever their text."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.errors import SubmissionError
from grader.exports.formats.feedback import html_feedback, markdown_feedback, plain_feedback
from grader.gradebook import Gradebook
from grader.gradebook.requests import MAX_REQUESTS, answer, ask, keep_requests, open_requests
from grader.results import Entry, StudentInfo
from grader.submissions import find_class, read_attempt
from grader.submissions.requests import MAX_CHARACTERS, message_of
from tests.grader.gradebook.conftest import School

RIGHT = b"def double(x):\n    return 2 * x\n"
# A terminal escape, a bell, a change of reading direction, HTML, Markdown and a null character.
HOSTILE = "\x1b[2J\x07\u202eabc <script>alert(1)</script> ``` **b** [l](http://e.x)\x00"


@pytest.fixture
def graded(school: School) -> School:
    """Return a gradebook of two students with 8 and 10 of 10 points."""
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student, score in (("ann", 8.0), ("bob", 10.0)):
            source = RIGHT + student.encode()
            school.keep(book, school.hand_in(book, student, source), score, source)
        book.finish(())
    return school


def grade(school: School, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["requests", str(school.results), *arguments])


def entry(school: School, student: str) -> Entry:
    with Gradebook.open(school.results) as book:
        found = book.entry_of(student)
    assert found is not None
    return found


def test_a_request_and_its_answer_are_shown(graded: School) -> None:
    assert grade(graded, "--ask", "ann", "task", "I think\nthis is right.").exit_code == 0
    listed = grade(graded)
    assert "No.  Student  Exercise     Points  Asked" in listed.output
    assert "  1  ann      task         8 / 10" in listed.output
    assert "“I think this is right.”" in listed.output
    assert "It is not answered yet." in plain_feedback(entry(graded, "ann"))
    assert grade(graded, "1", "--answer", "It is.", "--author", "ben").exit_code == 0
    assert "1 request answered: --all also shows them." in grade(graded).output
    for text in (
        plain_feedback(entry(graded, "ann")),
        markdown_feedback(entry(graded, "ann")),
        html_feedback(entry(graded, "ann")),
        CliRunner().invoke(main, ["show", str(graded.results), "ann"]).output,
        CliRunner().invoke(main, ["export", str(graded.results), "--format", "csv"]).output,
    ):
        assert "I think this is right." in text and "Answer: It is." in text, text
        assert "ben" not in text, "only staff see who answered"
    assert "Answer" not in plain_feedback(entry(graded, "bob"))
    kept = json.loads((graded.results / "results" / "ann.json").read_bytes())
    assert kept["exercises"][0]["requests"][0]["answer"] == "It is."
    assert kept["score"] == 8, "an answer changes no points"


def test_a_second_answer_replaces_the_first_one_which_stays_in_the_history(graded: School) -> None:
    grade(graded, "--ask", "ann", "task", "Look again.")
    grade(graded, "1", "--answer", "No.", "--author", "ben")
    grade(graded, "1", "--answer", "Yes, after all.", "--author", "eve")
    shown = grade(graded, "1").output
    assert shown.index("Answered by ben") < shown.index("No.") < shown.index("Answered by eve")
    assert "8 / 10" in shown, "the points are shown with it"
    feedback = plain_feedback(entry(graded, "ann"))
    assert "Yes, after all." in feedback and "Answer: No." not in feedback


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("7",), 2, "There is no request 7. Requests here: none yet."),
        (("7", "--answer", "x"), 2, "There is no request 7"),
        (("--answer", "x"), 2, "the request to answer"),
        (("--ask", "zoe", "task", "x"), 2, "There is no student 'zoe' here."),
        (("--ask", "ann", "tusk", "x"), 2, "'tusk' was not graded here. Did you mean 'task'?"),
        (("--ask", "ann", "task", " \n"), 2, "The request is empty"),
    ],
)
def test_a_wrong_command_is_explained(
    graded: School, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = grade(graded, *arguments)
    assert done.exit_code == code and message in done.output, done.output


def test_a_repeated_message_is_one_request_and_requests_are_limited(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        ask(book, "ann", "task", "Look again.", "test")
        with pytest.raises(SubmissionError, match="as request 1"):
            ask(book, "ann", "task", "Look  again.", "test")
        for number in range(1, MAX_REQUESTS):
            ask(book, "ann", "task", f"And {number}?", "test")
        with pytest.raises(SubmissionError, match="The limit is 20 requests about task"):
            ask(book, "ann", "task", "Once more?", "test")
        with book.transaction():
            assert keep_requests(book, "ann", {"task": "Again?"}, "", "test") == 0
        assert len(book.requests()) == MAX_REQUESTS


def test_a_message_is_shortened_and_harmless_wherever_it_is_shown(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        ask(book, "ann", "task", HOSTILE + "x" * 100_000, "test")
        ((request),) = book.requests()
        answer(book, request, HOSTILE, HOSTILE)
    assert len(request.message) <= MAX_CHARACTERS
    shown = grade(graded, "--all").output + grade(graded, "1").output
    ann = entry(graded, "ann")
    for text in (shown, plain_feedback(ann), markdown_feedback(ann), html_feedback(ann)):
        assert not set(text) & set("\x1b\x07\u202e\x00"), "no control character is left"
    assert "<script>" not in html_feedback(ann)
    assert "\\`" in markdown_feedback(ann), "a fence is text"
    report = graded.results / "report"
    arguments = ["report", str(graded.results), "-o", str(report)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    for page in (report / "students" / "ann.html", report / "staff" / "students" / "ann.html"):
        text = page.read_text("utf-8")
        assert "<script>alert" not in text and "alert(1)" in text


def test_anonymous_hides_names_in_the_message_too(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        with book.transaction():
            book.keep_student(StudentInfo(id="ann", name="Ann Lee"))
        ask(book, "ann", "task", "This is Ann Lee, look again.", "test")
    shown = grade(graded, "--anonymous").output + grade(graded, "1", "--anonymous").output
    assert "Lee" not in shown and "ann " not in shown and "anon-" in shown


def test_one_answer_answers_the_request_of_a_team(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        book.change(teams=True)
        with book.transaction():
            for student, team in (("ann", "red"), ("bob", "red"), ("cem", "blue")):
                book.keep_student(StudentInfo(id=student, ids={"team": team}))
                keep_requests(book, student, {"task": "Look again."}, "", "test")
        answered = answer(book, book.requests()[0], "Done.", "ben")
        assert [each.student for each in answered] == ["ann", "bob"]
        assert [each.student for each in open_requests(book.requests())] == ["cem"]


def test_an_older_gradebook_is_read_and_gets_the_tables(graded: School) -> None:
    file = graded.results / "gradebook.sqlite"
    with sqlite3.connect(file) as connection:
        connection.executescript("DROP TABLE answers; DROP TABLE requests")
    connection.close()
    assert "No student asked for a regrade." in grade(graded).output
    assert grade(graded, "--ask", "ann", "task", "Look again.").exit_code == 0
    assert "Look again." in grade(graded).output


def class_with(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


FILES = {
    "ann/one/task.py": RIGHT,
    "ann/one/task.request.txt": "\ufeffMy answer is right.\n".encode(),
    "ann/notes.request.txt": b"about no exercise",
    "bob/task.py": RIGHT,
    "bob/Task.request (1).md": b"\xff\xfe broken",
    "cem/task.py": RIGHT,
    "cem/task.request.txt": b"x" * 300_000,
}


@pytest.mark.parametrize("packed", [False, True], ids=["folders", "archives"])
def test_a_file_beside_the_work_is_a_request(school: School, tmp_path: Path, packed: bool) -> None:
    download = class_with(tmp_path / "class", FILES)
    if packed:
        folders, download = download, tmp_path / "archives"
        download.mkdir()
        for student in folders.iterdir():
            with zipfile.ZipFile(download / f"{student.name}.zip", "w") as archive:
                for path in sorted(student.rglob("*.*")):
                    archive.write(path, path.relative_to(student))
    found = {each.student.id: each for each in find_class(download, school.course).attempts}
    read = {name: read_attempt(each, school.course) for name, each in found.items()}
    assert read["ann"].requests == {"task": "My answer is right."}
    assert read["ann"].files["task"].source == RIGHT and not read["ann"].files["task"].problem
    assert "broken" in read["bob"].requests["task"]
    assert "The request cannot be read:" in read["cem"].requests["task"]
    assert read["cem"].files["task"].source == RIGHT


def test_a_request_renamed_by_canvas_is_found(school: School, tmp_path: Path) -> None:
    files = {"doejane_12_34_task.py": RIGHT, "doejane_12_35_task.request-1.txt": b"Look again."}
    (attempt,) = find_class(class_with(tmp_path / "class", files), school.course).attempts
    assert read_attempt(attempt, school.course).requests == {"task": "Look again."}


def test_a_blank_message_is_empty() -> None:
    assert message_of(" \n\t ") == ""


def test_only_requests_about_graded_exercises_are_listed(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        ask(book, "ann", "task", "Look again.", "test")
        book.change(exercises=("other",))
        assert book.requests() == []


def test_a_result_with_a_request_fits_the_schema(graded: School) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        ask(book, "ann", "task", "Look again.", "test")
    result = entry(graded, "ann").result
    assert msgspec.json.decode(msgspec.json.encode(result), type=type(result)) == result
