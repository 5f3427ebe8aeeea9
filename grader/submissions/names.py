"""The exercise of a file by its name: an exact name, a similar one, or a mention of the exercise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from grader.course.manifest import Course, Exercise
from grader.submissions.archive import looks_like_code

# Names that browsers, file managers and platforms give to a copy of `glu.py`.
_COPY = (
    r"(?:[-_ ](?P<numbered>\d{1,3})| ?\((?P<counted>\d{1,3})\)"
    r"|[ _-]*[( _-](?:copy|copie|copia|c[oó]pia|kopie|kopia|kopi)\)?(?:[ _-]*\(?(?P<again>\d{1,3})\)?)?)"
)
_COPY_OF = r"(?:(?:copy|kopie|copie|copia|c[oó]pia)[ _](?:of|von|de|di|\(\d{1,3}\) of)[ _])"
_NAME = re.compile(
    rf"(?P<before>{_COPY_OF})?(?P<stem>.+?)(?P<copy>{_COPY})?(?P<suffix>(?:\.[a-z0-9]{{1,8}}){{1,2}})",
    re.IGNORECASE,
)
# ILIAS puts the time in front: `20261011183000_glu.py`.
_SENT = re.compile(r"(?P<time>20\d{12})_(?P<name>.+)", re.DOTALL)
_SCRIPTS = (".py", ".pyw", ".py3", ".py.py")
_TEXTS = (".txt", ".py.txt")
# Files other than code in which a student may have written an exercise by mistake.
_DOCUMENTS = (".md", ".rtf", ".doc", ".docx", ".odt", ".pages", ".pdf", ".html", ".htm", ".json")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Code of this name is never an answer.
_NO_ANSWERS = ("conftest.py", "setup.py", "__init__.py", "__main__.py")
_TEXT = 3
_LONGEST = 255


class Rank(NamedTuple):
    """The rank of a path for an exercise; a smaller one is better.

    `likeness` is 0 for the exact name, 1 for the name of a copy, 2 for other capitals and 3 for a text file.
    `depth` counts the folders around the usual folders of the exercise, and `place` is the order of these.
    The copy with the highest number is the newest.
    """

    likeness: int
    depth: int
    place: int
    copy: int

    @property
    def is_text(self) -> bool:
        """Whether it has the name of a text file."""
        return self.likeness == _TEXT


def places(exercise: Exercise) -> tuple[str, ...]:
    """Return the usual paths of an exercise's file in a submission, the likeliest first."""
    return exercise.file, f"exercises/{exercise.file}", f"{exercise.id}.py"


def rank(exercise: Exercise, path: str) -> Rank | None:
    """Return the rank of a path for an exercise, None if its name does not fit."""
    *folders, name = path.split("/")
    if (likeness := _likeness(exercise, name)) is None:
        return None
    place = 2
    if folders and folders[-1].lower() == exercise.chapter:
        folders.pop()
        place = 0
    if folders and folders[-1].lower() == "exercises":
        folders.pop()
        place = min(place + 1, 2)
    return Rank(likeness[0], len(folders), place, likeness[1])


def _likeness(exercise: Exercise, name: str) -> tuple[int, int] | None:
    """Return the likeness of a file's name to an exercise's, and the negative number of the copy."""
    if name == f"{exercise.id}.py":
        return 0, 0
    # A fast check that decides for most files.
    if exercise.id not in name.lower():
        return None
    if (sent := _SENT.fullmatch(name)) is not None:
        likeness = _likeness(exercise, sent["name"])
        return None if likeness is None else (likeness[0], -int(sent["time"]))
    if (match := _named(name)) is None:
        return None
    suffix, number = match["suffix"].lower(), 0
    if match["stem"].lower() == exercise.id:
        number = -int(match["numbered"] or match["counted"] or match["again"] or 0)
    elif f"{match['stem']}{match['copy'] or ''}".lower() != exercise.id:  # `Task_1.py`
        return None
    if suffix in _TEXTS:
        return _TEXT, number
    if suffix not in _SCRIPTS:
        return None
    return (1 if name[: len(exercise.id)] == exercise.id else 2), number


def is_named_after(course: Course, name: str) -> bool:
    """Whether a file has the name of an exercise or of a copy of it, and is not a text file."""
    if not name.lower().endswith(_SCRIPTS):
        return False
    return any(_likeness(exercise, name) is not None for exercise in course.exercises)


def is_exactly(exercises: Iterable[Exercise], name: str) -> Exercise | None:
    """Return the exercise with the same name as a file, up to capitals."""
    lower = name.lower()
    return next((exercise for exercise in exercises if lower == f"{exercise.id}.py"), None)


def spoken_of(course: Course, name: str) -> list[Exercise]:
    """Return the exercises that a file's name mentions, such as `glu_solution.py` or `MyGlu2.py`.

    If one exercise's name contains another's, the longer one counts. The name of a document has to be exactly
    the exercise's.
    """
    lower = name.lower()
    if lower.endswith((*_TEXTS, *_DOCUMENTS)):
        near = [exercise for exercise in course.exercises if exercise.id in lower]
        match = _named(name) if near else None
        return [e for e in near if match is not None and match["stem"].lower() == e.id]
    if not looks_like_code(name) or len(name) > _LONGEST or is_test(name):
        return []
    words = _words(name)
    named = [e for e in course.exercises if any(_of(e) in spelling for spelling in words)]
    return [e for e in named if not any(_of(e) in _of(other) for other in named if other is not e)]


def _named(name: str) -> re.Match[str] | None:
    """Return the parts of a name, None if it is longer than file names can be."""
    return _NAME.fullmatch(name) if len(name) <= _LONGEST else None


def _of(exercise: Exercise) -> str:
    return f" {exercise.id.replace('_', ' ')} "


def _words(name: str) -> tuple[str, str]:
    """Return the words of a file's name in lower case, as written, and without trailing numbers."""
    text = _CAPITAL.sub(" ", name.lstrip(".").partition(".")[0]).casefold()
    words = re.findall(r"[^\W_]+", text)
    return f" {' '.join(words)} ", f" {' '.join(word.rstrip('0123456789') for word in words)} "


def is_test(name: str) -> bool:
    """Whether code of this name is a test or sets up a package, and is not an answer."""
    return name.lower() in _NO_ANSWERS or _words(name)[1].startswith(" test ")
