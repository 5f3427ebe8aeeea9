"""The top of a class's download, on the disk or in one archive: an item for each name that lies there.

An archive is not opened again for each student: one pass over its table of contents keeps, of each
item, where the files lie that matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.submissions.archive import Extras, StoredArchive, looks_like_code, looks_packed
from grader.submissions.attempt import AttemptFile
from grader.submissions.folder import (
    EntryKind,
    Unreadable,
    entries,
    entry_kind,
    is_ignored,
    is_junk,
)
from grader.submissions.names import is_named_after, spoken_of
from grader.submissions.platforms import PLATFORMS, Download, Item
from grader.submissions.submission import requested
from grader.submissions.zip import Member, check_path

MAX_ITEMS = 300_000
# Each costs 10 µs and 0.7 KiB.
_MAX_MEMBERS = 1_000_000
_MAX_TABLE_BYTES = 256 << 20
_MAX_WRAPPERS = 4
_MAX_PIECES = 100
_MAX_HIDDEN = 1000
_OF_TOOLS = re.compile(
    r"\.([._#~].*|git(hub|lab|ignore|keep|attributes|modules)?|svn|hg|idea|vscode|vs|v?envs?|ipynb_checkpoints|"
    r".*[_-]cache|cache|trash(es|-\d+)?|spotlight-.*|fseventsd|temporaryitems|documentrevisions-.*|apdisk|tox|nox|"
    r"classroom50.*|devcontainer|config|local|npm|conda|jupyter|ipython|ssh|stfolder|stversions|sync|dropbox.*|"
    r"snapshots?)",
    re.IGNORECASE,
)
_METADATA = frozenset(platform.metadata for platform in PLATFORMS if platform.metadata)
# What is found at the top of a clone of a repository, and of no student's folder otherwise.
_OF_CLONES = (".git", ".github", ".classroom50.yml", ".classroom50.yaml")


def open_download(path: Path, course: Course) -> Download:
    """Look at a class's folder or archive; raises SubmissionError if it is no class's."""
    real = path.resolve()
    try:
        contents = _from_folder(real, course) if real.is_dir() else _from_archive(real, course)
    except Unreadable as problem:
        raise SubmissionError(
            f"{path} {problem} If it is the download of a class, unpack it and name its folder."
        ) from problem
    if _is_submission(course, contents.items):
        raise SubmissionError(
            f"{path} is one submission, not those of a class: use grade run --submission {path}, "
            "or name the folder that holds all of them."
        )
    return contents


def _is_submission(course: Course, items: Iterable[Item]) -> bool:
    """Whether these stand at the top of one student's work: exercises, or folders of them."""
    return any(_is_part(course, item) for item in items)


def _is_part(course: Course, item: Item) -> bool:
    """Whether an item is an exercise's file, or a folder that holds some where a submission has them."""
    if item.kind is not EntryKind.FOLDER:
        return any(item.name == f"{exercise.id}.py" for exercise in course.exercises)
    expected = [
        name
        for exercise in course.exercises
        if item.name in ("exercises", exercise.chapter)
        for name in (f"{exercise.id}.py", exercise.file)
    ]
    return any(
        any((piece.place / name).is_file() for name in expected)
        if isinstance(piece.place, Path)
        else piece.path in expected
        for piece in item.pieces
    )


def _is_students(name: str) -> bool:
    """Whether a folder of this name is surely one student's, not one around all of them."""
    return any(platform.is_entry(name) for platform in PLATFORMS)


def _from_folder(folder: Path, course: Course) -> Download:
    """The items of a folder, below folders that only wrap them."""
    items, metadata, hidden = _items_of(folder)
    for _ in range(_MAX_WRAPPERS):
        folders = [item for item in items if item.kind is EntryKind.FOLDER]
        others = [item for item in items if item.name.endswith(".py") or looks_packed(item.name)]
        if len(folders) != 1 or others or metadata or _is_students(folders[0].name):
            break
        inner, inner_metadata, inner_hidden = _items_of(folder / folders[0].name)
        if _is_submission(course, items) or _is_submission(course, inner):
            break
        folder, items, metadata = folder / folders[0].name, inner, inner_metadata
        hidden += inner_hidden
    return Download(folder, folder.name, tuple(items), hidden=tuple(hidden), metadata=metadata)


def _may_be_somebodys(name: str, kind: EntryKind) -> bool:
    """Whether what begins with a dot at the top of a class is neither a system's nor a tool's."""
    is_work = kind is EntryKind.FOLDER or looks_packed(name) or looks_like_code(name)
    return name.startswith(".") and is_work and not _OF_TOOLS.fullmatch(name)


def _items_of(folder: Path) -> tuple[list[Item], dict[str, Path | Member], list[str]]:
    """The items of one folder, its files of metadata, and the hidden names that may be somebody's."""
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
            item.problem = (
                f"What was handed in is a {kind.value}: hand in the file or folder itself."
            )
        items.append(item)
    return items, metadata, sorted(hidden)


def _from_archive(path: Path, course: Course) -> Download:
    archive = StoredArchive(path, _MAX_MEMBERS, _MAX_TABLE_BYTES)
    wrapper = _wrapper(archive.members(), course)
    collected = _collected(archive, course, wrapper)
    if wrapper and _is_submission(course, collected.items):
        collected = _collected(archive, course, wrapper[:-1])
    archive.forget()
    folder = wrapper[-1] if wrapper else path.stem
    hidden = tuple(sorted(collected.hidden))
    return Download(path, folder, collected.items, collected.strays, hidden, collected.metadata)


def _collected(archive: StoredArchive, course: Course, wrapper: list[str]) -> _Collected:
    collected = _Collected(course, wrapper)
    for member in archive.members():
        collected.add(member)
    return collected


def _wrapper(members: Iterable[Member], course: Course) -> list[str]:
    """The outer folders that hold all files of an archive and belong to no student."""
    common: list[str] | None = None
    for member in members:
        folders = member.path.split("/")[:-1]
        if member.kind is EntryKind.FOLDER or any(map(is_junk, member.path.split("/"))):
            continue
        if common is None:
            common = folders
        while common != folders[: len(common)]:
            common = common[:-1]
        if not common:
            break
    own = {"exercises", *(exercise.chapter for exercise in course.exercises)}
    wrapper: list[str] = []
    for name in (common or [])[:_MAX_WRAPPERS]:
        if name in own:
            # What it lies in is one student's.
            return wrapper[:-1]
        if _is_students(name):
            break
        wrapper.append(name)
    return wrapper


class _Collected:
    """The items of an archive below its wrapper, as its members pass by."""

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
        """Put a member to its item, or to the metadata, or count it as passed over."""
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
            self._add_below(
                self._folders.setdefault(name, Item(name, EntryKind.FOLDER, [])), below, member
            )
        elif name in _METADATA:
            self.metadata[name] = member
        else:
            self._files.append(
                Item(name, EntryKind.FILE, [AttemptFile(name, member)], len(self._files))
            )

    def _add_below(self, item: Item, below: list[str], member: Member) -> None:
        """Keep a file of a folder that matters: an exercise, an archive, a request, and a few others."""
        item.is_clone |= bool(below) and below[0] in _OF_CLONES
        if member.kind is EntryKind.FOLDER or any(map(is_ignored, below)):
            return
        name = below[-1]
        if (
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
            if not extras.keep("/".join(below)):
                return
        item.pieces.append(AttemptFile("/".join(below), member))

    def _is_kin(self, name: str) -> bool:
        return bool(spoken_of(self._course, name))
