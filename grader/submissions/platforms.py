"""The platforms whose downloads are accepted: a class for each, and one table.

A class recognizes a download, finds the owner of each entry, and names the columns of a class list
(`class_list`) with its ids. Other entries are named after their students: a folder, an archive or a file for
each.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar

import msgspec

from grader.results import StudentInfo
from grader.submissions.folder import EntryKind, Unreadable, normalized, open_regular
from grader.submissions.gradescope import Submission, read_metadata
from grader.submissions.member import AttemptFile, Member, MemberReader, Readable
from grader.submissions.owners import DISPUTED, Affixes, Knows, shared_affixes, without_groups
from grader.text import clean

_COPY = re.compile(
    r"(?P<stem>.+?)(?:-(?P<dashed>\d{1,3})| ?\((?P<browser>\d{1,3})\))(?P<suffix>\.[\w.]+)?"
)
_NO_NAME = re.compile(r"(?!)")


class Item(msgspec.Struct):
    """One name at the top of a download; `newest` orders items of one person by time, if known.

    For a folder in an archive, `top` has names in it.
    """

    name: str
    kind: EntryKind
    pieces: list[AttemptFile] = []
    newest: float = 0.0
    is_clone: bool = False
    problem: str = ""
    top: set[str] = set()


class Download(msgspec.Struct, frozen=True):
    """The items at the top, below folders that only wrap them; `folder` is the name of the last such folder.

    `strays` is the number of names that lead out of the archive. `hidden` has names with a dot in front that
    may be somebody's. `notes` are about skipped names. `code` has paths of exercises that belong to nobody.
    """

    path: Path
    folder: str
    items: tuple[Item, ...]
    strays: int = 0
    hidden: tuple[str, ...] = ()
    metadata: Mapping[str, Path | Member] = {}
    notes: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    @contextlib.contextmanager
    def open_metadata(self, name: str) -> Iterator[Readable]:
        """Open one of the files of metadata; raises Unreadable."""
        place = self.metadata[name]
        if isinstance(place, Member):
            yield MemberReader(place)
        else:
            with open_regular(place, name) as file:
                yield file


class ItemInfo(msgspec.Struct, frozen=True):
    """Metadata of an item; `person` is one key for all items of the same person.

    `rest` is the student's name of the file (empty if a whole folder is the student's). `typed` marks text that
    was typed in. `order` grows with time if the platform counts attempts. `sent` is a time without a time zone,
    which only orders attempts; files with the same one were handed in together.
    """

    person: str
    student: StudentInfo
    rest: str = ""
    late: bool = False
    typed: bool = False
    order: int = 0
    sent: str = ""
    submitted_at: str = ""


class Platform:
    """A platform; this base class reads folders, archives and files with the students' names.

    pattern: the pattern of an entry's name.
    metadata: the name of a file beside the entries.
    columns: columns of a class list, in small letters without spaces and signs, and the ids in them.
    numbered: kinds of ids in which only the number counts, not the words around it.
    notes: notes on the download for an instructor; an object reads one download.
    """

    label: ClassVar[str] = "a folder, an archive or files for each student"
    pattern: ClassVar[re.Pattern[str]] = _NO_NAME
    metadata: ClassVar[str] = ""
    columns: ClassVar[Mapping[str, str]] = {}
    numbered: ClassVar[tuple[str, ...]] = ()
    # Whether other items may be named after their students.
    mixed: ClassVar[bool] = True
    # Whether nobody else writes such names, so that one of them is enough.
    is_sure: ClassVar[bool] = False

    def __init__(self) -> None:
        self.notes: list[str] = []

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        """Whether a download is from this platform, by most of its names."""
        return 2 * sum(cls.is_entry(item.name) for item in items) > len(items)

    @classmethod
    def is_entry(cls, name: str) -> bool:
        """Whether this platform surely wrote a name."""
        return cls.pattern.fullmatch(name) is not None

    def begin(self, download: Download, known: Knows, /) -> None:
        """Prepare to read a download, from its items, its folder and its metadata.

        `known` finds people by their names.
        """

    def read(self, item: Item) -> Iterable[ItemInfo]:
        """Return the metadata of an item, once for each author; empty if it is not a submission."""
        match = self.pattern.fullmatch(item.name)
        return [] if match is None else [self.entry(match)]

    def entry(self, match: re.Match[str]) -> ItemInfo:
        """Return the metadata in a name that matches the pattern."""
        raise NotImplementedError

    @staticmethod
    def ids(student: StudentInfo) -> list[tuple[str, str]]:
        """Return the ids by which a student of the download is found in a roster, the surest first."""
        return [*student.ids.items(), ("email", student.email)]

    @staticmethod
    def may_be(_student: StudentInfo, _listed: StudentInfo, /) -> bool:
        """Whether a student may be the one in the roster with the same id of another kind."""
        return True


class Moodle(Platform):
    """`Jane Doe_123_assignsubmission_file_/glu.py`, or the same in one name; typed in: `onlinetext`."""

    label = "Moodle"
    is_sure = True
    pattern = re.compile(
        r"(?P<name>[^_]+)_(?P<id>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<rest>.*))?",
        re.DOTALL,
    )
    columns = dict.fromkeys(("identifier", "moodleidentifier", "participant"), "moodle_identifier")
    numbered = ("moodle_identifier",)  # "Participant 123456", in the language of the site

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}

    def begin(self, download: Download, known: Knows, /) -> None:
        matches = (self.pattern.fullmatch(item.name) for item in download.items)
        names = {normalized(match["name"]) for match in matches if match is not None}
        self._names = without_groups(names, known)

    def entry(self, match: re.Match[str]) -> ItemInfo:
        ids = {"moodle_identifier": f"Participant {match['id']}"}
        name = normalized(match["name"])
        name = self._names.get(name, name)
        student = StudentInfo(id=match["id"], name=name, ids=ids)
        key = f"{match['id']}/{match['name']}"
        return ItemInfo(key, student, match["rest"] or "", typed=match["kind"] != "file")

    @staticmethod
    def may_be(student: StudentInfo, _listed: StudentInfo, /) -> bool:
        # The number is for this assignment, and not a student number.
        return student.ids.get("moodle_identifier") != f"Participant {student.id}"


class Canvas(Platform):
    """`doejane_LATE_123_456_glu.py`: sortable name, id of the user, id of the file, and the file's name.

    The file's name is the student's, with `-1`, `-2` for further ones. Typed text is `doejane_123_text.html`.
    """

    label = "Canvas"
    # The ids come after the name, in which Canvas leaves no number between underscores. The first numbers
    # count, since the rest is the student's.
    pattern = re.compile(
        r"(?:(?P<name>(?:(?!_LATE_|_\d+_).)+)_)??(?P<late>LATE_)?(?P<user>\d+|anon_[A-Za-z0-9]+)_"
        r"(?:(?P<file>\d+)_(?P<rest>.+)|(?P<typed>text|link)\.html)",
        re.DOTALL,
    )
    columns = (
        dict.fromkeys(("canvasid", "canvasuserid"), "canvas_id")
        | dict.fromkeys(("sisuserid", "sisid"), "sis_user_id")
        | dict.fromkeys(("sisloginid", "loginid", "login"), "sis_login_id")
    )

    def entry(self, match: re.Match[str]) -> ItemInfo:
        user, name, typed = match["user"], match["name"] or "", match["typed"]
        ids = {"canvas_id": user} if user.isdigit() else {}
        return ItemInfo(
            # Two names with one id may be two people, since students may imitate such names.
            f"{user}/{name}",
            StudentInfo(id=user, name=normalized(name), ids=ids),
            f"{typed}.html" if typed else match["rest"],
            late=match["late"] is not None,
            typed=typed is not None,
            order=_order(match),
        )

    @classmethod
    def file_number(cls, origin: str) -> int:
        """Return Canvas's number of the first file in an origin, 0 without one; it grows with time."""
        match = cls.pattern.fullmatch(origin)
        return 0 if match is None else _order(match)

    @staticmethod
    def may_be(student: StudentInfo, listed: StudentInfo, /) -> bool:
        # The number is Canvas's own: if both have different names, it means nothing.
        return not ("canvas_id" in student.ids and listed.name and student.name)


