"""The top level of a class's download, on the disk or in one archive: an item for each name.

An archive is not opened again for each student. One pass over its table of contents keeps the places of the
files that matter for each item.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.submissions.archive import Extras, StoredArchive, looks_like_code, looks_packed
from grader.submissions.folder import (
    Damaged,
    EntryKind,
    Unreadable,
    entries,
    entry_kind,
    is_ignored,
    is_junk,
    is_set_aside,
    normalized,
    open_regular,
    safe_name,
    walk,
)
from grader.submissions.member import AttemptFile, Member, check_path, read_member
from grader.submissions.names import is_named_after, spoken_of
from grader.submissions.ours import kind_of_archive, kind_of_folder, kind_of_names
from grader.submissions.owners import Affixes, is_work, owner_of, shared_affixes, without_suffix
from grader.submissions.platforms import PLATFORMS, Download, Item
from grader.submissions.requests import requested
from grader.submissions.roster import Known
from grader.text import MOST_NAMES, clean, listed_names

MAX_ITEMS = 300_000
# A member costs 10 µs and 0.7 KiB.
_MAX_MEMBERS = 1_000_000
_MAX_TABLE_BYTES = 256 << 20
_MAX_WRAPPERS = 4
_MAX_PIECES = 100
_MAX_HIDDEN = 1000
# A larger archive in an archive is not opened before it is its student's turn.
_MAX_OURS_BYTES = 1 << 20
_OF_TOOLS = re.compile(
    r"\.([._#~].*|git(hub|lab|ignore|keep|attributes|modules)?|svn|hg|idea|vscode|vs|v?envs?|ipynb_checkpoints|"
    r".*[_-]cache|cache|trash(es|-\d+)?|spotlight-.*|fseventsd|temporaryitems|documentrevisions-.*|apdisk|tox|nox|"
    r"classroom50.*|devcontainer|config|local|npm|conda|jupyter|ipython|ssh|stfolder|stversions|sync|dropbox.*|"
    r"snapshots?)",
    re.IGNORECASE,
)
# The folders of a course of nbgrader: submissions are in one of them, below folders of the students.
_SUBMITTED = "submitted"
_OF_NBGRADER = frozenset(("source", "release", "autograded", "feedback", "solution", "downloaded"))
_METADATA = frozenset(platform.metadata for platform in PLATFORMS if platform.metadata)
# Names at the top level of a clone, and of no other folder of a student.
_OF_CLONES = (".git", ".github", ".classroom50.yml", ".classroom50.yaml")


class Context(NamedTuple):
    """Facts beside a download: the course, the class, and files that the command was given.

    Such files (a roster, a list of times, the folder of results) are nobody's work.
    """

    course: Course
    known: Known = Known()
    given: frozenset[Path] = frozenset()


def open_download(path: Path, context: Context) -> Download:
    """List a class's folder or archive; raises SubmissionError if it is not a class's."""
    real = path.resolve()
    try:
        is_folder = real.is_dir()
        if ours := kind_of_folder(real) if is_folder else "":
            raise SubmissionError(
                f"{path} is {ours} that `grade` wrote: name the folder with the submissions."
            )
        contents = _from_folder(real, context) if is_folder else _from_archive(real, context)
    except Damaged as problem:
        raise SubmissionError(
            f"{path} is cut off or damaged. If it is the download of a class, download it again."
        ) from problem
    except Unreadable as problem:
        raise SubmissionError(
            f"{path} {problem} If it is the download of a class, unpack it and name its folder."
        ) from problem
    name = real.name if is_folder else without_suffix(real.name)
    is_one = _is_submission(context, contents.items)
    if is_one or _is_of(context, name, contents):
        parts = (_part_of(context.course, item) for item in contents.items)
        part = clean(next(filter(None, parts), ""), 100)
        stray = f" If {part} belongs to no student, move it out of {path}." if is_one else ""
        raise SubmissionError(
            f"{path} is one submission, not a class{f', since it has {part}' if is_one else ''}: use "
            f"grade run --submission {path}, or name the folder that contains all of them.{stray}"
        )
    return _without_parts(contents, context)


def _is_submission(context: Context, items: Iterable[Item]) -> bool:
    """Whether these items are one student's work: exercises, or folders of them.

    An exercise that somebody left beside the work of two others makes no submission out of a class.
    """
    items = list(items)
    if any(item.kind is EntryKind.FOLDER and context.known.student(item.name) for item in items):
        return False
    course = context.course
    return any(_part_of(course, item) for item in items) and not _is_class(course, items)


def _is_class(course: Course, items: Iterable[Item]) -> bool:
    """Whether two of the items have work and may be named after students."""
    return sum(_has_work(course, item) for item in items if not _part_of(course, item)) > 1


def _has_work(course: Course, item: Item) -> bool:
    """Whether an item has an exercise in it and may be named after a student."""
    if all(is_work(name, course) for name in _names_in(course, item)):
        return False
    if item.kind is not EntryKind.FOLDER:
        return owner_of(course, item.name) is not None
    with contextlib.suppress(Unreadable):
        return any(
            is_named_after(course, name.rpartition("/")[2])
            for piece in item.pieces
            for name in (
                (found for found, _ in islice(walk(piece.place), _MAX_PIECES))
                if isinstance(piece.place, Path)
                else [piece.path]
            )
            if not is_set_aside(name)
        )
    return False


def _without_parts(contents: Download, context: Context) -> Download:
    """Return a class's items without folders of exercises that are no student's; `code` has their files."""
    code = {
        item.name: part
        for item in contents.items
        if item.kind is EntryKind.FOLDER
        and context.known.whom(item.name) is None
        and (part := _part_of(context.course, item))
    }
    return msgspec.structs.replace(
        contents,
        items=tuple(item for item in contents.items if item.name not in code),
        code=tuple(code.values()),
    )


def _is_of(context: Context, name: str, contents: Download) -> bool:
    """Whether a folder or archive has the name of a listed student, and nothing in it has anybody's name."""
    if context.known.student(name) is None or any(p.recognizes(contents.items) for p in PLATFORMS):
        return False
    names = {name for item in contents.items for name in _names_in(context.course, item)}
    return shared_affixes(sorted(names), context.known, course=context.course) is None


