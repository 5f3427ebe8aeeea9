"""Whether a single folder in a class is a student's: by a class list, or by its name with a note."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import ClassDownload, Roster, find_class, joined

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Files, Pack

CLASS = (StudentInfo(id="alice", name="Alice A"), StudentInfo(id="ben", name="Ben B"))
Find = Callable[..., ClassDownload]


@pytest.fixture(params=["folder", "zip", "wrapped zip", "tar"])
def find(
    request: pytest.FixtureRequest,
    course: Course,
    tmp_path: Path,
    zipped: Pack,
    tarred: Pack,
    lay: Callable[[Path, Files], Path],
) -> Find:
    """Return a function that finds a class in empty files of these names, in a folder or an archive."""
    numbers = itertools.count()

    def run(names: Iterable[str], *students: StudentInfo, **options: Any) -> ClassDownload:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        around = "late/" if "wrapped" in request.param else ""
        files = {around + name: b"" for name in names}
        roster = Roster(students) if students else None
        if request.param == "folder":
            return find_class(lay(place / "late", files), course, roster, **options)
        path = place / "late.zip"
        path.write_bytes((tarred if request.param == "tar" else zipped)(files))
        return find_class(path, course, roster, **options)

    return run


def who(found: ClassDownload) -> list[str]:
    return [each.student.id for each in found.attempts]


OF_ONE = [
    "my_glu.py",
    "week1/glu.py",
    "glu_final.py",
    "hw1.zip",
    "bens_idea/deep/glu.py",
    "ben/glu.py",
    "src/glu.py",
]


@pytest.mark.parametrize("file", OF_ONE)
def test_a_folder_named_after_a_student_of_the_roster_is_that_students(
    find: Find, file: str
) -> None:
    for name in ("alice", "Alice A"):
        found = find([f"{name}/{file}"], *CLASS)
        assert who(found) == ["alice"]
        assert [student.id for student in found.missing] == ["ben"]
        assert found.notes == ()


def test_a_folder_named_after_a_student_of_the_gradebook_is_that_students(find: Find) -> None:
    assert find(["alice/week1/glu.py"], former=CLASS).notes == ()
    assert who(find(["alice/ben/glu.py"], former=CLASS)) == ["alice"]


@pytest.mark.parametrize("file", OF_ONE[:5])
def test_without_a_roster_the_name_decides_with_a_note(find: Find, file: str) -> None:
    found = find([f"alice/{file}"])
    assert who(found) == ["alice"]
    (note,) = found.notes
    assert note.startswith("Taken as the only student's: the folder ")
    assert note.endswith("alice.")


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (["week 3/alice/deep/glu.py"], ["alice"]),
        (["hw1/submissions/alice/deep/glu.py"], ["alice"]),
        (["monday/alice_glu.py"], ["alice"]),
        (["CS101/alice/glu.py", "CS101/ben/glu.py"], ["alice", "ben"]),
        (["uni/alice.zip", "uni/ben.zip"], ["alice", "ben"]),
        (["uni/alice_glu.py", "uni/ben_glu.py"], ["alice", "ben"]),
        (["hw1/glu_final.py"], ["hw1"]),
        (["lab-1-jane/.git/config", "lab-1-jane/src/glu.py"], ["lab-1-jane"]),
        (["lab-1-jane/.git/config", "lab-1-jane/src/glu.py", "lab-1-jane/docs/a"], ["lab-1-jane"]),
    ],
)
def test_a_folder_around_a_class_is_distinguished_from_a_students(
    find: Find, names: list[str], students: list[str]
) -> None:
    assert who(find(names)) == students


def test_a_folder_around_students_of_the_roster_is_opened(find: Find) -> None:
    for around in ("uni", "Deep Learning II", "teachers"):
        assert who(find([f"{around}/alice/week1/glu.py"], *CLASS)) == ["alice"]
    both = find(["alice/alice/glu.py", "alice/ben/glu.py"], *CLASS)
    assert who(both) == ["alice", "ben"], "a class in a folder named after one of its students"


def test_a_student_with_an_empty_folder_is_listed(
    course: Course, tmp_path: Path, zipped: Pack, lay: Callable[[Path, Files], Path]
) -> None:
    folder = lay(tmp_path / "late", {"alice/week1/glu.py": b""})
    (folder / "ben").mkdir()
    (tmp_path / "late.zip").write_bytes(zipped({"alice/week1/glu.py": b"", "ben/": b""}))
    for path in (folder, tmp_path / "late.zip"):
        assert who(find_class(path, course)) == ["alice", "ben"]


def test_files_beside_the_only_folder_are_noted(find: Find) -> None:
    found = find(["week 3/alice/glu.py", "week 3/syllabus.pdf", "notes.txt"], *CLASS)
    assert who(found) == ["alice"]
    assert found.notes == ("Ignored: notes.txt.", "Ignored: syllabus.pdf.")


def test_a_file_of_the_course_beside_known_students_is_ignored(find: Find) -> None:
    found = find(["alice/modules/glu.py", "ben/modules/glu.py", "glu.py"], *CLASS)
    assert who(found) == ["alice", "ben"]
    (note,) = found.notes
    assert note.startswith("Code of no student, which is not graded: glu.py.")


@pytest.mark.parametrize("stray", ["glu.py", "exercises/modules/glu.py", "modules/glu.py"])
def test_an_exercise_beside_the_work_of_two_students_is_nobodys(find: Find, stray: str) -> None:
    for names in (["alice/week1/glu.py", "ben/glu.py"], ["alice_glu.py", "ben_glu.py"]):
        found = find([*names, stray])
        assert who(found) == ["alice", "ben"]
        (note,) = found.notes
        assert note.startswith(f"Code of no student, which is not graded: {stray}. If it is")


def test_clones_in_a_folder_are_split_by_the_roster(find: Find) -> None:
    jane, kim = StudentInfo(id="jane"), StudentInfo(id="kim")
    alone = ["lab-1-submissions/lab-1-jane/.git/config", "lab-1-submissions/lab-1-jane/src/glu.py"]
    for names in (alone, [name.partition("/")[2] for name in alone]):
        found = find(names, jane, kim)
        assert who(found) == ["jane"]
        assert found.notes == ("Taken as clones lab-1-USERNAME, by the user's name.",)


def test_two_downloads_are_joined_if_one_has_a_single_student(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path]
) -> None:
    monday = lay(tmp_path / "monday", {"alice/glu.py": b"1", "ben/glu.py": b"1"})
    late = lay(tmp_path / "late", {"alice/week2/glu.py": b"2"})
    found = joined([find_class(path, course, Roster(CLASS)) for path in (monday, late)])
    assert who(found) == ["alice", "alice", "ben"]
    assert found.missing == ()


def test_a_download_named_after_a_student_is_that_students_submission(
    course: Course, tmp_path: Path, zipped: Pack, lay: Callable[[Path, Files], Path]
) -> None:
    files = {"week1/glu.py": b"", "week2/glu.py": b""}
    (tmp_path / "alice.zip").write_bytes(zipped(files))
    for path in (lay(tmp_path / "alice", files), tmp_path / "alice.zip"):
        with pytest.raises(SubmissionError, match="is one submission, not a class"):
            find_class(path, course, Roster(CLASS))
    class_ = lay(tmp_path / "ben", {"alice/glu.py": b"", "x/glu.py": b""})
    assert who(find_class(class_, course, Roster(CLASS))) == ["alice", "x"]


@pytest.mark.parametrize("suffix", ["zip", "tar"])
def test_a_damaged_class_is_to_be_downloaded_again(
    course: Course, tmp_path: Path, zipped: Pack, tarred: Pack, suffix: str
) -> None:
    pack = zipped if suffix == "zip" else tarred
    whole = pack({f"{name}/modules/glu.py": b"x = 1\n" * 99 for name in ("ada", "ben")})
    path = tmp_path / f"class.{suffix}"
    path.write_bytes(whole[: min(len(whole) // 2, 2_000)])
    with pytest.raises(SubmissionError, match=r"is cut off or damaged\. If .* download it again\."):
        find_class(path, course)
