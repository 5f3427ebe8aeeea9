"""A single submission given by path: a folder, a file, or an archive of a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import Attempt, State, attempt, file_of, read_attempt, read_submission

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Files, Pack

GLU = b"def glu(): ...\n"
Lay = Callable[[Path, "Files"], Path]


def test_the_first_usual_place_in_a_folder_counts(course: Course, tmp_path: Path, lay: Lay) -> None:
    lay(
        tmp_path, {"modules/glu.py": GLU, "exercises/modules/glu.py": b"second", "glu.py": b"third"}
    )
    read = read_submission(tmp_path, course)
    assert read.files["glu"].source == GLU
    assert read.files["glu"].path == file_of(tmp_path, course.exercise("glu"))
    assert read.files["gelu"].state(course.stub(course.exercise("gelu"))) is State.MISSING


def test_folders_within_a_folder_are_searched(course: Course, tmp_path: Path, lay: Lay) -> None:
    lay(tmp_path / "alice", {"homework/final/glu.py": GLU})
    read = read_submission(tmp_path / "alice", course)
    assert read.name == "alice"
    assert read.files["glu"].source == GLU
    assert read.files["glu"].path == tmp_path / "alice/homework/final/glu.py"
    assert file_of(tmp_path / "alice", course.exercise("glu")) == read.files["glu"].path
    assert (
        file_of(tmp_path / "alice", course.exercise("gelu")) == tmp_path / "alice/autograd/gelu.py"
    )


def test_a_broken_archive_beside_files_is_mentioned(
    course: Course, tmp_path: Path, lay: Lay
) -> None:
    read = read_submission(lay(tmp_path / "a", {"glu.py": GLU, "rest.zip": b"PK\x03\x04"}), course)
    assert read.files["glu"].source == GLU
    assert read.files["gelu"].problem == (
        "autograd/gelu.py is missing: hand it in under this name. And rest.zip is cut off or "
        "damaged: its table of contents is missing. Pack it again and hand it in."
    )


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_an_archive_is_a_submission(
    course: Course, tmp_path: Path, zipped: Pack, tarred: Pack, suffix: str
) -> None:
    path, files = (
        tmp_path / f"alice.{suffix}",
        {"alice/modules/glu.py": GLU, "alice/gelu.py": b"x = ("},
    )
    path.write_bytes(zipped(files) if suffix == "zip" else tarred(files, "w:gz"))
    link = tmp_path / f"link.{suffix}"
    link.symlink_to(path)
    for pointed_at in (path, link):
        read = read_submission(pointed_at, course)
        assert read.name == path.name
        assert read.files["glu"].source == GLU
        glu, gelu = course.exercise("glu"), course.exercise("gelu")
        assert read.files["glu"].state(course.stub(glu)) is State.EDITED
        assert read.files["gelu"].state(course.stub(gelu)) is State.INVALID
        assert file_of(pointed_at, glu) == pointed_at


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.zip", b"hello", "a.zip is not a zip or tar"),
        ("a.zip", None, "has no file of"),
        ("a.txt", b"", "is not named after an exercise"),
        ("a.py", b"x = 1\n" * 40_000, "a.py is larger than 200,000 bytes"),
    ],
)
def test_an_archive_or_file_without_an_exercise_is_refused(
    course: Course, tmp_path: Path, zipped: Pack, name: str, data: bytes | None, message: str
) -> None:
    (tmp_path / name).write_bytes(zipped({"x.txt": b""}) if data is None else data)
    with pytest.raises(SubmissionError, match=message):
        read_submission(tmp_path / name, course)


def test_a_missing_or_empty_submission_is_refused(course: Course, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="There is no submission at"):
        read_submission(tmp_path / "nowhere", course)
    with pytest.raises(SubmissionError, match="has no file of"):
        read_submission(tmp_path, course)


def test_the_state_of_a_file_is_kept_after_it_is_deleted(
    course: Course, tmp_path: Path, lay: Lay
) -> None:
    read = read_submission(lay(tmp_path, {"modules/glu.py": GLU}), course)
    (tmp_path / "modules/glu.py").unlink()
    assert read.files["glu"].state(course.stub(course.exercise("glu"))) is State.EDITED


def test_grade_run_accepts_an_archive(course: Course, tmp_path: Path, zipped: Pack) -> None:
    stubs = {each.file: course.stub(each).source for each in course.exercises}
    (tmp_path / "alice.zip").write_bytes(
        zipped({f"alice/{name}": data for name, data in stubs.items()})
    )
    command = [sys.executable, "-m", "grader.cli", "run", "--course", str(course.root)]
    done = subprocess.run(
        [*command, "--submission", "alice.zip", "--json", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert {each["status"] for each in json.loads(done.stdout)["exercises"]} == {"not_attempted"}
    assert [path.name for path in tmp_path.iterdir()] == ["alice.zip"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a special permission on Windows")
def test_a_folder_that_is_a_link_is_not_followed(course: Course, tmp_path: Path, lay: Lay) -> None:
    lay(tmp_path / "other", {"modules/glu.py": GLU, "autograd/gelu.py": GLU})
    lay(tmp_path / "mine", {"autograd/gelu.py": GLU})
    (tmp_path / "mine" / "modules").symlink_to(tmp_path / "other" / "modules")
    files = read_submission(tmp_path / "mine", course).files
    assert files["gelu"].source is not None
    assert files["glu"].source is None
    assert files["glu"].problem == "modules is a link; hand in the folder itself."
    (tmp_path / "exercises").symlink_to(tmp_path / "other")
    (tmp_path / "mine" / "modules").unlink()
    (tmp_path / "mine" / "exercises").symlink_to(tmp_path / "other")
    assert read_submission(tmp_path / "mine", course).files["glu"].source is None


@pytest.mark.parametrize(
    ("name", "seems_misnamed"),
    [
        ("gelu.py.txt", True),
        ("GELU_final_v2.py", True),
        ("my-gelu.ipynb", True),
        ("activation.py", False),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_misnamed_file_is_noted_beside_correct_ones(
    course: Course,
    tmp_path: Path,
    lay: Lay,
    zipped: Pack,
    name: str,
    seems_misnamed: bool,
    packed: bool,
) -> None:
    files = {"glu.py": GLU, "a.pdf": b"", "b.pdf": b"", "c.pdf": b"", name: GLU}
    path = tmp_path / "alice.zip"
    if packed:
        path.write_bytes(zipped(files))
    else:
        path = lay(tmp_path / "alice", files)
    handed = read_submission(path, course).files["gelu"]
    notebook = ""
    if name.endswith(".ipynb"):
        notebook = " A notebook is not judged: copy the code out of its cells into gelu.py."
    assert handed.problem == (
        f"autograd/gelu.py is missing: hand it in under this name. Also handed in: {name}.{notebook}"
    )
    assert handed.seems_misnamed is seems_misnamed


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("glu_solution.py", True),
        ("MyGlu2.py", True),
        ("glu.ipynb", True),
        (".glu.py", True),
        ("._glu.py", False),
        ("test_glu.py", False),
        # Their only work, under unrelated names.
        ("gluten.py", True),
        ("plot.py", True),
    ],
)
def test_misnamed_work_beside_the_untouched_stub_is_noted(
    course: Course, tmp_path: Path, lay: Lay, zipped: Pack, name: str, packed: bool, is_told: bool
) -> None:
    stub = course.stub(course.exercise("glu")).source
    files = {"modules/glu.py": stub, f"modules/{name}": GLU}
    path = tmp_path / "alice.zip"
    if packed:
        path.write_bytes(zipped(files))
    else:
        path = lay(tmp_path / "alice", files)
    handed = read_submission(path, course).files["glu"]
    assert handed.source == stub
    assert handed.seems_misnamed is is_told
    note = f"Also handed in: {name}, which is not an exercise's name."
    advice = (
        "" if name in ("gluten.py", "plot.py") else " Only glu.py is judged: put the code there."
    )
    assert handed.problem == (note + advice if is_told else "")


def test_a_name_longer_than_a_file_system_allows_is_noted(
    course: Course, tmp_path: Path, zipped: Pack
) -> None:
    name = f"{'é' * 200}.py"
    path = tmp_path / "alice.zip"
    path.write_bytes(zipped({"glu.py": course.stub(course.exercise("glu")).source, name: GLU}))
    assert read_submission(path, course).files["glu"].seems_misnamed


def test_an_error_of_ours_makes_a_submission_unreadable_and_says_so(
    course: Course, tmp_path: Path, lay: Lay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather(*_: object) -> None:
        raise IndexError("mistake")

    monkeypatch.setattr(attempt, "gather", gather)
    folder = lay(tmp_path / "alice", {"glu.py": GLU})
    given = Attempt(student=StudentInfo(id="alice"), path=folder)
    (problem,) = {file.problem for file in read_attempt(given, course).files.values()}
    assert problem.startswith("The submission could not be read (IndexError in test_read.py:")
    assert "fault of the grader, not yours" in problem


def test_misnamed_work_beside_work_is_not_noted(course: Course, tmp_path: Path, lay: Lay) -> None:
    path = lay(tmp_path / "alice", {"modules/glu.py": GLU, "modules/glu_old.py": GLU})
    handed = read_submission(path, course).files["glu"]
    assert (handed.problem, handed.seems_misnamed) == ("", False)


def test_a_name_with_a_leading_dot_is_noted(course: Course, tmp_path: Path, lay: Lay) -> None:
    path = lay(tmp_path / "alice", {"gelu.py": GLU, ".glu.py": GLU, "._glu.py": b"macOS"})
    handed = read_submission(path, course).files["glu"]
    assert handed.problem.endswith("Also handed in: .glu.py.")
    assert handed.seems_misnamed