def _part_of(course: Course, item: Item) -> str:
    """Return the path of an exercise's file in an item, where a submission has it; empty if there is none."""
    if item.kind is not EntryKind.FOLDER:
        is_file = any(item.name == f"{exercise.id}.py" for exercise in course.exercises)
        return item.name if is_file else ""
    expected = [
        name
        for exercise in course.exercises
        if item.name in ("exercises", exercise.chapter)
        for name in (f"{exercise.id}.py", exercise.file)
    ]
    for piece in item.pieces:
        for name in expected:
            place = piece.place
            if (place / name).is_file() if isinstance(place, Path) else piece.path == name:
                return f"{item.name}/{name}"
    return ""


# --- folders around the rest ----------------------------------------------------------------------


def _with_skipped(level: Download, around: Download, folder: Item) -> Download:
    """Return a level with the names that were skipped in the level around its folder."""
    beside = [item.name for item in around.items if item is not folder]
    note = (f"Ignored: {listed_names(beside, MOST_NAMES)}.",) if beside else ()
    return msgspec.structs.replace(
        level,
        hidden=tuple(sorted((*around.hidden, *level.hidden))),
        notes=(*around.notes, *note, *level.notes),
    )


def _unwrapped(
    level_at: Callable[[tuple[str, ...]], Download], context: Context, name: str
) -> Download:
    """Return the level below the folders that only wrap the rest; `name` is the outermost.

    A folder is a student's if a class list knows it. If no list does, names decide, and a note says so.
    """
    inside: tuple[str, ...] = ()
    level = _without_ours(level_at(inside), context)
    while len(inside) < _MAX_WRAPPERS and (folder := _only_folder(level, context)) is not None:
        place = (*inside, folder.name)
        below = _without_ours(level_at(place), context)
        is_students = _is_students(context, folder, below)
        if is_students is None:
            is_students = _seems_students(context, folder, below, (name, *inside)[-1])
            if is_students:
                folder_path = clean("/".join(place), 100)
                note = f"Taken as the only student's: the folder {folder_path}."
                level = msgspec.structs.replace(level, notes=(*level.notes, note))
        if is_students:
            break
        inside, level = place, _with_skipped(below, level, folder)
    return level


def _only_folder(level: Download, context: Context) -> Item | None:
    """Return the folder that may only wrap the rest, None if there is anything else of a student."""
    folders = [item for item in level.items if item.kind is EntryKind.FOLDER]
    names = {item.name for item in level.items}
    if _SUBMITTED in names and names & {*_OF_NBGRADER, "nbgrader_config.py", "gradebook.db"}:
        return next(item for item in folders if item.name == _SUBMITTED)
    others = any(item.name.endswith(".py") or looks_packed(item.name) for item in level.items)
    if len(folders) != 1 or others or level.metadata or _is_submission(context, level.items):
        return None
    is_entry = any(platform.is_entry(folders[0].name) for platform in PLATFORMS)
    return None if is_entry else folders[0]


