"""Which exercise a file belongs to by its name: exactly, nearly, or only in its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from grader.course.manifest import Course, Exercise
from grader.submissions.archive import looks_like_code

# What a browser, a file manager or a platform makes of `glu.py` where there is one already.
_COPY = (
    r"(?:[-_ ](?P<numbered>\d{1,3})| ?\((?P<counted>\d{1,3})\)"
    r"|[ _-]*[( _-](?:copy|copie|copia|c[oó]pia|kopie|kopia|kopi)\)?(?:[ _-]*\(?(?P<again>\d{1,3})\)?)?)"
)
_COPY_OF = r"(?:(?:copy|kopie|copie|copia|c[oó]pia)[ _](?:of|von|de|di|\(\d{1,3}\) of)[ _])"
_NAME = re.compile(
    rf"(?P<before>{_COPY_OF})?(?P<stem>.+?)(?P<copy>{_COPY})?(?P<suffix>(?:\.[a-z0-9]{{1,8}}){{1,2}})",
    re.IGNORECASE,
)
_SCRIPTS = (".py", ".pyw", ".py3", ".py.py")
_TEXTS = (".txt", ".py.txt")
# Beside those of code: where a student may have written an exercise by mistake.
_DOCUMENTS = (".md", ".rtf", ".doc", ".docx", ".odt", ".pages", ".pdf", ".html", ".htm", ".json")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Code of this name is no answer, wherever it lies.
_NO_ANSWERS = ("conftest.py", "setup.py", "__init__.py", "__main__.py")
_TEXT = 3
_LONGEST = 255


class Rank(NamedTuple):
    """How well a path fits an exercise, the smaller the better.

    `likeness` is 0 for the very name, 1 for that of a copy, 2 for other capitals and 3 for a text file;
    `depth` counts the folders around those in which a submission has the exercise; `place` is the order of
    these folders. Of several copies the last one is the newest.
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
    """Where a submission has the file of an exercise, the likeliest place first."""
    return exercise.file, f"exercises/{exercise.file}", f"{exercise.id}.py"


def rank(exercise: Exercise, path: str) -> Rank | None:
    """How well a path fits an exercise; None where its name is another one."""
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
    """How nearly a file is named after an exercise, and the number of the copy, below 0."""
    if name == f"{exercise.id}.py":
        return 0, 0
    # Most files of a class are told apart by this.
    if exercise.id not in name.lower() or (match := _named(name)) is None:
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
    """Whether a file has the name of an exercise, or that of a copy of it; a text file has not."""
    if not name.lower().endswith(_SCRIPTS):
        return False
    return any(_likeness(exercise, name) is not None for exercise in course.exercises)


def is_exactly(exercises: Iterable[Exercise], name: str) -> Exercise | None:
    """The exercise whose very name a file has, capitals aside."""
    lower = name.lower()
    return next((exercise for exercise in exercises if lower == f"{exercise.id}.py"), None)


def spoken_of(course: Course, name: str) -> list[Exercise]:
    """The exercises whose words a file's name holds, the longest names: `glu_solution.py`, `MyGlu2.py`.

    Of a document the whole name has to be the exercise's.
    """
    lower = name.lower()
    if lower.endswith((*_TEXTS, *_DOCUMENTS)):
        near = [exercise for exercise in course.exercises if exercise.id in lower]
        match = _named(name) if near else None
        return [e for e in near if match is not None and match["stem"].lower() == e.id]
    if not looks_like_code(name) or len(name) > _LONGEST or is_test(name):
        return []
    words = _words(name)
    found = [e for e in course.exercises if any(_of(e) in spelling for spelling in words)]
    return [e for e in found if not any(_of(e) in _of(other) for other in found if other is not e)]


def _named(name: str) -> re.Match[str] | None:
    """The parts of a name; None where it is longer than any that a file can have."""
    return _NAME.fullmatch(name) if len(name) <= _LONGEST else None


def _of(exercise: Exercise) -> str:
    return f" {exercise.id.replace('_', ' ')} "


def _words(name: str) -> tuple[str, str]:
    """The words of a file's name in lower case, as they are written and without numbers behind them."""
    text = _CAPITAL.sub(" ", name.lstrip(".").partition(".")[0]).casefold()
    words = re.findall(r"[^\W_]+", text)
    return f" {' '.join(words)} ", f" {' '.join(word.rstrip('0123456789') for word in words)} "


def is_test(name: str) -> bool:
    """Whether code of this name tests an answer, or sets a package up, and is no answer itself."""
    return name.lower() in _NO_ANSWERS or _words(name)[1].startswith(" test ")
