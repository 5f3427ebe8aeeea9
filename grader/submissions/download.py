"""A class's download: which platform it is of, who handed in what, and in which order.

Only names and tables of contents are read here. A name that fits two people, or two names that fit one,
are nobody's guess: each keeps a result of its own, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import Student
from grader.submissions.archive import looks_packed
from grader.submissions.attempt import AttemptFile, ClassAttempt
from grader.submissions.contents import Download, Item, open_download
from grader.submissions.folder import EntryKind, Unreadable, open_regular
from grader.submissions.gradescope import Submitted, read_metadata
from grader.submissions.names import shown, written
from grader.submissions.people import Person, settle_ids
from grader.submissions.platforms import (
    METADATA,
    Layout,
    Named,
    clone_affixes,
    copy_number,
    is_gradescope,
    named,
    platform_of,
)
from grader.submissions.roster import Roster
from grader.submissions.zip import Member, MemberReader

_SUFFIX = re.compile(r"(\.tar)?\.[a-z0-9]+$", re.IGNORECASE)
_LISTED = 5
_TYPED = "Text was typed in, and no file: hand in the files of the exercises."


class ClassDownload(msgspec.Struct, frozen=True):
    """Everyone's attempts in a download, by student and number; the newest one has the highest.

    `layout` says in words what was recognized, `notes` what an instructor should know, a line each;
    `missing` are the students of the roster who handed in nothing.
    """

    layout: str
    attempts: tuple[ClassAttempt, ...]
    notes: tuple[str, ...]
    missing: tuple[Student, ...] = ()


def find_class(path: Path, course: Course, roster: Roster | None = None) -> ClassDownload:
    """Find out who handed in what in a folder or archive; raises SubmissionError if it holds no class.

    Reads names and tables of contents, not what was handed in: see `read_attempt`.
    """
    download = open_download(path, course)
    finding = _Finding(download, course, roster)
    layout = finding.collect()
    if not finding.people:
        raise SubmissionError(
            f"{path} holds no submissions: expected a folder, a zip or a tar for each student, or what "
            "a learning platform lets you download. See docs/intake.md."
        )
    notes = [*finding.notes(), *settle_ids(finding.people, roster)]
    attempts = [found for person in finding.people for found in finding.attempts(person)]
    attempts.sort(key=lambda found: (found.student.id, found.attempt))
    there = {found.student.id for found in attempts}
    missing = tuple(each for each in roster.students if each.id not in there) if roster else ()
    return ClassDownload(layout.value, tuple(attempts), tuple(notes), missing)


class _Finding:
    """A download on its way from items to people and their attempts."""

    def __init__(self, download: Download, course: Course, roster: Roster | None) -> None:
        self._download, self._course, self._roster = download, course, roster
        self._people: dict[str, Person] = {}
        self._ignored: list[str] = []
        self._notes: list[str] = []
        self._stems = {_stem(item) for item in download.items}

    @property
    def people(self) -> list[Person]:
        return list(self._people.values())

    def notes(self) -> Iterator[str]:
        """What was passed over, a line each."""
        yield from self._notes
        if self._ignored:
            yield f"Not looked at: {_several(self._ignored)}."
        if self._download.strays:
            yield (
                f"Not looked at: names in the archive that lead out of it ({self._download.strays}). "
                "Somebody made them on purpose."
            )

    def collect(self) -> Layout:
        """Give every item to a person, by the rules of the platform that it is of."""
        items = sorted(self._download.items, key=lambda item: item.name)
        folders = [item for item in items if item.kind is EntryKind.FOLDER]
        layout = platform_of(item.name for item in items)
        if any(is_gradescope(item.name) for item in folders) and layout is Layout.NAMES:
            self._collect_gradescope(items)
            return Layout.GRADESCOPE
        if layout is not Layout.NAMES:
            self._collect_platform(layout, items)
        elif folders and 2 * sum(item.is_clone for item in folders) > len(folders):
            layout = Layout.CLONES
            self._collect_clones(folders)
            self._ignored += [item.name for item in items if item.kind is not EntryKind.FOLDER]
        else:
            for item in items:
                self._add_by_name(item)
        return layout

    def _add(self, key: str, student: Student, item: Item, said: Named | None = None) -> None:
        person = self._people.setdefault(key, Person(student))
        person.items.append((item, said or Named(key, student, item.name)))

    def _collect_platform(self, layout: Layout, items: Iterable[Item]) -> None:
        for item in items:
            if (said := named(layout, item.name)) is not None:
                self._add(said.person, said.student, item, said)
            else:
                self._add_by_name(item)

    def _collect_clones(self, folders: Sequence[Item]) -> None:
        names = [item.name for item in folders]
        before, after = clone_affixes(names, self._download.folder)
        for name, item in zip(names, folders, strict=True):
            user = written(name.removeprefix(before).removesuffix(after)) or name
            self._add(name, Student(id=user, ids={"username": user}), item)
        if before or after:
            whole = f"{before}USERNAME{after}"
            self._notes.append(f"Taken as clones {shown(whole)}, by the user's name.")

    def _collect_gradescope(self, items: Iterable[Item]) -> None:
        submitted = self._metadata()
        for item in items:
            if not is_gradescope(item.name):
                self._add_by_name(item)
            elif not (known := submitted.get(item.name, Submitted(()))).students:
                self._add(item.name, Student(id=item.name), item)
            else:
                for student in known.students:
                    key = f"{student.id}/{student.email}/{student.name}"
                    self._add(key, student, item)
                    self._people[key].submitted_at[item.name] = known.submitted_at

    def _metadata(self) -> dict[str, Submitted]:
        place = self._download.metadata
        if place is None:
            self._notes.append(f"There is no {METADATA}: nobody's name is known, only numbers.")
            return {}
        try:
            if isinstance(place, Member):
                return read_metadata(MemberReader(place))
            with open_regular(place, METADATA) as file:
                return read_metadata(file)
        except Unreadable as problem:
            self._notes.append(
                f"{METADATA} {str(problem).partition(':')[0]}: nobody's name is known, only numbers."
            )
            return {}

    def _add_by_name(self, item: Item) -> None:
        """A folder, an archive or a file that is named after its student."""
        name = item.name
        if item.kind is EntryKind.FOLDER:
            self._add(name, Student(id=written(name)), item)
        elif looks_packed(name) or (item.problem and not name.endswith(".py")):
            stem = _stem(item)
            base, copy = copy_number(stem)
            if copy and not self._is_copy(stem, base):
                base, copy = stem, 0
            said = Named(base, Student(id=written(base)), name, order=copy)
            self._add(base, said.student, item, said)
        elif (owner := self._owner(name)) is not None:
            said = Named(owner[0], Student(id=written(owner[0])), owner[1])
            self._add(owner[0], said.student, item, said)
        else:
            self._ignored.append(name)

    def _is_copy(self, stem: str, base: str) -> bool:
        """Whether a numbered name is another attempt of the one without a number."""
        if self._roster is not None:
            return self._roster.called(stem) is None and self._roster.called(base) is not None
        # `group-1` is a name of its own; only a browser writes `group (1)`.
        return stem.endswith(")") and base in self._stems

    def _owner(self, name: str) -> tuple[str, str] | None:
        """Whose file this is, and of which exercise: `alice_glu.py`; None if it does not say."""
        stem, dot, suffix = name.rpartition(".")
        fitting = [
            each.id
            for each in self._course.exercises
            if dot and suffix == "py" and stem.lower().endswith((f"_{each.id}", f"-{each.id}"))
        ]
        if not fitting:
            return None
        longest = max(fitting, key=len)
        return (
            (stem[: -len(longest) - 1], f"{longest}.py") if len(stem) > len(longest) + 1 else None
        )

    def attempts(self, person: Person) -> Iterator[ClassAttempt]:
        """A person's attempts in order of time."""
        for number, items in enumerate(_in_attempts(person), 1):
            said = [each for _, each in items]
            pieces = tuple(piece for item, each in items for piece in _renamed(item, each))
            single = pieces[0].place if len(pieces) == 1 else None
            origin = ", ".join(written(item.name) for item, _ in items[:3])
            problem = next((item.problem for item, _ in items if item.problem), "")
            if all(each.typed for each in said):
                problem = _TYPED
            yield ClassAttempt(
                student=person.student,
                attempt=number,
                submitted_at=person.submitted_at.get(items[0][0].name, ""),
                late=any(each.late for each in said),
                origin=origin + (f" and {len(items) - 3} more" if len(items) > 3 else ""),
                path=single if isinstance(single, Path) else self._download.path,
                members=pieces,
                problem=problem,
            )


