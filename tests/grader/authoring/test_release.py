"""A release contains only lines that students may see."""

from __future__ import annotations

import re
import shutil
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from grader.authoring.release import Tier, release
from grader.course.manifest import Course, Exercise, load_course, probe_of
from grader.errors import CourseError, GraderError, UsageError
from grader.results import Visibility

pytestmark = pytest.mark.usefixtures("kept_judges")
ROOT = Path(__file__).resolve().parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(PLAIN / "exercises", tmp_path / "course/tests/stubs", ignore=ignored)
    return tmp_path / "course"


def everything(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- no hidden files ------------------------------------------------------------------------------


def hidden_files(course: Course, exercise: Exercise) -> Iterator[Path]:
    yield course.solution(exercise)
    if suite := course.suites(exercise).get(Visibility.HIDDEN):
        yield from (path for path in (suite, probe_of(suite)) if path.is_file())
    yield from course.variants(exercise, "right")
    yield from course.variants(exercise, "wrong")
    if (mutants := course.mutants(exercise)).is_file():
        yield mutants


def public_files(course: Course, exercise: Exercise) -> Iterator[Path]:
    yield course.folder / exercise.file
    yield from (course.folder / name for name in exercise.given_files)
    suite = course.suites(exercise)[Visibility.PUBLIC]
    # An experiment shows how a plot is drawn, and students may read it.
    given = (suite, probe_of(suite), course.plot(exercise))
    yield from (path for path in given if path.is_file())


def pieces(text: str) -> set[str]:
    """Return the lines of a text with at least three words, and every run of five words."""
    lines = {" ".join(line.split()) for line in text.splitlines()}
    words = re.findall(r"\w+", text)
    sentences = {line for line in lines if len(re.findall(r"\w+", line)) >= 3}
    return sentences | {" ".join(words[at : at + 5]) for at in range(len(words) - 4)}


def secrets(course: Course) -> set[str]:
    """Return the pieces of the course's hidden files that are in no public one."""

    def read(paths: Iterator[Path]) -> set[str]:
        return {piece for path in paths for piece in pieces(path.read_text(encoding="utf-8"))}

    hidden = {piece for each in course.exercises for piece in read(hidden_files(course, each))}
    public = {piece for each in course.exercises for piece in read(public_files(course, each))}
    for_all = [course.folder / "course.toml", course.root / "docs/every-exercise.md"]
    return hidden - public - read(path for path in for_all if path.is_file())


def leaks(secret: set[str], folder: Path) -> set[str]:
    """Return the secret pieces found in the files of a folder, except the grader's wheel."""
    return {
        piece
        for name, text in everything(folder).items()
        if not name.endswith(".whl")
        for piece in pieces(text.decode())
        if piece in secret
    }


@pytest.mark.thorough
@pytest.mark.parametrize("root", [ROOT, None], ids=["shipped", "plain"])
def test_nothing_hidden_is_released(root: Path | None, folder: Path, tmp_path: Path) -> None:
    course = load_course(root or folder)
    out, secret = tmp_path / "students", secrets(course)
    release(course, out)
    assert leaks(secret, out) == set()
    names = everything(out).keys()
    (wheel,) = [name for name in names if name.endswith(".whl")]
    packed = zipfile.ZipFile(out / wheel).namelist()
    assert [
        name for name in packed if not re.match(r"grader/|lab_bench-[\d.]+\.dist-info/", name)
    ] == []
    assert not [name for name in names if re.search(r"hidden|solution|right/|wrong/", name)]
    # The search works: every hidden file has pieces of its own, and a copied one is found.
    for exercise in course.exercises:
        for path in hidden_files(course, exercise):
            assert pieces(path.read_text(encoding="utf-8")) & secret, path
    shutil.copy(course.suite(course.exercises[0], Visibility.HIDDEN), out / "exercises" / "more.py")
    assert leaks(secret, out)


def test_comments_of_the_manifest_are_not_released(folder: Path, tmp_path: Path) -> None:
    manifest = folder / "exercises" / "course.toml"
    secret = "# hidden tests draw x from [-3, 3]\n"
    odd = 'odd \\" \\\\ \\u007f \\u0001 ü \\n end'
    text = manifest.read_text("utf-8").replace("Format a string.", odd)
    manifest.write_text(
        secret + text.replace("points = 2.5", f"points = 2.5  {secret}", 1), "utf-8"
    )
    release(load_course(folder), tmp_path / "out")
    released = (tmp_path / "out/exercises/course.toml").read_text(encoding="utf-8")
    assert "hidden" not in released
    assert tomllib.loads(released) == tomllib.loads(manifest.read_text(encoding="utf-8"))


# --- contents -------------------------------------------------------------------------------------


def test_a_course_whose_solution_loses_points_is_not_released(folder: Path, tmp_path: Path) -> None:
    solution = folder / "solutions/text/greeting.py"
    right = solution.read_text(encoding="utf-8")
    solution.write_text(right.replace("Hello", "Hi"), encoding="utf-8")
    with pytest.raises(CourseError, match=r"the solution of 'greeting' earns 0 of 2\.5 points"):
        release(load_course(folder), tmp_path / "out", judge=True)
    assert not (tmp_path / "out").exists()
    solution.write_text(right, encoding="utf-8")
    assert release(load_course(folder), tmp_path / "out", judge=True).files


def test_shares_are_released(folder: Path, tmp_path: Path) -> None:
    manifest = folder / "exercises" / "course.toml"
    shares = '\n[exercise.shares]\nMean = 2\n"Mean.of" = 0.5\n'
    manifest.write_text(manifest.read_text("utf-8") + shares, encoding="utf-8")
    release(load_course(folder), tmp_path / "out")
    released = load_course(tmp_path / "out").exercise("running_mean")
    assert released.shares == {"Mean": 2, "Mean.of": 0.5}


def test_a_release_has_these_files(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    # Work in the exercises of the course is not released.
    work = folder / "exercises/text/greeting.py"
    work.write_text("mine = 1\n", encoding="utf-8")
    released = release(
        load_course(folder), out, requirement="lab @ git+https://example.org/x#egg=y"
    )
    exercises = ("arrays/running_mean.py", "text/greeting.py", "text/word_count.py")
    suites = ("arrays/test_running_mean.py", "text/test_greeting.py", "text/test_word_count.py")
    files = everything(out)
    assert list(released.files) == sorted(files)
    assert set(files) == {
        ".github/workflows/grade.yml",
        ".gitignore",
        ".release.json",
        ".vscode/tasks.json",
        "README.md",
        "constraints.txt",
        "pytest.ini",
        "exercises/course.toml",
        *(f"{where}/{name}" for where in ("exercises", "tests/stubs") for name in exercises),
        *(f"tests/public/{name}" for name in suites),
    }
    stub = (folder / "tests/stubs/text/greeting.py").read_bytes()
    assert files["exercises/text/greeting.py"] == files["tests/stubs/text/greeting.py"] == stub
    install = '-m pip install -c constraints.txt "lab @ git+https://example.org/x#egg=y"'
    readme, workflow = files["README.md"].decode(), files[".github/workflows/grade.yml"].decode()
    assert f"python {install}" in readme
    # -I keeps modules in the checkout from replacing Python's.
    assert f"python -I {install}" in workflow
    assert "@" not in readme.replace("lab @ git", "")
    assert "| `text/greeting.py` | 2.5 | 1 minutes | A greeting [of a kind] |" in readme


def test_a_release_can_be_reproduced(folder: Path, tmp_path: Path) -> None:
    release(load_course(folder), tmp_path / "one")
    shutil.move(folder, tmp_path / "moved")
    release(load_course(tmp_path / "moved"), tmp_path / "two")
    assert everything(tmp_path / "one") == everything(tmp_path / "two")


def test_constraints_come_from_the_course_or_the_installed_versions(
    folder: Path, tmp_path: Path
) -> None:
    release(load_course(folder), tmp_path / "one")
    installed = (tmp_path / "one/constraints.txt").read_text("utf-8").splitlines()
    torch = metadata.version("torch").partition("+")[0]
    assert {f"torch=={torch}", f"click=={metadata.version('click')}"} <= set(installed)
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", line) for line in installed)
    (folder / "constraints.txt").write_text("torch==2.6.0\n", encoding="utf-8")
    release(load_course(folder), tmp_path / "two")
    assert (tmp_path / "two/constraints.txt").read_text("utf-8") == "torch==2.6.0\n"


def test_the_page_for_every_exercise_is_released(folder: Path, tmp_path: Path) -> None:
    release(load_course(folder), tmp_path / "one")
    assert "docs/every-exercise.md" not in (tmp_path / "one/README.md").read_text("utf-8")
    page = folder / "docs/every-exercise.md"
    page.parent.mkdir()
    page.write_text("Set no seed.\n", encoding="utf-8")
    release(load_course(folder), tmp_path / "two")
    assert (tmp_path / "two/docs/every-exercise.md").read_text("utf-8") == "Set no seed.\n"
    assert "](docs/every-exercise.md)" in (tmp_path / "two/README.md").read_text("utf-8")


def test_the_workflow_may_use_an_action(folder: Path, tmp_path: Path) -> None:
    release(load_course(folder), tmp_path / "out", action="somebody/lab-bench@v1")
    workflow = (tmp_path / "out/.github/workflows/grade.yml").read_text(encoding="utf-8")
    assert "      - uses: somebody/lab-bench@v1\n" in workflow
    assert "pip" not in workflow


@pytest.mark.parametrize("requirement", ["$(id)", 'x"; id; "', "`id`", "a\nb", "a\\"])
def test_a_requirement_cannot_contain_shell_code(
    folder: Path, tmp_path: Path, requirement: str
) -> None:
    with pytest.raises(CourseError, match="not something that pip can install"):
        release(load_course(folder), tmp_path / "out", requirement=requirement)
    with pytest.raises(CourseError, match="not a GitHub action"):
        release(load_course(folder), tmp_path / "out", action=requirement)
    assert not (tmp_path / "out").exists()


# --- tiers -----------------------------------------------------------------------------------------


def test_a_release_of_all_suites_has_sealed_solutions(folder: Path, tmp_path: Path) -> None:
    home = load_course(folder)
    release(home, tmp_path / "out", suites=Tier.ALL)
    out, files = load_course(tmp_path / "out"), everything(tmp_path / "out")
    for exercise in home.exercises:
        assert out.suites(exercise).keys() == home.suites(exercise).keys()
        source = home.solution(exercise).read_bytes()
        assert out.solution_source(exercise) == source
        sealed = files[home.name_of(home.sealed_solution(exercise))]
        assert not pieces(source.decode()) & pieces(sealed.decode())
        assert f"grade solution {exercise.id}" in sealed.decode()
    assert not [name for name in files if re.search(r"solutions/.*\.py|right/|wrong/", name)]
    assert "SUITE: all\n" in files[".github/workflows/grade.yml"].decode()
    assert "`grade solution` opens" in files["README.md"].decode()


def test_a_damaged_sealed_solution_is_reported(folder: Path, tmp_path: Path) -> None:
    release(load_course(folder), tmp_path / "out", suites=Tier.ALL)
    out = load_course(tmp_path / "out")
    exercise = out.exercises[0]
    sealed = out.sealed_solution(exercise)
    for damaged in (b"", sealed.read_bytes()[:-40], b"# x\nnot base64 \xff", b"# x\n" + b"QUJD"):
        sealed.write_bytes(damaged)
        with pytest.raises(CourseError, match="sealed solution of this course is damaged"):
            out.solution_source(exercise)


# --- courses that cannot be released --------------------------------------------------------------


def test_a_solution_in_place_of_a_stub_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "solutions/text/greeting.py", folder / "tests/stubs/text/greeting.py")
    with pytest.raises(
        CourseError, match="The stub of 'greeting' is the solution, and students would get it"
    ):
        release(load_course(folder), tmp_path / "out")


def test_a_stub_that_was_not_kept_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "tests/stubs/text/greeting.py").unlink()
    with pytest.raises(
        CourseError,
        match=r"may be a student's work. Mark the students' part in the solution of 'greeting'",
    ):
        release(load_course(folder), tmp_path / "out")


