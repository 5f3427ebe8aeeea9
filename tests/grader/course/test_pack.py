"""A pack holds exactly the course that it was made from, and any other file is refused."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.course.manifest import Course, load_course
from grader.course.pack import MAX_FILES, _PackListing, unpack, write_pack
from grader.errors import CourseError, GraderError
from grader.results import Visibility

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLAIN, tmp_path / "course", ignore=ignored)
    return load_course(tmp_path / "course")


def packed(course: Course, file: Path) -> Path:
    write_pack(file, course.info(), "exercises/course.toml", course.files())
    return file


@pytest.fixture
def pack(course: Course, tmp_path: Path) -> Path:
    return packed(course, tmp_path / "course.pack")


def test_a_pack_contains_the_course_of_the_folder(course: Course, pack: Path) -> None:
    read = load_course(pack)
    assert read.info() == course.info()
    assert read.exercises == course.exercises
    for exercise in course.exercises:
        for visibility, suite in course.suites(exercise).items():
            assert read.suites(exercise)[visibility].read_bytes() == suite.read_bytes()
        assert read.solution(exercise).read_bytes() == course.solution(exercise).read_bytes()
        assert read.stub(exercise).source == course.stub(exercise).source
        for kind in ("right", "wrong"):
            names = [path.name for path in course.variants(exercise, kind)]
            assert [path.name for path in read.variants(exercise, kind)] == names
    probe = "tests/hidden/text/probe_word_count.py"
    assert (read.root / probe).read_bytes() == (course.root / probe).read_bytes()


def test_the_original_stub_is_packed(course: Course, tmp_path: Path) -> None:
    shutil.copytree(course.folder, course.root / "tests" / "stubs")
    (course.root / "tests/stubs/course.toml").unlink()
    exercise = course.exercise("greeting")
    handed_out = course.stub(exercise).source
    (course.folder / exercise.file).write_text("mine = 1\n", encoding="utf-8")
    read = load_course(packed(course, tmp_path / "course.pack"))
    assert (read.folder / exercise.file).read_bytes() == handed_out
    assert read.info() == course.info()


def test_the_same_course_makes_the_same_bytes(course: Course, pack: Path, tmp_path: Path) -> None:
    shutil.copytree(course.root, tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere").rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o755)
    other = packed(load_course(tmp_path / "elsewhere"), tmp_path / "other.pack")
    assert other.read_bytes() == pack.read_bytes()
    digest = hashlib.sha256(pack.read_bytes()).hexdigest()
    assert write_pack(pack, course.info(), "exercises/course.toml", course.files()) == digest
    names = zipfile.ZipFile(pack).namelist()
    assert names == ["pack.json", *sorted(names[1:])]


def test_the_folder_is_private_and_removed_with_the_course(pack: Path) -> None:
    read = load_course(pack)
    folder = read.root
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    exercises = read.exercises
    del read
    gc.collect()
    assert not folder.exists()
    assert exercises


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_does_not_remove_its_parent_s_course(pack: Path) -> None:
    read = load_course(pack)
    if not (child := os.fork()):
        del read
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert (read.folder / "course.toml").is_file()


def test_a_file_that_is_not_a_pack_is_not_overwritten(course: Course, tmp_path: Path) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("years of work", encoding="utf-8")
    with pytest.raises(GraderError, match=r"thesis.txt exists and is not a pack"):
        packed(course, mine)
    assert mine.read_text(encoding="utf-8") == "years of work"


def test_a_pack_is_written_whole_or_not_at_all(course: Course, tmp_path: Path) -> None:
    with pytest.raises(GraderError, match=r"nowhere/x.pack cannot be written: No such file"):
        packed(course, tmp_path / "nowhere" / "x.pack")
    assert {each.name for each in tmp_path.iterdir()} == {"course"}


def test_names_that_some_systems_do_not_allow_are_refused(course: Course, tmp_path: Path) -> None:
    odd = course.root / "tests/wrong/text/greeting/a:b.py"
    shutil.copy(course.root / "tests/wrong/text/greeting/nameless.py", odd)
    with pytest.raises(CourseError, match=r"'tests/wrong/text/greeting/a:b.py' is not allowed on"):
        packed(course, tmp_path / "course.pack")


# --- damaged packs and other files ----------------------------------------------------------------


@pytest.mark.thorough
def test_every_kind_of_damage_is_reported_or_harmless(pack: Path, tmp_path: Path) -> None:
    """A changed byte or a missing end gives this error or the same course, never another one."""
    whole, info = pack.read_bytes(), load_course(pack).info()
    damaged, chance, told = tmp_path / "damaged.pack", random.Random(0), list[str]()
    for round_ in range(600):
        content = bytearray(whole)
        if round_ % 3 == 0:
            del content[chance.randrange(len(content)) :]
        else:
            # Half of the changes are in the tables of the archive, near its beginning or end.
            near = chance.choice([len(content), 400])
            at = chance.randrange(near)
            content[-at - 1 if chance.random() < 0.5 else at] ^= chance.randrange(1, 256)
        damaged.write_bytes(content)
        try:
            assert load_course(damaged).info() == info
        except CourseError as error:
            told.append(str(error))
    assert len(told) > 500
    assert all("damaged.pack is not a usable course pack: " in each for each in told)


def rewritten(pack: Path, change: Callable[[dict[str, bytes]], Any], **how: Any) -> Path:
    """Change the members of the pack, in a valid archive."""
    with zipfile.ZipFile(pack) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(pack, "w", **how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return pack


def relisted(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    def apply(members: dict[str, bytes]) -> None:
        listing = json.loads(members["pack.json"])
        change(listing)
        members["pack.json"] = json.dumps(listing).encode()

    return apply


HIDDEN = "tests/hidden/text/test_word_count.py"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda members: members.update({HIDDEN: b"x"}), f"'{HIDDEN}' in it is damaged"),
        (lambda members: members.pop(HIDDEN), f"'{HIDDEN}' in it is missing"),
        (lambda members: members.update({"../up.py": b""}), "'../up.py' in it is unexpected"),
        (lambda members: members.pop("pack.json"), "a pack begins with pack.json"),
        (lambda members: members.update({"pack.json": b"{}"}), "is not one of a course"),
        (relisted(lambda all_: all_.update(manifest="x")), "its pack.json was changed"),
        (relisted(lambda all_: all_.update(format_version=2)), "the format 2, and not 1"),
        (relisted(lambda all_: all_["files"].update({"../x": "0"})), "its pack.json was changed"),
    ],
    ids=["changed", "missing", "unexpected", "foreign", "empty", "listing", "newer", "traversal"],
)
def test_members_that_differ_from_the_listing_are_refused(
    pack: Path, change: Callable[[dict[str, bytes]], Any], told: str
) -> None:
    with pytest.raises(CourseError) as raised:
        load_course(rewritten(pack, change))
    assert told in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        *("../up.py", "/etc/up.py", "a//b.py", "a/./b.py", "c:/x.py", "a\\b.py", "nul.py"),
        *("a/b./c.py", "exercises/course.toml/x.py", "exercises/COURSE.toml", "x" * 300, "a\nb.py"),
    ],
)
def test_odd_names_are_refused_even_with_a_correct_listing(
    course: Course, tmp_path: Path, name: str
) -> None:
    """Even a pack with right digests writes nothing outside of its folder."""
    file, content = tmp_path / "odd.pack", course.folder / "course.toml"
    files = {"exercises/course.toml": content.read_bytes(), name: content.read_bytes()}
    digests = {each: hashlib.sha256(text).hexdigest() for each, text in files.items()}
    listing: dict[str, Any] = {
        "format": "lab-bench course pack",
        "format_version": 1,
        "course": {"name": "plain", "version": "1", "digest": ""},
        "manifest": "exercises/course.toml",
        "files": digests,
        "digest": "",
    }
    listing["digest"] = msgspec.convert(listing, _PackListing).expected_digest()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pack.json", json.dumps(listing))
        for each, text in files.items():
            archive.writestr(each, text)
    with pytest.raises(CourseError, match=r"the name|two of its names"):
        unpack(file)


def test_compressed_members_are_refused(pack: Path) -> None:
    """So no member can grow when it is unpacked."""
    bomb = rewritten(
        pack,
        lambda members: members.update({"zeros": bytes(10_000_000)}),
        compression=zipfile.ZIP_DEFLATED,
    )
    with pytest.raises(CourseError, match="an archive of something else"):
        load_course(bomb)


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    crowd = tmp_path / "crowd.pack"
    with zipfile.ZipFile(crowd, "w") as archive:
        for number in range(MAX_FILES + 2):
            archive.writestr(f"{number}", b"")
    with pytest.raises(CourseError, match="its archive contains too much"):
        load_course(crowd)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all" * 10, b"\0" * 100])
def test_files_that_are_not_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.pack"
    file.write_bytes(content)
    with pytest.raises(
        CourseError, match=r"notes.pack is not a usable course pack.*it is not an archive"
    ):
        load_course(file)


def test_a_file_inside_a_course_is_not_that_course(course: Course) -> None:
    with pytest.raises(CourseError, match=r"greeting.py is not a usable course pack"):
        load_course(course.solution(course.exercise("greeting")))
    assert load_course(course.folder / "course.toml") == course


def test_a_missing_pack_is_an_error(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not be mistaken for the course in whose folder it is named."""
    monkeypatch.chdir(course.root)
    with pytest.raises(CourseError, match=r"There is no .*lost.pack"):
        load_course("lost.pack")


def test_grade_accepts_a_pack(course: Course, pack: Path) -> None:
    from grader import grade

    result = grade(course.root / "solutions", course=str(pack), exercises=["word_count"])
    assert result.score == result.max_score == 10
    assert result.course == course.info()
    assert {test.visibility for test in result.exercises[0].tests} == set(Visibility)