def _is_students(context: Context, folder: Item, below: Download) -> bool | None:
    """Whether a folder with this level below it is surely one student's; None if this is unclear."""
    folders = [item.name for item in below.items if item.kind is EntryKind.FOLDER]
    own = {"exercises", *(exercise.chapter for exercise in context.course.exercises)}
    is_own = len(folders) == 1 and folders[0] in own
    if (is_own and not _is_class(context.course, below.items)) or _is_submission(
        context, below.items
    ):
        return True
    names = [name for item in below.items for name in _names_in(context.course, item)]
    for list_ in context.known.lists:
        inner = [name for name in names if list_.called(name) is not None]
        if list_.called(folder.name) is not None:
            # Several known names in a folder with a known name: a class with a student of that name.
            return not (len(inner) > 1 and set(folders) <= set(inner))
        if inner:
            return False
        if list_.team(folder.name) is not None:
            return True
        if any(list_.team(name) is not None for name in names):
            return False
    for own_names, answer in (([folder.name], True), (names, False)):
        shared = shared_affixes(own_names, context.known, course=context.course)
        if shared is not None and shared.affixes != Affixes():
            return answer
    return False if any(item.is_clone for item in below.items) else None


def _seems_students(context: Context, folder: Item, below: Download, around: str) -> bool:
    """Guess whether a folder is one student's, by its name, the folder `around` it, and names in it."""
    if any(platform.recognizes(below.items) for platform in PLATFORMS):
        return False
    names = {name for item in below.items for name in _names_in(context.course, item)}
    people = [name for name in names if not is_work(name, context.course)]
    if is_work(folder.name, context.course) or folder.name == around:
        # It is better to have one student than none.
        return not (people if folder.is_clone else names)
    # One name in it may be a part of the work; several names are a class.
    return len(people) < 2


def _names_in(course: Course, item: Item) -> Iterator[str]:
    """Yield the part of an item's name that would be its student's, if it is a student's."""
    if item.kind is EntryKind.FOLDER:
        yield item.name
    elif looks_packed(item.name):
        yield without_suffix(item.name)
    elif (owner := owner_of(course, item.name)) is not None:
        yield owner[0]


def _without_ours(level: Download, context: Context) -> Download:
    """Return the level without output of our own commands, with a note about it."""
    known = context.known
    names = [without_suffix(item.name) for item in level.items]
    names += [student.id for list_ in known.lists for student in list_.students]
    students = {safe_name(normalized(name)) for name in names}
    ours: dict[str, str] = {}
    for item in sorted(level.items, key=lambda item: item.name):
        if known.student(without_suffix(item.name)) is None and (kind := _ours(item, students)):
            ours[item.name] = kind
    if not ours:
        return level
    listed = listed_names([f"{name} ({kind})" for name, kind in ours.items()])
    return msgspec.structs.replace(
        level,
        items=tuple(item for item in level.items if item.name not in ours),
        notes=(f"Ignored, since `grade` wrote it: {listed}.",),
    )


def _ours(item: Item, students: Collection[str]) -> str:
    """Return the kind of our own output that an item is, empty if it is not ours."""
    place = item.pieces[0].place if item.pieces else None
    if item.kind is EntryKind.FOLDER:
        if isinstance(place, Path):
            return kind_of_folder(place, students)
        return kind_of_names(item.top, students)
    if place is None or item.kind is not EntryKind.FILE or not item.name.lower().endswith(".zip"):
        return ""
    with contextlib.suppress(Unreadable):
        if isinstance(place, Path):
            with open_regular(place, item.name) as file:
                return kind_of_archive(file, students)
        if place.size <= _MAX_OURS_BYTES:
            return kind_of_archive(io.BytesIO(read_member(place, _MAX_OURS_BYTES)), students)
    return ""


# --- items ----------------------------------------------------------------------------------------


def _may_be_somebodys(name: str, kind: EntryKind) -> bool:
    """Whether a name with a dot in front at the top level is neither a system's nor a tool's."""
    is_work = kind is EntryKind.FOLDER or looks_packed(name) or looks_like_code(name)
    return name.startswith(".") and is_work and not _OF_TOOLS.fullmatch(name)


def _from_folder(folder: Path, context: Context) -> Download:
    """Return the items of a folder, below folders that only wrap them."""

    def level_at(inside: tuple[str, ...]) -> Download:
        return _level_of(folder.joinpath(*inside), context)

    return _unwrapped(level_at, context, folder.name)


