"""Begin a course, an exercise or an assignment: small, complete and proved.

Everything is made from templates, files in `templates/` with @names@ to fill in; a release fills in others.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from grader.course.assignments import FILE, CourseAssignment, read_assignments
from grader.course.manifest import Course, load_course
from grader.course.names import why_no_exercise, why_no_folder
from grader.course.stub import make_stub
from grader.errors import CourseError, GraderError, UsageError
from grader.files import write_whole
from grader.toml import to_toml, written_value

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,59}")
_FIRST_CHAPTER = "basics"
# Files of a fresh repository, beside which a course may be begun.
_OF_A_REPOSITORY = re.compile(r"\..*|README.*|LICEN[CS]E.*", re.IGNORECASE)
# `$` and `{` are needed literally in workflows and in Python.
_NAME = re.compile(r"@([a-z_]+)@")
# More than a student would try, and short enough to type.
_SEEDS = 10**9
_HEAD_OF_ASSIGNMENTS = """\
# Exercises that are handed out together, with due times and weights: docs/reference.md explains every key.
# It holds the seeds by which hidden tests draw their inputs: keep it from students.
"""


class Scaffolded(msgspec.Struct, frozen=True):
    """A new exercise: its place, and each file below the course's root with its purpose."""

    exercise: str
    chapter: str
    root: Path
    files: dict[str, str]


def new_exercise(
    course: Course, exercise: str, *, chapter: str | None = None, title: str | None = None
) -> Scaffolded:
    """Write the files of a new exercise and append it to the manifest, whose comments stay.

    The default `chapter` is the chapter of the last exercise. If anything is in the way, a UsageError names it,
    and nothing is written.
    """
    chapter = chapter or course.exercises[-1].chapter
    if any(other.id == exercise for other in course.exercises):
        raise UsageError(f"{course.title} has an exercise {exercise!r}; an id is unique.")
    title = _checked(exercise, chapter, title)
    manifest = course.folder / "course.toml"
    before = manifest.read_bytes()
    entry = _entry(exercise, chapter, title)
    text = before.decode("utf-8").rstrip() + "\n\n" + entry
    if b"\r\n" in before:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    files = _files(course.folder.name, exercise, chapter, title)
    with _new_files(course.root, {name: text for name, (text, _) in files.items()}):
        try:
            write_whole(manifest, text.encode())
            load_course(manifest)
        except BaseException:
            write_whole(manifest, before)
            raise
    return _scaffolded(exercise, chapter, course.root, course.folder.name, files)


def new_course(
    folder: Path, exercise: str, *, chapter: str | None = None, title: str | None = None
) -> Scaffolded:
    """Make a course with one exercise in a new or empty folder; raises UsageError for any other folder."""
    if not is_empty(folder):
        raise UsageError(
            f"{folder} is not empty and holds no course. Name a new folder, an empty one, or a course."
        )
    chapter = chapter or _FIRST_CHAPTER
    title = _checked(exercise, chapter, title)
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")[:60]
    name = name if _IDENTIFIER.fullmatch(name) else "course"
    head = fill("course.toml", name=name, title_string=written_value(_words(name)))
    files = _files("exercises", exercise, chapter, title)
    texts = {name: text for name, (text, _) in files.items()}
    texts["exercises/course.toml"] = f"{head}\n{_entry(exercise, chapter, title)}"
    if not (folder / ".gitignore").exists():
        texts[".gitignore"] = fill("gitignore") + fill("gitignore_class")
    with _new_files(folder, texts):
        load_course(folder / "exercises" / "course.toml")
    return _scaffolded(exercise, chapter, folder, "exercises", files)


def new_assignment(
    course: Course, assignment_id: str, values: dict[str, Any], timezone: str = ""
) -> tuple[Path, CourseAssignment]:
    """Add an assignment with these keys to the course; return its file and the assignment read from it.

    It gets a secret seed. The default `title` is made from the id: `Week 3` from `week3`. A `timezone` is
    written at the top of a new file. Raises CourseError for mistakes; then nothing is written.
    """
    path = course.folder / FILE
    if assignment_id in {assignment.id for assignment in course.assignments}:
        raise CourseError(f"{path} has an assignment {assignment_id!r} already: edit it there.")
    before = path.read_text(encoding="utf-8") if path.is_file() else _begin_assignments(timezone)
    table = {
        "id": assignment_id,
        "title": values.get("title") or _words(re.sub(r"(\D)(\d)", r"\1 \2", assignment_id)),
        **{key: value for key, value in values.items() if key != "title" and value},
        "seed": secrets.randbelow(_SEEDS),
    }
    draft = path.with_name(f".{FILE}.new")
    try:
        text = f"{before}\n{to_toml({'assignment': [table]}).lstrip()}".encode()
        # It is read before it takes the place of the file.
        draft.write_bytes(text)
        read = read_assignments(draft, course.chapter_of)
        write_whole(path, text)
    except CourseError as error:
        raise CourseError(str(error).replace(str(draft), str(path))) from error
    except OSError as error:
        raise GraderError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)
    return path, read.assignments[-1]


