"""Commands in the documents run as shown, and names in them exist."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from grader.cli import main
from grader.course.assignments import CourseAssignment, TermRules
from grader.course.manifest import Exercise, load_course
from grader.course.mutants import equivalent_mutants, wrong_answers
from grader.course.suite import MARKS
from grader.judge import checks
from grader.results import (
    CourseInfo,
    Environment,
    ExerciseResult,
    Outcome,
    Place,
    Result,
    Status,
    SubmissionInfo,
    TestResult,
    Visibility,
)
from grader.sandbox.inside.warmup import WARMED

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
AUTHORING = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_example_of_the_api_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "15.0 of 15.0\n"


@pytest.mark.thorough
def test_the_first_output_in_the_readme_is_that_of_a_known_mistake(tmp_path: Path) -> None:
    """The README leaves out lines with numbers and invents no lines."""
    course = load_course(ROOT)
    glu = course.exercise("glu")
    sources = {wrong.id: wrong.source for wrong in wrong_answers(course, glu).answers}
    mine = tmp_path / "exercises" / "modules" / "glu.py"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(sources["gate_first"])
    command = ["run", "glu", "--course", str(ROOT), "--submission", "."]
    done = subprocess.run(
        [sys.executable, "-m", "grader.cli", *command],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    shown = re.findall(r"(?:    .+\n)+", README)[0]
    # A terminal shows other symbols than a pipe.
    printed = [line.lstrip("~x> ") for line in done.stdout.splitlines()]
    told = [line.lstrip("◐✗→ ") for line in shown.splitlines()]
    assert [line for line in told if line not in printed] == []


def test_the_figures_in_the_readme_fit_the_course() -> None:
    course = load_course(ROOT)
    marked = sum(len(equivalent_mutants(course, exercise)[0]) for exercise in course.exercises)
    (figures,) = re.findall(
        r"\(([\d,]+) of ([\d,]+) changes are caught, the other (\d+) are", README
    )
    caught, made, other = (int(figure.replace(",", "")) for figure in figures)
    assert (other, made - caught) == (marked, marked)
    chapters = {exercise.chapter for exercise in course.exercises}
    assert f"\n{len(course.exercises)} of them, in {len(chapters)} chapters" in README


def test_the_commands_in_the_readme_exist() -> None:
    named = set(re.findall(r"`grade ([\w-]+)[^`]*`", README))
    assert named - set(main.list_commands(click.Context(main))) == set()


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_on_every_page_parses(page: Path) -> None:
    """Commands are only parsed here. The three tutorials are also run by other tests."""
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"^(?:    |\$ )(grade .*)$", text, re.MULTILINE):
        # Blanks and an explanation may follow a command.
        _, name, *arguments = shlex.split(re.split(r"   |  #| >", line)[0])
        assert refusal(main.load(name), arguments) == "", line


def refusal(command: click.Command, arguments: list[str]) -> str:
    """Return why the command refuses these arguments, ignoring missing files."""
    try:
        command.make_context(command.name, arguments)
    except click.UsageError as error:
        return "" if "does not exist" in error.message else error.message
    return ""


def test_the_exercises_in_the_readme_fit_the_course() -> None:
    named = re.findall(r"^\| `(\w+)/(\w+)` \|", README, re.MULTILINE)
    assert named == [(each.chapter, each.id) for each in load_course(ROOT).exercises]


@pytest.mark.parametrize("name", Exercise.__struct_fields__)
def test_every_key_of_the_manifest_is_explained(name: str) -> None:
    assert f"`{name}`" in AUTHORING or f"`[[exercise.{name}]]`" in AUTHORING


@pytest.mark.parametrize(
    "name", [*CourseAssignment.__struct_fields__, *TermRules.__struct_fields__]
)
def test_every_key_of_an_assignment_is_explained(name: str) -> None:
    assert f"`{name}`" in REFERENCE


def test_every_mark_and_check_is_explained() -> None:
    for mark in MARKS:
        assert f"`{mark}(...)`" in AUTHORING or f"`pytest.mark.{mark}`" in AUTHORING
    for argument in inspect.signature(checks.promise).parameters:
        assert argument == "place" or f"| `{argument}=` |" in AUTHORING
    for check in checks.__all__:
        assert f"`{check}`" in AUTHORING or f"`{check}(" in AUTHORING
    for module in WARMED:
        assert f"`{module}`" in AUTHORING


def test_every_field_and_word_of_a_result_is_explained() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    structs = (Result, ExerciseResult, TestResult, Environment, CourseInfo, SubmissionInfo, Place)
    for name in (field for struct in structs for field in struct.__struct_fields__):
        assert f"`{name}`" in page
    for word in (*Status, *Outcome, *Visibility):
        assert f"`{word.value}`" in page


def test_every_link_has_a_target() -> None:
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/security.md", "CONTRIBUTING.md"])
def test_every_path_on_a_page_about_the_code_exists(name: str) -> None:
    """A path starts at the root, at `grader/`, or beside or below the path named before it."""
    folder = ROOT
    for path in re.findall(r"`(\w[\w./-]*/|\w[\w./-]*\.py)`", (ROOT / name).read_text("utf-8")):
        bases = (ROOT / "grader", ROOT, folder, folder.parent)
        places = [base / path for base in bases if (base / path).exists()]
        assert places, f"{name} names {path}"
        folder = places[0] if places[0].is_dir() else places[0].parent


def test_every_module_that_a_text_names_exists() -> None:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "grader").rglob("*.py")):
        for name in re.findall(r"\bgrader(?:\.[a-zA-Z]\w*)+", page.read_text(encoding="utf-8")):
            # The last part may be a name in the module.
            *parts, last = name.split(".")
            module, whole = ROOT.joinpath(*parts), ROOT.joinpath(*parts, last)
            source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            is_module = whole.is_dir() or whole.with_suffix(".py").exists()
            assert is_module or last in source.read_text(encoding="utf-8"), f"{page}: {name}"


def test_the_docstring_of_a_package_names_its_modules() -> None:
    """Commands of `cli` and formats are exempt: they are found by their names."""
    for package in (path.parent for path in (ROOT / "grader").rglob("*/__init__.py")):
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
        names = {path.stem for path in package.glob("[!_]*.py")}
        if package.name == "cli":
            names -= {*main.list_commands(click.Context(main)), "author", "course", "student"}
        if package.name != "formats":
            missing = {name for name in names if not re.search(rf"`{name}(\.py)?`", docstring)}
            assert missing == set(), package


def test_the_tests_named_on_the_accessibility_page_exist() -> None:
    page = (ROOT / "docs" / "accessibility.md").read_text(encoding="utf-8")
    version = re.search(r"axe-core ([\d.]+\d)", page)
    assert version is not None
    assert f"axe-core@{version[1]}" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    files = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in re.findall(r"`(tests/[^`]+)`", page)
    }
    assert len(files) == 6
    for test in re.findall(r"`(test_\w+)`", page):
        assert any(f"def {test}(" in text for text in files.values()), test
    # The tests have the axe rules and the window sizes that the page names.
    checking = [text for text in files.values() if "axe.run(" in text]
    assert len(checking) == 5 and all("wcag22aa" in text for text in checking)
    assert any("PHONE, DESK = (360, 740), (1200, 900)" in text for text in files.values())
    assert any("SIZES = ((390, 844), (1400, 900))" in text for text in files.values())