def _in_attempts(person: Person) -> Iterator[list[tuple[Item, Named]]]:
    """What belongs together, oldest first.

    Folders and archives are an attempt each. Files are one until a name comes again: then it replaces
    the one before it, and what was not handed in again stays.
    """
    typed: list[tuple[Item, Named]] = []
    whole: list[tuple[Item, Named]] = []
    loose: list[tuple[Item, Named]] = []
    for item, said in person.items:
        is_whole = said.rest in ("", item.name)
        (typed if said.typed else whole if is_whole else loose).append((item, said))
    for each in sorted(whole, key=lambda each: _time(person, *each)):
        yield [each]
    loose.sort(key=lambda each: (each[1].order, copy_number(each[1].rest)[1]))
    current: dict[str, tuple[Item, Named]] = {}
    for each in loose:
        name = copy_number(each[1].rest)[0].lower()
        if name in current:
            yield list(current.values())
        current[name] = each
    if current:
        yield list(current.values())
    if typed and not whole and not loose:
        yield typed


def _time(person: Person, item: Item, said: Named) -> tuple[str, int, float, str]:
    return person.submitted_at.get(item.name, ""), said.order, item.newest, item.name


def _renamed(item: Item, said: Named) -> Iterator[AttemptFile]:
    """The pieces of an item as the student called them."""
    for piece in item.pieces:
        if item.kind is not EntryKind.FOLDER and said.rest:
            yield AttemptFile(said.rest, piece.place)
        else:
            yield piece


def _stem(item: Item) -> str:
    """A name without the suffix of an archive."""
    return _SUFFIX.sub("", item.name) if looks_packed(item.name) else item.name


def _several(names: Sequence[str]) -> str:
    first = ", ".join(shown(name, 60) for name in names[:_LISTED])
    return first if len(names) <= _LISTED else f"{first} and {len(names) - _LISTED} more"