def _order(match: re.Match[str]) -> int:
    return int((match["file"] or "0")[:20])


class Blackboard(Platform):
    """`Lab 1_jdoe_attempt_2026-10-11-18-30-00_glu.py`: assignment, user name, time, and the file's name.

    A text without a file's name has comments and text that was typed in. The time is in the zone of the server,
    which nothing names, so it only orders attempts.
    """

    label = "Blackboard"
    pattern = re.compile(
        r"(?P<head>.[^_]*_.+?)_attempt_(?P<sent>\d{4}(?:-\d\d){5})(?:_(?P<rest>.+)|\.txt)",
        re.DOTALL,
    )

    def __init__(self) -> None:
        super().__init__()
        self._affixes = Affixes()

    def begin(self, download: Download, known: Knows, /) -> None:
        matches = (self.pattern.fullmatch(item.name) for item in download.items)
        heads = sorted({match["head"] for match in matches if match is not None})
        if (shared := shared_affixes(heads, known)) is not None and shared.affixes != Affixes():
            self._affixes = Affixes(shared.affixes.before)
        elif heads:
            # Assignments and user names may have a `_`, but the assignment is the same in all names.
            start = _common_start(heads) if heads[1:] else heads[0]
            self._affixes = Affixes(start[: start.rfind("_") + 1])

    def entry(self, match: re.Match[str]) -> ItemInfo:
        user = normalized(self._affixes.without(match["head"]))
        return ItemInfo(
            match["head"],
            StudentInfo(id=user, ids={"username": user}),
            match["rest"] or "",
            typed=match["rest"] is None,
            sent=match["sent"],
        )


