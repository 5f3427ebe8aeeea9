"""The file of an attempt that is judged, and notes on its other files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions import Attempt, ExerciseFile, find_class, read_attempt, read_submission
from grader.submissions.member import AttemptFile, Member, read_member
from grader.submissions.names import rank, spoken_of

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Files, Pack

WORK = b"class GatedLinearUnit:\n    pass\n\n\ndef gradient_flow(x):\n    return 1\n"
OTHER = WORK.replace(b"1", b"2")

Handed = Callable[["Files"], ExerciseFile]


@pytest.fixture
def stub(course: Course) -> bytes:
    return course.stub(course.exercise("glu")).source


@pytest.fixture
def few(course: Course) -> Course:
    return course.only([course.exercise(name) for name in ("relu", "gelu", "glu")])


@pytest.fixture(params=["tar.gz", "class.zip", "grade run"])
def handed(
    request: pytest.FixtureRequest,
    few: Course,
    tmp_path: Path,
    lay: Callable[[Path, Files], Path],
    zipped: Pack,
    tarred: Pack,
) -> Handed:
    """Return a function that reads the file for glu from an attempt, packed in several ways."""

    def run(files: Files) -> ExerciseFile:
        if request.param == "class.zip":
            path = tmp_path / "class.zip"
            path.write_bytes(
                zipped({f"ada/{name}": data for name, data in files.items()} | {"bob/x.txt": b""})
            )
            (found, _) = find_class(path, few).attempts
            return read_attempt(found, few).files["glu"]
        if request.param == "grade run":
            return read_submission(lay(tmp_path / "ada", files), few).files["glu"]
        path = tmp_path / "ada.tar.gz"
        path.write_bytes(tarred(files, "w:gz"))
        student, members = StudentInfo(id="ada"), (AttemptFile(path.name, path),)
        found = Attempt(student=student, path=path, members=members)
        return read_attempt(found, few).files["glu"]

    return run


@pytest.mark.parametrize(
    "name",
    [
        "modules/glu (1).py",
        "modules/glu-1.py",
        "modules/glu_1.py",
        "modules/glu copy 2.py",
        "modules/glu - Kopie.py",
        "modules/Copy of glu.py",
        "modules/Glu.py",
        "modules/glu.txt",
        "modules/glu.py.txt",
        "week1/glu.py",
        "src/glu.py",
    ],
)
@pytest.mark.parametrize("first", ["stub", "empty", "stub with a mark"])
def test_work_is_preferred_to_a_stub(handed: Handed, stub: bytes, name: str, first: str) -> None:
    of = {"stub": stub, "empty": b"\n", "stub with a mark": b"\xef\xbb\xbf# me\n" + stub}[first]
    found = handed({"modules/glu.py": of, name: WORK})
    assert found.source == WORK
    assert found.seems_misnamed
    why = "is empty" if first == "empty" else "is still the stub"
    assert found.problem == f"Judged: {name}, since modules/glu.py {why}."


@pytest.mark.parametrize(
    ("stub_at", "work_at"),
    [
        ("modules/glu.py", "exercises/modules/glu.py"),
        ("exercises/modules/glu.py", "modules/glu.py"),
        ("modules/glu.py", "glu.py"),
    ],
)
def test_a_stub_in_another_usual_place_gives_no_note(
    handed: Handed, stub: bytes, stub_at: str, work_at: str
) -> None:
    found = handed({stub_at: stub, work_at: WORK})
    assert (found.source, found.problem) == (WORK, "")


@pytest.mark.parametrize(
    ("files", "judged", "message"),
    [
        ({"modules/glu.py": WORK, "modules/glu (1).py": OTHER}, WORK, "Not judged: glu (1).py."),
        ({"modules/glu.py": WORK, "old/glu.py": OTHER}, WORK, "Not judged: old/glu.py."),
        ({"modules/glu.py": WORK, "glu.py": OTHER}, WORK, "Not judged: glu.py."),
        ({"modules/glu.py": WORK, "glu_old.py": OTHER}, WORK, "Not judged: glu_old.py."),
        ({"glu (1).py": WORK, "glu (2).py": OTHER}, OTHER, "Not judged: glu (1).py."),
        (
            {"glu.py": b"def f(:\n", "glu (1).py": WORK},
            WORK,
            "Judged: glu (1).py, since glu.py is not valid",
        ),
        ({"glu.py": b"<html>", "Glu.py": WORK}, WORK, "Judged: Glu.py, since glu.py is not valid"),
        # Equal code and files unrelated to the exercise give no note.
        ({"modules/glu.py": WORK, "modules/glu (1).py": WORK}, WORK, ""),
        ({"modules/glu.py": WORK, "glu_old.py": b"# old\n" + WORK}, WORK, ""),
        ({"modules/glu.py": WORK, "glu-1.py": WORK.replace(b"\n", b"\r\n")}, WORK, ""),
        ({"modules/glu.py": WORK, "utils.py": b"def load(): ...\n"}, WORK, ""),
        ({"modules/glu.py": WORK, "solution.py": OTHER}, WORK, ""),
        ({"modules/glu.py": WORK, "test_glu.py": b"def gradient_flow(): ...\n"}, WORK, ""),
        ({"modules/glu.py": WORK, "plot_glu.py": b"print(1)\n"}, WORK, ""),
    ],
)
def test_the_likelier_of_two_edited_files_is_judged(
    handed: Handed, files: dict[str, bytes], judged: bytes, message: str
) -> None:
    found = handed(files)
    assert found.source == judged
    assert message in found.problem if message else not found.problem
    assert found.seems_misnamed is bool(message)


def test_an_untouched_stub_under_another_name_is_ignored(handed: Handed, stub: bytes) -> None:
    found = handed({"modules/glu.py": WORK, "glu_orig.py": stub, "orig/glu.py": stub})
    assert (found.source, found.problem) == (WORK, "")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("hw3.py", WORK),
        ("src/solution.py", b"import torch\n\n\nclass GatedLinearUnit(:\n"),
        ("Untitled.ipynb", b'{"cells": [{"source": ["import x\\n", "def gradient_flow(x):\\n"]}]}'),
        ("modules/gelu.py", WORK + b"\n\ndef gelu(x):\n    return x\n"),
        ("glu.docx", b"PK\x03\x04"),
        ("glu.txt", b"my answer is here\n"),
        ("._glu.py.txt.py", b""),
    ],
)
@pytest.mark.parametrize("first", ["stub", "empty", "missing"])
def test_work_in_a_file_with_another_name_is_noted(
    handed: Handed, stub: bytes, name: str, source: bytes, first: str
) -> None:
    is_told = bool(source)
    files = {"modules/glu.py": stub if first == "stub" else b""} if first != "missing" else {}
    found = handed({"modules/relu.py": b"x = 1\n", **files, name: source})
    assert found.source == (None if first == "missing" else files["modules/glu.py"])
    assert found.seems_misnamed is is_told
    assert (f"Also handed in: {name.rpartition('/')[2]}" in found.problem) is is_told


HTML = b"<p>def gradient_flow(x):<br>    return 1</p>"


@pytest.mark.parametrize(
    ("name", "source", "is_told"),
    [
        ("glu", WORK, True),
        ("glu.py.download", WORK, True),
        ("glu.py~", WORK, True),
        ("glu.py (1)", WORK, True),
        ("glu.text", WORK, True),
        ("loesung.txt", WORK, True),
        ("hw1.md", WORK, True),
        ("solution.py3", WORK, True),
        ("test_glu.py", WORK, True),
        ("glu/__init__.py", WORK, True),
        ("onlinetext.html", HTML, True),
        # Prose, other code, and tests of the exercise.
        ("notes.txt", b"I wrote the class GatedLinearUnit and def gradient_flow.\n", False),
        ("report.html", b"<p>My class GatedLinearUnit is done.</p>", False),
        ("hw1.md", b"def other(x):\n    return 1\n", False),
        ("test_glu.py", b"import glu\n\ndef test_glu():\n    glu.gradient_flow(1)\n", False),
        ("weights.npy", WORK, False),
    ],
)
@pytest.mark.parametrize("first", ["stub", "missing"])
def test_work_in_a_text_of_any_name_is_noted(
    handed: Handed, stub: bytes, name: str, source: bytes, is_told: bool, first: str
) -> None:
    files = {"modules/glu.py": stub} if first == "stub" else {}
    others = {f"a{number}.csv": b"1" for number in range(5)}
    found = handed({"autograd/gelu.py": b"x = 1\n", **others, **files, name: source})
    assert found.seems_misnamed is is_told
    assert not is_told or f"Also handed in: {name.rpartition('/')[2]}" in found.problem
    assert not handed({"modules/glu.py": OTHER, name: source}).seems_misnamed


@pytest.mark.parametrize("name", ["tests/glu.py", "env/work/glu.py", ".venv/modules/glu.py"])
@pytest.mark.parametrize("first", ["stub", "missing"])
def test_work_in_an_ignored_folder_is_noted_if_there_is_no_other(
    handed: Handed, stub: bytes, name: str, first: str
) -> None:
    files = {"modules/relu.py": b"x = 1\n"} | ({"modules/glu.py": stub} if first == "stub" else {})
    found = handed(files | {name: WORK})
    assert found.source == files.get("modules/glu.py")
    assert found.seems_misnamed
    assert found.problem.endswith(
        f"Also handed in: {name}. Nothing in a folder named env, venv or tests is judged."
    )
    assert not handed({"modules/glu.py": OTHER, name: WORK}).seems_misnamed


@pytest.mark.parametrize(
    "name",
    [
        "venv/lib/python3.11/site-packages/torch/glu.py",
        "env/Lib/glu.py",
        ".venv/lib/python3.11/glu.py",
        "tests/stubs/modules/glu.py",
        "tests/test_glu.py",
        ".git/glu.py",
        "node_modules/glu.py",
    ],
)
def test_files_of_tools_and_libraries_give_no_note(handed: Handed, stub: bytes, name: str) -> None:
    files = {"modules/relu.py": b"x = 1\n", "modules/glu.py": stub, "tests/glu.py": stub}
    assert not handed(files | {name: WORK}).seems_misnamed


def test_more_files_than_are_read_are_noted_if_an_exercise_has_no_work(
    handed: Handed, stub: bytes
) -> None:
    files = {"relu.py": b"x = 1\n", "autograd/gelu.py": b"x = 1\n", "modules/glu.py": stub}
    many = {f"task{number}.py": b"x = 1\n" for number in range(41)}
    library = {f"my/lib/python3.11/{name}": source for name, source in many.items()}
    assert handed(files | library | {"task1.py": b"x = 1\n"}).problem == ""
    note = "Not all of the other files were looked at, only 40."
    assert handed(files | many).problem == note
    assert handed({**files, **many, "modules/glu.py": WORK}).problem == ""


def test_code_of_no_exercise_is_noted_once_if_there_is_no_other_work(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path]
) -> None:
    stubs = {e.file: course.stub(e).source for e in course.exercises[:3]}
    mine = {"hw/main.py": b"def f(x):\n    return x\n", "conftest.py": b"x = 1\n"}
    given = {"bench/__main__.py": (course.root / "bench/__main__.py").read_bytes()}
    files = read_submission(lay(tmp_path / "ada", stubs | mine | given), course).files
    noted = [name for name, file in files.items() if file.seems_misnamed]
    assert noted == [course.exercises[0].id]
    assert files[noted[0]].problem == "Also handed in: main.py, which is not an exercise's name."
    (tmp_path / "ada" / course.exercises[2].file).write_bytes(b"x = 1\n")
    files = read_submission(tmp_path / "ada", course).files
    assert not any(file.seems_misnamed for file in files.values())


@pytest.mark.parametrize(
    ("name", "is_told"),
    [("answer.docx", True), ("a.PDF", True), ("me.png", True), ("x.csv", False), ("x.md", False)],
)
def test_a_document_is_noted_only_if_there_is_no_work(
    few: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], name: str, is_told: bool
) -> None:
    stubs = {e.file: few.stub(e).source for e in few.exercises}
    folder = lay(tmp_path / "ada", stubs | {name: b"?"})
    files = read_submission(folder, few).files
    problems = [file.problem for file in files.values() if file.seems_misnamed]
    assert problems == ([f"Also handed in: {name}."] if is_told else [])
    lay(folder, {few.exercises[-1].file: b"x = 1\n"})
    files = read_submission(folder, few).files
    assert not any(file.seems_misnamed for file in files.values())


def test_an_archive_beside_the_stub_is_opened(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], zipped: Pack, stub: bytes
) -> None:
    work = zipped({"work/glu.py": WORK})
    found = read_submission(lay(tmp_path / "a", {"modules/glu.py": stub, "w.zip": work}), course)
    assert found.files["glu"].source == WORK
    nested = lay(tmp_path / "b", {"b.zip": zipped({"modules/glu.py": stub, "w.zip": work})})
    only = course.only([course.exercise("glu")])
    handed_in = read_submission(nested / "b.zip", only).files["glu"]
    assert handed_in.source == stub
    assert handed_in.problem == "Also handed in: w.zip. An archive in an archive is not opened."
    many = lay(
        tmp_path / "d", {"glu.py": stub} | dict.fromkeys(["1.zip", "2.zip", "3.zip", "4.zip"], work)
    )
    handed_in = read_submission(many, only).files["glu"]
    assert handed_in.problem == "There are 4 archives: hand in one."
    assert handed_in.seems_misnamed
    broken = lay(tmp_path / "c", {"modules/glu.py": stub, "w.zip": work[:40]})
    handed_in = read_submission(broken, only).files["glu"]
    assert handed_in.problem.startswith("w.zip is cut off or damaged")
    assert handed_in.seems_misnamed


@pytest.mark.parametrize(
    ("archives", "noted", "problem"),
    [
        ({"glu.rar": b"Rar!\x1a\x07\x01\x00"}, "glu", "glu.rar is not a zip or tar, and other"),
        ({"rest.zip": b"PK\x03\x04"}, "relu", "rest.zip is cut off or damaged"),
        ({"glu.zip": WORK}, "glu", "glu.zip is not a zip or tar"),
        ({"glu.py.gz": gzip.compress(WORK)}, "glu", "glu.py.gz holds no folder: pack one as a"),
        ({"rest.zip": b"PK\x05\x06" + bytes(18)}, "relu", "rest.zip has no files of yours in it"),
        (dict.fromkeys(["1.zip", "2.zip", "3.zip", "4.zip"], b""), "relu", "There are 4 archives"),
    ],
)
def test_an_archive_that_is_not_opened_is_noted_beside_work(
    few: Course,
    tmp_path: Path,
    lay: Callable[[Path, Files], Path],
    archives: dict[str, bytes],
    noted: str,
    problem: str,
) -> None:
    handed_in = {"autograd/gelu.py": b"x = 1\n"} | archives
    files = read_submission(lay(tmp_path / "ada", handed_in), few).files
    assert [name for name, file in files.items() if file.seems_misnamed] == [noted]
    assert f" And {problem}" in files[noted].problem


def test_exercises_that_are_not_graded_give_no_note(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path]
) -> None:
    only = course.only([course.exercise("fit")])
    files = {e.file: course.stub(e).source for e in course.exercises}
    files["debugging/bug_hunt.py"] = files["debugging/bug_hunt.py"].replace(b"def ", b"def  ")
    files["modules/glu.py"] = WORK
    read = read_submission(lay(tmp_path / "ada", files), only).files["fit"]
    assert (read.problem, read.seems_misnamed) == ("", False)


def test_a_single_named_file_gets_a_note_about_work_beside_it(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], stub: bytes
) -> None:
    folder = lay(tmp_path / "ada", {"glu.py": stub, "glu (1).py": WORK})
    read = read_submission(folder / "glu.py", course).files["glu"]
    assert read.source == stub
    assert read.problem.startswith("Also handed in: glu (1).py.")
    (folder / "glu.py").write_bytes(OTHER)
    assert read_submission(folder / "glu.py", course).files["glu"].problem == ""


def test_thousands_of_other_files_are_not_read(
    course: Course, tmp_path: Path, zipped: Pack, stub: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(member: Member, most: int) -> bytes:
        read.append(member.path)
        return read_member(member, most)

    files = {f"lib/{number}/{each}.py": b"x = 1\n" for number in range(60) for each in range(30)}
    data = {f"ada/{name}": source for name, source in files.items()}
    data |= {"ada/modules/glu.py": stub, "ada/hw3.py": WORK, "bob/glu.py": WORK}
    (tmp_path / "class.zip").write_bytes(zipped(data))
    monkeypatch.setattr("grader.submissions.attempt.read_member", counted)
    only = course.only([course.exercise("glu")])
    ada, bob = find_class(tmp_path / "class.zip", only).attempts
    assert read_attempt(ada, only).files["glu"].problem.startswith("Also handed in: hw3.py,")
    assert len(read) <= 42
    read.clear()
    assert read_attempt(bob, only).files["glu"].problem == ""
    assert read == ["bob/glu.py"]


def test_names_of_copies_are_ranked(course: Course) -> None:
    glu, norm = course.exercise("glu"), course.exercise("batch_norm")
    order = ["modules/glu.py", "glu.py", "a/glu.py", "glu (2).py", "glu-1.py", "GLU.PY", "glu.txt"]
    ranks = [rank(glu, path) for path in order]
    assert all(ranks) and ranks == sorted(ranks, key=lambda each: each or ())
    for name in ("gluten.py", "glu_solution.py", "glu.md", "gelu.py", "my glu.py", "glu" * 200):
        assert rank(glu, name) is None
    assert rank(norm, "Batch_Norm (3).py") is not None
    assert spoken_of(course, "my_batch_norm_v2.py") == [norm]
    assert spoken_of(course, "MyGlu2.py") == [glu]
    for name in ("test_glu.py", "gluten.py", "glu_notes.txt", "glu_plot.png", "conftest.py"):
        assert spoken_of(course, name) == []
