"""A scaffolded course or exercise is complete: it loads, and `verify` proves it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from grader.authoring.consistency import drift
from grader.authoring.scaffold import fill, is_empty, new_course, new_exercise
from grader.authoring.verify import verify
from grader.course.manifest import load_course
from grader.errors import CourseError, UsageError

ROOT = Path(__file__).resolve().parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"


DEVICES = ("con", "prn", "aux", "nul", "com1", "com9", "lpt1", "lpt9")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "course"


def everything(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.thorough
def test_a_new_course_and_another_exercise_are_proved(tmp_path: Path) -> None:
    folder = tmp_path / "My first course!"
    first = new_course(folder, "scaling")
    second = new_exercise(
        load_course(folder), "rotary", chapter="attention", title='Quotes " and \\ and ü'
    )
    course = load_course(folder)
    assert (course.name, course.title) == ("my_first_course", "My first course")
    assert [(each.chapter, each.id, each.title) for each in course.exercises] == [
        ("basics", "scaling", "Scaling"),
        ("attention", "rotary", 'Quotes " and \\ and ü'),
    ]
    assert {*first.files, *second.files, ".gitignore"} == everything(folder).keys()
    assert [drift(course, each) for each in course.exercises] == [[], []]
    proofs = list(verify(course, course.exercises, seeds=2))
    assert [(p.exercise, p.right, p.wrong, p.tests, p.complaints) for p in proofs] == [
        ("scaling", 2, 5, 6, ()),
        ("rotary", 2, 5, 6, ()),
    ]


def test_git_ignores_the_files_of_a_class(tmp_path: Path) -> None:
    new_course(tmp_path / "lab", "scaling")
    ignored = (tmp_path / "lab" / ".gitignore").read_text("utf-8").split()
    # As docs/serve.md and instructors.md name them; students' copies have no such lines.
    assert {"/results/", "/*.csv", "/client-secret.txt", "/mail-password.txt"} <= {*ignored}
    assert "results" not in fill("gitignore")


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n# the last word\n"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_new_exercise_is_appended_to_the_manifest(folder: Path, end: str, line_end: str) -> None:
    manifest = folder / "exercises" / "course.toml"
    before = (manifest.read_text("utf-8").rstrip() + end).replace("\n", line_end)
    manifest.write_bytes(before.encode())
    made = new_exercise(load_course(folder), "further")
    after = manifest.read_bytes().decode()
    assert after.startswith(before.rstrip() + line_end * 2 + "[[exercise]]" + line_end)
    assert after.count("\n") == after.count(line_end)
    assert made.chapter == "arrays"
    assert load_course(folder).exercises[-1].id == "further"
    assert not list(manifest.parent.glob(".*"))


@pytest.mark.parametrize(
    ("exercise", "chapter", "title", "message"),
    [
        ("Glu", None, None, "'Glu' cannot be the name of an exercise: it is a small letter"),
        ("../up", None, None, "'../up' cannot be the name of an exercise"),
        ("", None, None, "'' cannot be the name of an exercise"),
        ("x" * 61, None, None, "at most 60"),
        ("json", None, None, "Python would import the student's file for its own"),
        ("torch", None, None, "Call it torch_exercise"),
        *((name, None, None, "Windows has a device of this name") for name in DEVICES),
        ("conftest", None, None, "pytest runs a file of this name before any test"),
        ("test", None, None, "`tests` is the folder of the suites"),
        ("tests", None, None, "`tests` is the folder of the suites"),
        ("scaling", "nul", None, "'nul' cannot be the name of a chapter: Windows has a device"),
        ("lambda", None, None, "Python would import"),
        ("greeting", None, None, "has an exercise 'greeting'; an id is unique"),
        ("further", "a/b", None, "'a/b' cannot be the name of a chapter"),
        ("further", None, " ", "The title of an exercise is one line of text"),
        ("further", None, "a\nb", "The title of an exercise is one line of text"),
    ],
)
def test_a_refused_exercise_changes_nothing(
    folder: Path, exercise: str, chapter: str | None, title: str | None, message: str
) -> None:
    before = everything(folder)
    with pytest.raises(UsageError) as raised:
        new_exercise(load_course(folder), exercise, chapter=chapter, title=title)
    assert message in str(raised.value)
    assert everything(folder) == before


def test_existing_files_are_not_overwritten(folder: Path) -> None:
    mine = folder / "tests/hidden/arrays/probe_further.py"
    mine.write_text("mine = 1\n", encoding="utf-8")
    before = everything(folder)
    with pytest.raises(UsageError, match=r"probe_further.py already exists"):
        new_exercise(load_course(folder), "further")
    assert everything(folder) == before


def test_a_manifest_that_cannot_be_extended_is_restored(folder: Path) -> None:
    manifest = folder / "exercises" / "course.toml"
    text = manifest.read_text("utf-8")
    entry = (
        'id = "greeting", chapter = "text", title = "A", points = 1, seconds = 1, difficulty = 1, '
        'minutes = 1, teaches = "b", hints = ["a", "b", "c"]'
    )
    manifest.write_text(
        text.partition("[[exercise]]")[0] + f"exercise = [{{ {entry} }}]\n", encoding="utf-8"
    )
    before, folders = everything(folder), sorted(folder.rglob("*"))
    with pytest.raises(CourseError, match=r"course.toml"):
        new_exercise(load_course(folder), "further", chapter="fresh")
    assert (everything(folder), sorted(folder.rglob("*"))) == (before, folders)


def test_a_course_is_started_in_an_empty_folder(tmp_path: Path, folder: Path) -> None:
    assert is_empty(tmp_path / "nothing")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "README.md").write_text("mine", encoding="utf-8")
    (repository / ".gitignore").write_text("mine", encoding="utf-8")
    assert is_empty(repository)
    new_course(repository, "scaling", chapter="first", title="To scale")
    assert load_course(repository).exercises[0].title == "To scale"
    assert (repository / ".gitignore").read_text(encoding="utf-8") == "mine"
    assert not is_empty(folder)
    assert not is_empty(folder / "exercises" / "course.toml")
    with pytest.raises(UsageError, match="is not empty and holds no course"):
        new_course(folder / "exercises", "scaling")


def test_every_template_is_in_the_built_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    globs = settings["tool"]["setuptools"]["package-data"]["grader.authoring"]
    package = ROOT / "grader" / "authoring"
    packaged = {path for glob in globs for path in package.glob(glob)}
    templates = {path for path in package.rglob("*.txt") if path.is_file()}
    assert packaged == templates != set()


def test_a_template_requires_all_of_its_values() -> None:
    with pytest.raises(KeyError, match="chapter"):
        fill("exercise.toml", id="a", title_string='"A"')
    filled = fill("exercise.toml", id="@chapter@", title_string='"A"', chapter="c")
    assert 'id = "@chapter@"' in filled


def test_a_new_course_is_formatted_and_lints(tmp_path: Path) -> None:
    new_course(tmp_path / "lab", "scaling")
    # Outside this repository, ruff does not know that the grader is first-party.
    ours = 'lint.isort.known-first-party = ["grader"]'
    config = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), "--config", ours]
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, *config, "."],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["public.py", "hidden.py", "probe.py", "right.py"])
def test_templates_are_python(name: str) -> None:
    assert ast.parse(fill(name)).body