class Brightspace(Platform):
    """`4000-90001 - Jane Doe - Oct 11, 2026 630 PM/`, or the same and ` - glu.py` for each file.

    The first number is the user's. The time is in the zone and the language of the site, so it only orders
    attempts.
    """

    label = "Brightspace"
    pattern = re.compile(
        r"(?P<user>\d+)-(?P<number>\d+) - (?:(?P<org>[A-Za-z]{0,3}\d+) - )?(?P<name>.+?) ?- "
        r"(?P<time>(?=[^-]*\b\d{4}\b)[^-]*\d{1,2}[:.]?\d\d(?: ?[AP]M)?)(?: - (?P<rest>.+))?",
        re.DOTALL | re.IGNORECASE,
    )
    is_sure = True

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        # Brightspace adds a list of the files.
        return super().recognizes([item for item in items if item.name != "index.html"])

    def entry(self, match: re.Match[str]) -> ItemInfo:
        ids = {"id_number": match["org"]} if match["org"] else {}
        number, name = int(match["number"][:20]), normalized(match["name"])
        time = match["time"]
        for form in ("%b %d, %Y %I%M %p", "%B %d, %Y %I%M %p", "%d %B, %Y %I%M %p"):
            with contextlib.suppress(ValueError):
                time = datetime.datetime.strptime(match["time"], form).isoformat()
        return ItemInfo(
            f"{match['user']}/{match['name']}",
            StudentInfo(id=name, name=name, ids=ids),
            match["rest"] or "",
            order=number,
            sent=f"{time} {number:020}",
        )


class Sakai(Platform):
    """`Doe, Jane(jdoe)/Submission attachment(s)/glu.py`: the sortable name and the user name."""

    label = "Sakai"
    pattern = re.compile(r"(?P<last>[^,]+), (?P<first>[^,]*[^,\s])\((?P<user>[^()\s]+)\)")

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        # Sakai adds files with grades.
        folders = [item for item in items if item.kind is EntryKind.FOLDER]
        return super().recognizes(folders)

    def entry(self, match: re.Match[str]) -> ItemInfo:
        return _of_user(match)


class Ilias(Platform):
    """`Doe_Jane_jdoe_300/20261011183000_glu.py`: last name, first name, login, and the number of the user."""

    label = "ILIAS"
    pattern = re.compile(r"(?P<last>[^_\d]+)_(?P<first>[^_\d]+)_(?P<user>.+)_(?P<number>\d+)")

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        names = [item.name for item in items if item.kind is EntryKind.FOLDER]
        matches = [match for name in names if (match := cls.pattern.fullmatch(name)) is not None]
        # Nothing in a single name is ILIAS's own.
        return len(names) > 1 and all(
            len({match[key] for match in matches}) == len(names) for key in ("user", "number")
        )

    @classmethod
    def is_entry(cls, _name: str) -> bool:
        return False

    def entry(self, match: re.Match[str]) -> ItemInfo:
        return _of_user(match)


def _of_user(match: re.Match[str]) -> ItemInfo:
    """Return the metadata in a name with a last name, a first name and a user name."""
    user = normalized(match["user"])
    name = normalized(f"{match['first']} {match['last']}")
    return ItemInfo(match[0], StudentInfo(id=user, name=name, ids={"username": user}), match[0])