def _level_of(folder: Path, context: Context) -> Download:
    """Return the items of one folder, its files of metadata, and hidden names that may be somebody's."""
    given = {path.name for path in context.given}
    items: list[Item] = []
    hidden: list[str] = []
    metadata: dict[str, Path | Member] = {}
    for entry in entries(folder):
        if is_junk(entry.name):
            if len(hidden) < _MAX_HIDDEN and _may_be_somebodys(entry.name, entry_kind(entry)):
                hidden.append(entry.name)
            continue
        if len(items) >= MAX_ITEMS:
            raise Unreadable(f"holds more than {MAX_ITEMS:,} names.")
        kind, place = entry_kind(entry), Path(entry.path)
        if entry.name in given and _is_given(place, kind, context):
            continue
        if entry.name in _METADATA and kind is EntryKind.FILE:
            metadata[entry.name] = place
            continue
        item = Item(
            entry.name, kind, [AttemptFile("" if kind is EntryKind.FOLDER else entry.name, place)]
        )
        if kind in (EntryKind.FOLDER, EntryKind.FILE):
            item.newest = entry.stat(follow_symlinks=False).st_mtime
            item.is_clone = kind is EntryKind.FOLDER and (place / ".git").exists()
        else:
            item.problem = f"This submission is a {kind.value}: hand in the file or folder itself."
        items.append(item)
    return Download(
        folder, folder.name, tuple(items), hidden=tuple(sorted(hidden)), metadata=metadata
    )


def _is_given(place: Path, kind: EntryKind, context: Context) -> bool:
    """Whether the command was given this file, or this empty folder to write into."""
    if place.resolve() not in context.given:
        return False
    return kind is EntryKind.FILE or (kind is EntryKind.FOLDER and not any(entries(place)))


def _from_archive(path: Path, context: Context) -> Download:
    archive = StoredArchive(path, _MAX_MEMBERS, _MAX_TABLE_BYTES)

    def level_at(inside: tuple[str, ...]) -> Download:
        collected = _Collected(context.course, list(inside))
        for member in archive.members():
            collected.add(member)
        return Download(
            path,
            inside[-1] if inside else path.stem,
            collected.items,
            collected.strays,
            tuple(sorted(collected.hidden)),
            collected.metadata,
        )

    level = _unwrapped(level_at, context, path.stem)
    archive.forget()
    return level


class _Collected:
    """The items of an archive below its wrapper, gathered in one pass."""

    def __init__(self, course: Course, wrapper: list[str]) -> None:
        self.strays = 0
        self.hidden: set[str] = set()
        self.metadata: dict[str, Path | Member] = {}
        self._course, self._wrapper = course, wrapper
        self._folders: dict[str, Item] = {}
        self._extras: dict[str, Extras] = {}
        self._wanted: Counter[str] = Counter()
        self._files: list[Item] = []

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self._folders.values(), *self._files)

    def add(self, member: Member) -> None:
        """Add a member to its item or to the metadata, or count it as skipped."""
        try:
            check_path(member.path)
        except Unreadable:
            self.strays += 1
            return
        parts = member.path.split("/")
        depth = len(self._wrapper)
        if parts[:depth] != self._wrapper or len(parts) == depth:
            return
        if is_junk(parts[depth]):
            kind = EntryKind.FOLDER if parts[depth + 1 :] else member.kind
            if len(self.hidden) < _MAX_HIDDEN and _may_be_somebodys(parts[depth], kind):
                self.hidden.add(parts[depth])
            return
        if len(self._folders) + len(self._files) >= MAX_ITEMS:
            raise Unreadable(f"holds more than {MAX_ITEMS:,} names.")
        name, below = parts[depth], parts[depth + 1 :]
        if below or member.kind is EntryKind.FOLDER:
            item = self._folders.setdefault(name, Item(name, EntryKind.FOLDER, []))
            if below and len(item.top) < _MAX_PIECES:
                item.top.add(below[0])
            self._add_below(item, below, member)
        elif name in _METADATA:
            self.metadata[name] = member
        else:
            self._files.append(
                Item(name, EntryKind.FILE, [AttemptFile(name, member)], len(self._files))
            )

    def _add_below(self, item: Item, below: list[str], member: Member) -> None:
        """Keep a file of a folder if it matters: an exercise, an archive, a request, or one of a few others."""
        item.is_clone |= bool(below) and below[0] in _OF_CLONES
        if member.kind is EntryKind.FOLDER:
            return
        name, path = below[-1], "/".join(below)
        is_aside = any(map(is_ignored, below))
        if is_aside and not (is_set_aside(path) and is_named_after(self._course, name)):
            return
        if not is_aside and (
            is_named_after(self._course, name)
            or looks_packed(name)
            or requested(self._course, name) is not None
        ):
            if self._wanted[item.name] >= _MAX_PIECES:
                item.problem = (
                    f"{item.name} holds too many files of the same names: hand in one of each."
                )
                return
            self._wanted[item.name] += 1
        else:
            extras = self._extras.setdefault(item.name, Extras(self._is_kin))
            if not extras.keep(path):
                return
        item.pieces.append(AttemptFile(path, member))

    def _is_kin(self, name: str) -> bool:
        return bool(spoken_of(self._course, name))