def _begin_assignments(timezone: str) -> str:
    return _HEAD_OF_ASSIGNMENTS + (f"\n{to_toml({'timezone': timezone})}" if timezone else "")


def is_empty(folder: Path) -> bool:
    """Return whether a course may begin here: the folder is missing, empty, or a new repository."""
    if not folder.is_dir():
        return not os.path.lexists(folder)
    return all(_OF_A_REPOSITORY.fullmatch(path.name) for path in folder.iterdir())


def _checked(exercise: str, chapter: str, title: str | None) -> str:
    """Return the title; raises UsageError if the id, the chapter or the title is not valid in a manifest."""
    for kind, name in (("an exercise", exercise), ("a chapter", chapter)):
        if not _IDENTIFIER.fullmatch(name):
            near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
            example = near if _IDENTIFIER.fullmatch(near) else "rotary_embedding"
            raise UsageError(
                f"{name!r} cannot be the name of {kind}: it is a small letter, then small letters, "
                f"digits and underscores, at most 60 in all, as in {example}."
            )
    for kind, name, why in (
        ("an exercise", exercise, why_no_exercise(exercise)),
        ("a chapter", chapter, why_no_folder(chapter)),
    ):
        if why:
            other = f"{name}_{kind.partition(' ')[2]}"
            raise UsageError(
                f"{name!r} cannot be the name of {kind}: {why}. Call it {other}, for instance."
            )
    title = _words(exercise) if title is None else title.strip()
    if not title or not title.isprintable():
        raise UsageError("The title of an exercise is one line of text, and not empty.")
    return title


def _words(identifier: str) -> str:
    return identifier.replace("_", " ").capitalize()


def _entry(exercise: str, chapter: str, title: str) -> str:
    return fill("exercise.toml", id=exercise, chapter=chapter, title_string=written_value(title))


def _files(exercises: str, exercise: str, chapter: str, title: str) -> dict[str, tuple[str, str]]:
    """Return the files of a new exercise: the text and the purpose of each."""
    # In a docstring, a quote or a backslash of the title would change its meaning.
    words = re.sub(r'["\\]', "", title)
    solution = fill("solution.py", id=exercise, title=words)
    own, suites = f"{chapter}/{exercise}.py", f"{chapter}/test_{exercise}.py"
    stub = make_stub(solution, f"solutions/{own}")
    return {
        f"solutions/{own}": (solution, "the reference, from which the stub is made"),
        f"{exercises}/{own}": (stub, "the stub, which students fill in"),
        f"tests/public/{suites}": (fill("public.py"), "tests that students see"),
        f"tests/hidden/{suites}": (fill("hidden.py"), "tests that they don't"),
        f"tests/hidden/{chapter}/probe_{exercise}.py": (
            fill("probe.py"),
            "code that these run beside the student's",
        ),
        f"tests/right/{chapter}/{exercise}/factors.py": (fill("right.py"), "another right answer"),
        f"tests/wrong/{chapter}/{exercise}.toml": (
            fill("wrong.toml", id=exercise, chapter=chapter),
            "wrong answers: a right one with mistakes put in",
        ),
        f"tests/wrong/{chapter}/{exercise}.caught.toml": (
            fill("caught.toml", id=exercise),
            "the tests that catch each of them, written by `grade verify --write`",
        ),
    }


def _scaffolded(
    exercise: str, chapter: str, root: Path, exercises: str, files: dict[str, tuple[str, str]]
) -> Scaffolded:
    shown = {name: purpose for name, (_, purpose) in files.items()}
    shown[f"{exercises}/course.toml"] = "its entry: points, time, hints"
    return Scaffolded(exercise, chapter, root, shown)


@contextlib.contextmanager
def _new_files(root: Path, texts: dict[str, str]) -> Iterator[None]:
    """Write new files, and remove them again if that or the block fails."""
    for name in texts:
        if os.path.lexists(root / name):
            raise UsageError(f"{root / name} already exists; move it, or choose another id.")
    created: list[Path] = []
    try:
        for name, text in texts.items():
            path = root / name
            created += reversed([folder for folder in path.parents if not folder.exists()])
            path.parent.mkdir(parents=True, exist_ok=True)
            # "x": the file may have appeared since the check above.
            with path.open("x", encoding="utf-8", newline="\n") as file:
                created.append(path)
                file.write(text)
        yield
    except BaseException as error:
        for path in reversed(created):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if isinstance(error, OSError):
            raise GraderError(f"Nothing was made in {root}: {error.strerror}.") from error
        raise


def fill(template: str, **values: str) -> str:
    """Return the text of a template with every @name@ replaced; a name without a value is a KeyError.

    Values are not searched for names again, since they may contain any text.
    """
    # Not `joinpath` with several parts, which namespace readers of Python 3.11 do not accept.
    file = resources.files("grader.authoring") / "templates" / f"{template}.txt"
    text = file.read_text(encoding="utf-8")
    return _NAME.sub(lambda match: values[match[1]], text)
