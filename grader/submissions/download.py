"""A class's download: which platform it is of, who handed in what, and in which order.

Only names and tables of contents are read here. A name that fits two people, or two names that fit one,
are not guessed: each keeps a result of its own, and a note says so. In teams, what one member hands in is an
attempt of every member, the newest of any member the newest of all (`share_in_teams`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.archive import looks_packed
from grader.submissions.attempt import AttemptFile, ClassAttempt
from grader.submissions.contents import open_download
from grader.submissions.folder import EntryKind, listed_names, written
from grader.submissions.platforms import (
    Download,
    Item,
    ItemInfo,
    Platform,
    copy_number,
    platform_of,
)
from grader.submissions.roster import Person, Roster, settle_ids
from grader.submissions.times import Times
from grader.text import counted, listed

_SUFFIX = re.compile(r"(\.tar)?\.[a-z0-9]+$", re.IGNORECASE)
_TYPED = "Text was typed in, and no file: hand in the files of the exercises."
# The kind of id that a roster's column for teams becomes.
TEAM = "team"
_MOST_NAMES = 10


class ClassDownload(msgspec.Struct, frozen=True):
    """Everyone's attempts in a download, by student, the newest one last.

    `layout` says in words what was recognized, `notes` what an instructor should know, a line each;
    `missing` are the students of the roster who handed in nothing.
    """

    layout: str
    attempts: tuple[ClassAttempt, ...]
    notes: tuple[str, ...]
    missing: tuple[StudentInfo, ...] = ()


def find_class(
    path: Path, course: Course, roster: Roster | None = None, times: Times | None = None
) -> ClassDownload:
    """Find out who handed in what in a folder or archive; raises SubmissionError if it holds no class.

    Reads names and tables of contents, not what was handed in: see `read_attempt`. With `times` the attempts
    have those, as far as they are there.
    """
    download = open_download(path, course)
    finding = _Finding(download, course, roster)
    platform = finding.collect()
    if not finding.people:
        raise SubmissionError(
            f"{path} holds no submissions: expected a folder, a zip or a tar for each student, or what "
            "a learning platform lets you download. See docs/intake.md."
        )
    notes = [*finding.notes(), *settle_ids(finding.people, roster, platform)]
    attempts = [attempt for person in finding.people for attempt in finding.attempts(person)]
    if times is not None:
        attempts = times.given(attempts, platform)
        notes += times.notes(attempts)
    attempts.sort(key=lambda attempt: (attempt.student.id, attempt.attempt))
    ids = {attempt.student.id for attempt in attempts}
    students = roster.students if roster is not None else ()
    missing = tuple(student for student in students if student.id not in ids)
    return ClassDownload(platform.label, tuple(attempts), tuple(notes), missing)


def joined(downloads: Sequence[ClassDownload]) -> ClassDownload:
    """Several downloads as one: a student has the attempts of all of them, in the order of the downloads."""
    attempts = [attempt for download in downloads for attempt in download.attempts]
    attempts.sort(key=lambda attempt: attempt.student.id)
    ids = {attempt.student.id for attempt in attempts}
    missing = {student.id: student for download in downloads for student in download.missing}
    return ClassDownload(
        layout=", ".join(dict.fromkeys(download.layout for download in downloads)),
        attempts=tuple(attempts),
        notes=tuple(note for download in downloads for note in download.notes),
        missing=tuple(student for id_, student in missing.items() if id_ not in ids),
    )


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
        """The items that were passed over, a line each."""
        yield from self._notes
        if self._ignored:
            yield f"Not looked at: {listed_names(self._ignored)}."
        if hidden := self._download.hidden:
            yield (
                f"Not looked at, for the dot in front: {listed_names(hidden)}. Where a student is so called, "
                "rename it without the dot."
            )
        if self._download.strays:
            yield (
                f"Not looked at: names in the archive that lead out of it ({self._download.strays}). "
                "Somebody made them on purpose."
            )

    def collect(self) -> Platform:
        """Give every item to a person, by the rules of the platform that it is of."""
        items = sorted(self._download.items, key=lambda item: item.name)
        platform = platform_of(items)
        platform.begin(self._download)
        self._notes += platform.notes
        for item in items:
            entries = list(platform.read(item))
            for entry in entries:
                self._add(entry, item)
            if not entries and platform.mixed:
                self._add_by_name(item)
            elif not entries:
                self._ignored.append(item.name)
        return platform

    def _add(self, entry: ItemInfo, item: Item) -> None:
        person = self._people.setdefault(entry.person, Person(entry.student))
        person.items.append((item, entry))

    def _add_by_name(self, item: Item) -> None:
        """A folder, an archive or a file that is named after its student."""
        name = item.name
        if item.kind is EntryKind.FOLDER:
            self._add(ItemInfo(name, StudentInfo(id=written(name)), name), item)
        elif looks_packed(name) or (item.problem and not name.endswith(".py")):
            stem = _stem(item)
            base, copy = copy_number(stem)
            if copy and not self._is_copy(stem, base):
                base, copy = stem, 0
            self._add(ItemInfo(base, StudentInfo(id=written(base)), name, order=copy), item)
        elif (owner := self._owner(name)) is not None:
            self._add(ItemInfo(owner[0], StudentInfo(id=written(owner[0])), owner[1]), item)
        else:
            self._ignored.append(name)

    def _is_copy(self, stem: str, base: str) -> bool:
        """Whether a numbered name is another attempt of the one without a number."""
        if self._roster is not None:
            return self._roster.called(stem) is None and self._roster.called(base) is not None
        # `group-1` is a name of its own; only a browser writes `group (1)`.
        return stem.endswith(")") and base in self._stems

    def _owner(self, name: str) -> tuple[str, str] | None:
        """The student and the exercise of a file, by its name: `alice_glu.py`; None if it names neither."""
        stem, dot, suffix = name.rpartition(".")
        fitting = [
            exercise.id
            for exercise in self._course.exercises
            if dot
            and suffix == "py"
            and stem.lower().endswith((f"_{exercise.id}", f"-{exercise.id}"))
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
            pieces = tuple(piece for item, entry in items for piece in _renamed(item, entry))
            single = pieces[0].place if len(pieces) == 1 else None
            origin = ", ".join(written(item.name) for item, _ in items[:3])
            problem = next((item.problem for item, _ in items if item.problem), "")
            if all(entry.typed for _, entry in items):
                problem = _TYPED
            yield ClassAttempt(
                student=person.student,
                attempt=number,
                submitted_at=items[0][1].submitted_at,
                late=any(entry.late for _, entry in items),
                origin=origin + (f" and {len(items) - 3} more" if len(items) > 3 else ""),
                path=single if isinstance(single, Path) else self._download.path,
                members=pieces,
                problem=problem,
            )


def _in_attempts(person: Person) -> Iterator[list[tuple[Item, ItemInfo]]]:
    """Group the items of one person, oldest first.

    Folders and archives are an attempt each. Files are one until a name comes again: then it replaces
    the one before it, and what was not handed in again stays.
    """
    typed: list[tuple[Item, ItemInfo]] = []
    whole: list[tuple[Item, ItemInfo]] = []
    loose: list[tuple[Item, ItemInfo]] = []
    for item, entry in person.items:
        is_whole = entry.rest in ("", item.name)
        (typed if entry.typed else whole if is_whole else loose).append((item, entry))
    whole.sort(key=lambda pair: (pair[1].submitted_at, pair[1].order, pair[0].newest, pair[0].name))
    for item, entry in whole:
        yield [(item, entry)]
    loose.sort(key=lambda pair: (pair[1].order, copy_number(pair[1].rest)[1]))
    current: dict[str, tuple[Item, ItemInfo]] = {}
    for item, entry in loose:
        name = copy_number(entry.rest)[0].lower()
        if name in current:
            yield list(current.values())
        current[name] = item, entry
    if current:
        yield list(current.values())
    if typed and not whole and not loose:
        yield typed


def _renamed(item: Item, entry: ItemInfo) -> Iterator[AttemptFile]:
    """The pieces of an item as the student called them."""
    for piece in item.pieces:
        if item.kind is not EntryKind.FOLDER and entry.rest:
            yield AttemptFile(entry.rest, piece.place)
        else:
            yield piece


def _stem(item: Item) -> str:
    """A name without the suffix of an archive."""
    return _SUFFIX.sub("", item.name) if looks_packed(item.name) else item.name


# --- teams ----------------------------------------------------------------------------------------


def share_in_teams(download: ClassDownload, former: Iterable[StudentInfo] = ()) -> ClassDownload:
    """The download as if each member of a team had handed in what any of them did.

    Teams are those of the roster, else those of before, of the `former` students. Notes say who is in no
    team and who is in another one than before.
    """
    before = {student.id: student for student in former}
    present = [*(attempt.student for attempt in download.attempts), *download.missing]
    people = before | {s.id: _with_team(s, before.get(s.id)) for s in present}
    teams: dict[str, list[StudentInfo]] = {}
    for person in sorted(people.values(), key=lambda person: person.id):
        if team := person.ids.get(TEAM):
            teams.setdefault(team, []).append(person)
    attempts = [a for a in download.attempts if not people[a.student.id].ids.get(TEAM)]
    for members in teams.values():
        ids = {member.id for member in members}
        shared = _in_order([a for a in download.attempts if a.student.id in ids])
        attempts += [
            msgspec.structs.replace(attempt, student=member, attempt=number)
            for member in members
            for number, attempt in enumerate(shared, 1)
        ]
    attempts.sort(key=lambda attempt: attempt.student.id)
    handed_in = {attempt.student.id for attempt in attempts}
    return msgspec.structs.replace(
        download,
        attempts=tuple(attempts),
        missing=tuple(s for s in download.missing if s.id not in handed_in),
        notes=(*download.notes, *_notes(teams, people, before)),
    )


def _with_team(student: StudentInfo, before: StudentInfo | None) -> StudentInfo:
    team = before.ids.get(TEAM) if before is not None else None
    if student.ids.get(TEAM) or not team:
        return student
    return msgspec.structs.replace(student, ids={**student.ids, TEAM: team})


def _in_order(attempts: Sequence[ClassAttempt]) -> list[ClassAttempt]:
    """The attempts of a team by time; where one has none, in the order in which they were found."""
    if all(attempt.submitted_at for attempt in attempts):
        return sorted(attempts, key=lambda attempt: attempt.submitted_at)
    return list(attempts)


def _notes(
    teams: dict[str, list[StudentInfo]],
    people: dict[str, StudentInfo],
    before: dict[str, StudentInfo],
) -> list[str]:
    alone = sorted(name for name, person in people.items() if not person.ids.get(TEAM))
    moved = sorted(
        name
        for name, person in before.items()
        if person.ids.get(TEAM) and person.ids[TEAM] != people[name].ids.get(TEAM)
    )
    notes = [f"{counted(len(teams), 'team')}: what one member hands in counts for all of them."]
    if alone:
        notes.append(
            f"In no team: {listed(alone, _MOST_NAMES)}. A column `team` of the --roster says who is in which."
        )
    if moved:
        notes.append(
            f"In another team than before: {listed(moved, _MOST_NAMES)}. What the former team handed in stays "
            "theirs, too: where it is newer, it counts."
        )
    return notes