class Gradescope(Platform):
    """`submission_123/` beside `submission_metadata.yml`, which names every author."""

    label = "Gradescope"
    pattern = re.compile(r"submission_\d+")
    metadata = "submission_metadata.yml"
    columns = dict.fromkeys(("sid", "gradescopesid"), "gradescope_sid")

    def __init__(self) -> None:
        super().__init__()
        self._submissions: dict[str, Submission] = {}

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        return any(item.kind is EntryKind.FOLDER and cls.is_entry(item.name) for item in items)

    def begin(self, download: Download, _known: Knows, /) -> None:
        unknown = "names are not known, only numbers."
        if self.metadata not in download.metadata:
            self.notes.append(f"There is no {self.metadata}: {unknown}")
            return
        try:
            with download.open_metadata(self.metadata) as file:
                self._submissions = read_metadata(file)
        except Unreadable as problem:
            reason = str(problem).partition(":")[0]
            self.notes.append(f"{self.metadata} {reason}: {unknown}")

    def read(self, item: Item) -> Iterable[ItemInfo]:
        if not self.is_entry(item.name):
            return
        submission = self._submissions.get(item.name, Submission(()))
        if not submission.students:
            yield ItemInfo(item.name, StudentInfo(id=item.name), item.name)
        for student in submission.students:
            key = f"{student.id}/{student.email}/{student.name}"
            yield ItemInfo(key, student, item.name, submitted_at=submission.submitted_at)


class Clones(Platform):
    """Clones of GitHub Classroom or Classroom 50, such as `lab-1-jane/`, with the user's name in a part."""

    label = "classroom repositories"
    columns = dict.fromkeys(("githubusername", "github", "githublogin"), "github_username")
    mixed = False

    def __init__(self) -> None:
        super().__init__()
        self._affixes = Affixes()
        self._whole: frozenset[str] = frozenset()

    @classmethod
    def recognizes(cls, items: Sequence[Item]) -> bool:
        folders = [item for item in items if item.kind is EntryKind.FOLDER]
        return 2 * sum(item.is_clone for item in folders) > len(folders)

    def begin(self, download: Download, known: Knows, /) -> None:
        names = sorted(item.name for item in download.items if item.kind is EntryKind.FOLDER)
        said = said_affixes(names, download.folder)
        shared = shared_affixes(names, known, said)
        self._whole = frozenset(name for name in names if known.whom(name) is not None)
        self._affixes = said
        if shared is not None:
            self._affixes = shared.affixes
            self.notes += [DISPUTED] if shared.is_disputed else []
        elif said == Affixes():
            self._affixes = common_affixes(names)
        if self._affixes != Affixes():
            self.notes.append(
                f"Taken as clones {clean(self._affixes.around('USERNAME'))}, by the user's name."
            )

    def read(self, item: Item) -> Iterable[ItemInfo]:
        if item.kind is not EntryKind.FOLDER:
            return []
        name = item.name
        user = normalized(name if name in self._whole else self._affixes.without(name)) or name
        return [ItemInfo(name, StudentInfo(id=user, ids={"username": user}), name)]

    @staticmethod
    def ids(student: StudentInfo) -> list[tuple[str, str]]:
        user = student.ids.get("username", "")
        return [("github_username", user), *Platform.ids(student)]


# The first platform that recognizes a download reads it.
PLATFORMS: tuple[type[Platform], ...] = (
    Moodle,
    Blackboard,
    Canvas,
    Brightspace,
    Gradescope,
    Sakai,
    Clones,
    Ilias,
)

# Kinds of ids in which only the number counts.
NUMBERED = frozenset(key for platform in PLATFORMS for key in platform.numbered)


def platform_of(items: Sequence[Item]) -> Platform:
    """Return the platform of a download, or of some names in it, or the generic one."""
    recognized = (platform for platform in PLATFORMS if platform.recognizes(items))
    of_some = (
        platform
        for platform in PLATFORMS
        if platform.is_sure and any(platform.is_entry(item.name) for item in items)
    )
    return next(chain(recognized, of_some), Platform)()


def copy_number(name: str) -> tuple[str, int]:
    """Split the number of a copy off a file's name: `glu-1.py` and `glu (1).py` are copy 1 of `glu.py`."""
    match = _COPY.fullmatch(name)
    if match is None:
        return name, 0
    return match["stem"] + (match["suffix"] or ""), int(match["dashed"] or match["browser"])


def said_affixes(names: Sequence[str], folder: str) -> Affixes:
    """Return the prefix of clones by their folder: `hw1-submissions`, `cs-hw1_submissions_2026_05_09`."""
    for word in ("-submissions", "_submissions"):
        before = folder.partition(word)[0]
        if word in folder and all(name.startswith(before + "-") for name in names):
            return Affixes(before + "-")
    return Affixes()


def common_affixes(names: Sequence[str]) -> Affixes:
    """Return the common prefix or suffix of the names of clones, for use without a class list."""
    if len(names) < 2:
        return Affixes()
    start = _common_start(names)
    if before := start[: start.rfind("-") + 1]:
        return Affixes(before)
    end = _common_start([name[::-1] for name in names])[::-1]
    at = end.find("-")
    return Affixes(after=end[at:] if at >= 0 else "")


def _common_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), None
    )
    return first[:length]
