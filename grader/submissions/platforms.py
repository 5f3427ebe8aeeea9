"""How platforms name what one downloads from them: whose it is, when it came, what the student called it.

- Canvas: `doejane_LATE_123_456_glu.py`: sortable name, id of the user, id of the file, and the name that the
  student gave it, with `-1`, `-2` where there was one before; text typed in is `doejane_123_text.html`.
- Moodle: `Jane Doe_123_assignsubmission_file_/glu.py`, or the same in one name; typed in: `onlinetext`.
- Gradescope: `submission_123/` beside `submission_metadata.yml`.
- GitHub Classroom and Classroom 50: clones `assignment-username/`, `classroom-assignment-username/`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

import msgspec

from grader.results import Student
from grader.submissions.names import written

METADATA = "submission_metadata.yml"

# The ids come after the name, in which Canvas leaves no number between underscores: the first ones count,
# for what follows them was named by the student.
_CANVAS = re.compile(
    r"(?:(?P<name>(?:(?!_LATE_|_\d+_).)+)_)??(?P<late>LATE_)?(?P<user>\d+|anon_[A-Za-z0-9]+)_"
    r"(?:(?P<file>\d+)_(?P<rest>.+)|(?P<typed>text|link)\.html)",
    re.DOTALL,
)
_MOODLE = re.compile(
    r"(?P<name>[^_]+)_(?P<id>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<rest>.*))?", re.DOTALL
)
_GRADESCOPE = re.compile(r"submission_\d+")
_COPY = re.compile(
    r"(?P<stem>.+?)(?:-(?P<dashed>\d{1,3})| ?\((?P<browser>\d{1,3})\))(?P<suffix>\.[\w.]+)?"
)


class Layout(enum.Enum):
    """Where a download comes from."""

    CANVAS = "Canvas"
    MOODLE = "Moodle"
    GRADESCOPE = "Gradescope"
    CLONES = "classroom repositories"
    NAMES = "a folder, an archive or files a student"


class Named(msgspec.Struct, frozen=True):
    """What a name in a download says; `person` is one key for all that the same person handed in.

    `rest` is what the student called the file (empty for a folder that is all the student's), `typed`
    is set for text that was typed in, and `order` grows with time where the platform counts.
    """

    person: str
    student: Student
    rest: str = ""
    late: bool = False
    typed: bool = False
    order: int = 0


def platform_of(names: Iterable[str]) -> Layout:
    """The platform that most of the names are of; `NAMES` if there is none."""
    total, canvas, moodle = 0, 0, 0
    for name in names:
        total += 1
        moodle += _MOODLE.fullmatch(name) is not None
        canvas += _CANVAS.fullmatch(name) is not None
    if 2 * moodle > total:
        return Layout.MOODLE
    return Layout.CANVAS if 2 * canvas > total else Layout.NAMES


def is_gradescope(name: str) -> bool:
    """Whether this is the name of a folder in Gradescope's export."""
    return _GRADESCOPE.fullmatch(name) is not None


def named(layout: Layout, name: str) -> Named | None:
    """What a name says in Canvas's or Moodle's download; None if it is none of theirs."""
    if layout is Layout.CANVAS and (match := _CANVAS.fullmatch(name)):
        return _canvas(match)
    if layout is Layout.MOODLE and (match := _MOODLE.fullmatch(name)):
        student = Student(
            id=match["id"],
            name=written(match["name"]),
            ids={"moodle_identifier": f"Participant {match['id']}"},
        )
        typed = match["kind"] != "file"
        return Named(match["id"] + "/" + match["name"], student, match["rest"] or "", typed=typed)
    return None


def _canvas(match: re.Match[str]) -> Named:
    user, name = match["user"], match["name"] or ""
    ids = {"canvas_id": user} if user.isdigit() else {}
    return Named(
        # Two names with one id are not one person: somebody may have chosen such a name.
        f"{user}/{name}",
        Student(id=user, name=written(name), ids=ids),
        match["rest"] or "",
        late=match["late"] is not None,
        typed=match["typed"] is not None,
        order=int((match["file"] or "0")[:20]),
    )


def copy_number(name: str) -> tuple[str, int]:
    """A file's name without the number of its copy: `glu-1.py`, `glu (1).py` are copy 1 of `glu.py`."""
    match = _COPY.fullmatch(name)
    if match is None:
        return name, 0
    return match["stem"] + (match["suffix"] or ""), int(match["dashed"] or match["browser"])


def clone_affixes(names: list[str], parent: str) -> tuple[str, str]:
    """What stands before and after the username in the names of clones.

    The folder above may say it (`hw1-submissions`, `cs-hw1_submissions_2026_05_09`); otherwise it is
    what all of them have in common.
    """
    for word in ("-submissions", "_submissions"):
        before = parent.partition(word)[0]
        if word in parent and all(name.startswith(before + "-") for name in names):
            return before + "-", ""
    if len(names) < 2:
        return "", ""
    start = _common_start(names)
    if before := start[: start.rfind("-") + 1]:
        return before, ""
    end = _common_start([name[::-1] for name in names])[::-1]
    at = end.find("-")
    return "", end[at:] if at >= 0 else ""


def _common_start(names: list[str]) -> str:
    first, last = min(names), max(names)
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), None
    )
    return first[:length]