def test_a_stub_that_drifted_from_its_markers_is_refused(folder: Path, tmp_path: Path) -> None:
    solution = folder / "solutions/text/greeting.py"
    text = solution.read_text("utf-8").replace("    return", "    # begin solution: hi\n    return")
    solution.write_text(text + "    # end solution\n", encoding="utf-8")
    with pytest.raises(CourseError, match="`grade stub greeting` writes it anew"):
        release(load_course(folder), tmp_path / "out")


def test_an_exercise_without_a_public_suite_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "tests/public/text/test_word_count.py").unlink()
    with pytest.raises(CourseError, match="'word_count' has no public suite"):
        release(load_course(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- the target folder ----------------------------------------------------------------------------


def test_a_folder_that_is_not_empty_is_refused(folder: Path, tmp_path: Path) -> None:
    out, course = tmp_path / "out", load_course(folder)
    out.mkdir()
    (out / ".git").mkdir()
    release(course, out)  # a clone of an empty repository
    with pytest.raises(UsageError, match=r"(?s)is not empty.*--force replaces that"):
        release(course, out)
    with pytest.raises(GraderError, match="is not empty"):
        release(course, folder)
    with pytest.raises(GraderError, match="has no earlier release"):
        release(course, folder, force=True)
    with pytest.raises(GraderError, match="is not a folder"):
        release(course, out / "README.md")


def test_force_replaces_only_released_files(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(load_course(folder), out)
    (out / "notes.md").write_text("mine", encoding="utf-8")
    (out / "README.md").write_text("edited", encoding="utf-8")
    suite = out / "tests/public/arrays/test_running_mean.py"
    suite.write_text("edited", encoding="utf-8")
    # The last exercise leaves the course.
    manifest = folder / "exercises/course.toml"
    kept = manifest.read_text("utf-8").rpartition("[[exercise]]")[0]
    manifest.write_text(kept, encoding="utf-8")
    released = release(load_course(folder), out, force=True)
    assert released.removed == 2
    assert (out / "notes.md").read_text(encoding="utf-8") == "mine"
    assert (out / "README.md").read_text(encoding="utf-8").startswith("# Plain Python")
    assert not (out / "exercises/arrays").exists()
    assert suite.read_text(encoding="utf-8") == "edited", "an edited file is not removed"


def test_force_stops_at_a_file_of_another_origin(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(load_course(folder), out)
    listing = out / ".release.json"
    text = listing.read_text(encoding="utf-8")
    listing.write_text(re.sub(r'\s*"README.md": "\w+",', "", text), encoding="utf-8")
    (out / "README.md").write_text("somebody else's", encoding="utf-8")
    before = everything(out)
    with pytest.raises(GraderError, match=r"README.md is there and of no earlier release"):
        release(load_course(folder), out, force=True)
    assert everything(out) == before


def test_a_listing_cannot_name_files_outside(folder: Path, tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside.txt"
    release(load_course(folder), out)
    outside.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    listing = out / ".release.json"
    names = f'"../outside.txt": "{empty}", "{outside.as_posix()}": "{empty}"'
    listing.write_text(f'{{"files": {{{names}}}}}', encoding="utf-8")
    for each in out.iterdir():
        if each != listing:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    assert release(load_course(folder), out, force=True).removed == 0
    assert outside.exists()
