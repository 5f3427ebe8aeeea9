"""A class's download: which platform it is of, who handed in what, and in which order.

Only names and tables of contents are read here. A name that fits two people, or two names that fit one,
are not guessed: each keeps a result of its own, and a note says so. In teams, what one member hands in is an
attempt of every member, the newest of any member the newest of all (`share_in_teams`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.archive import looks_packed
from grader.submissions.attempt import Attempt
from grader.submissions.contents import Context, open_download
from grader.submissions.folder import AttemptFile, EntryKind, listed_names, written
from grader.submissions.owners import (
    DISPUTED,
    Affixes,
    owner_of,
    shared_affixes,
    without_suffix,
)
from grader.submissions.platforms import (
    Download,
    Item,
    ItemInfo,
    Platform,
    copy_number,
    platform_of,
)
from grader.submissions.roster import Known, Person, Roster, parts_of, settle_ids
from grader.submissions.times import Times
from grader.text import alike, clean, counted, listed

_TYPED = "Text was typed in, and no file: hand in the files of the exercises."
# The kind of id that a roster's column for teams becomes.
TEAM = "team"
_MOST_NAMES = 10


class ClassDownload(msgspec.Struct, frozen=True):
    """Everyone's attempts in a download, by student, the newest one last.

    `layout` says in words what was recognized, `notes` what an instructor should know, a line each;
    `missing` are the students of the roster who handed in nothing, `strangers` those who are not in it.
    An attempt of one of the `teams` (by the id of its student) is that of all members: see `share_in_teams`.
    `timed` has the ids in a list of times that are somebody's here, or of the roster.
    """

    layout: str
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...]
    missing: tuple[StudentInfo, ...] = ()
    strangers: tuple[StudentInfo, ...] = ()
    teams: Mapping[str, str] = {}
    timed: frozenset[str] = frozenset()


def find_class(
    path: Path,
    course: Course,
    roster: Roster | None = None,
    times: Times | None = None,
    *,
    former: Iterable[StudentInfo] = (),
    given: Iterable[Path] = (),
) -> ClassDownload:
    """Find out who handed in what in a folder or archive; raises SubmissionError if it holds no class.

    Reads names and tables of contents, not what was handed in: see `read_attempt`. With `times` the attempts
    have those, as far as they are there. The `former` students of a gradebook tell whose a folder is where the
    roster does not. Files that the command was `given` are not taken for submissions.
    """
    listed = times.listed if times is not None else None
    known = Known(roster, Roster(former), listed)
    download = open_download(path, Context(course, known, frozenset(p.resolve() for p in given)))
    finding = _Finding(download, course, known)
    platform = finding.collect()
    if not finding.people:
        raise SubmissionError(
            f"{path} holds no submissions: expected a folder, a zip or a tar for each student, or what "
            "a learning platform lets you download. See docs/intake.md."
        )
    by_team = course.assignment is not None and course.assignment.teams
    settled = settle_ids(finding.people, roster, platform, known, by_team=by_team)
    notes = [*finding.notes(), *settled.notes]
    attempts = [attempt for person in finding.people for attempt in finding.attempts(person)]
    timed: frozenset[str] = frozenset()
    if times is not None:
        attempts, timed = times.given(attempts, platform, roster)
        notes += times.notes(attempts)
    attempts.sort(key=lambda attempt: (attempt.student.id, attempt.attempt))
    ids = {attempt.student.id for attempt in attempts}
    students = roster.students if roster is not None else ()
    missing = tuple(student for student in students if student.id not in ids)
    return ClassDownload(
        layout=platform.label,
        attempts=tuple(attempts),
        notes=tuple(notes),
        missing=missing,
        strangers=settled.strangers,
        teams=settled.teams,
        timed=timed,
    )


def joined(downloads: Sequence[ClassDownload]) -> ClassDownload:
    """Several downloads as one: a student has the attempts of all of them, in the order of the downloads."""
    attempts = [attempt for download in downloads for attempt in download.attempts]
    attempts.sort(key=lambda attempt: attempt.student.id)
    ids = {attempt.student.id for attempt in attempts}
    missing = {student.id: student for download in downloads for student in download.missing}
    strangers = {student.id: student for download in downloads for student in download.strangers}
    return ClassDownload(
        layout=", ".join(dict.fromkeys(download.layout for download in downloads)),
        attempts=tuple(attempts),
        notes=tuple(note for download in downloads for note in download.notes),
        missing=tuple(student for id_, student in missing.items() if id_ not in ids),
        strangers=tuple(strangers.values()),
        teams={id_: team for download in downloads for id_, team in download.teams.items()},
        timed=frozenset().union(*(download.timed for download in downloads)),
    )


def likely_matches(download: ClassDownload) -> Iterator[str]:
    """A line on strangers and on those of the roster who handed in nothing, who may be the same people."""
    if not download.strangers or not download.missing:
        return
    names = {
        text: student.id
        for student in download.missing
        for text in (student.id, student.name, student.email, *student.other_ids.values())
        if text
    }
    near = []
    for stranger in download.strangers:
        called = stranger.name or stranger.id
        # Where a prefix is not like a student's name, the rest may be.
        rests = [called[at.end() :] for at in re.finditer("[-_ ]", called)]
        found = {names[text] for rest in (called, *rests) for text in alike(rest, names)}
        if len(found) == 1:
            near.append(f"{called!r} may be {next(iter(found))!r}")
    strangers = listed_names([student.name or student.id for student in download.strangers])
    missing = listed_names([student.id for student in download.missing])
    guess = f" {listed_names(near)}: for you to say." if near else ""
    yield (
        f"Not in the roster: {strangers}; of the roster nobody handed in: {missing}.{guess} Where two are the "
        "same person, write the name of the folder into a column of the roster, or rename the folder."
    )


class _Finding:
    """A download on its way from items to people and their attempts."""

    def __init__(self, download: Download, course: Course, known: Known) -> None:
        self._download, self._course, self._known = download, course, known
        self._people: dict[str, Person] = {}
        self._ignored: list[str] = []
        self._notes: list[str] = list(download.notes)
        self._stems = {without_suffix(item.name) for item in download.items}

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
        platform.begin(self._download, self._known)
        self._notes += platform.notes
        by_name: list[tuple[Item, ItemInfo]] = []
        for item in items:
            entries = list(platform.read(item))
            for entry in entries:
                self._add(entry, item)
            if not entries:
                named = self._by_name(item) if platform.mixed else None
                if named is None:
                    self._ignored.append(item.name)
                else:
                    by_name.append((item, named))
        self._add_by_name(by_name)
        return platform

    def _add(self, entry: ItemInfo, item: Item) -> None:
        person = self._people.setdefault(entry.person, Person(entry.student))
        person.items.append((item, entry))

    def _by_name(self, item: Item) -> ItemInfo | None:
        """The person whom a folder, an archive or a file is named after; None where it is no submission."""
        name = item.name
        if item.kind is EntryKind.FOLDER:
            return ItemInfo(name, StudentInfo(id=written(name)), name)
        if looks_packed(name) or (item.problem and not name.endswith(".py")):
            stem = without_suffix(name)
            base, copy = copy_number(stem)
            if copy and not self._is_copy(stem, base):
                base, copy = stem, 0
            return ItemInfo(base, StudentInfo(id=written(base)), name, order=copy)
        if (owner := owner_of(self._course, name)) is not None:
            return ItemInfo(owner[0], StudentInfo(id=written(owner[0])), owner[1])
        return None

    def _add_by_name(self, named: Sequence[tuple[Item, ItemInfo]]) -> None:
        """Add items by the names of people in them, which a class list may tell from what all names share."""
        names = sorted({entry.person for _, entry in named})
        shared = shared_affixes(names, self._known, course=self._course)
        affixes = shared.affixes if shared is not None else Affixes()
        if shared is not None and shared.is_disputed:
            self._notes.append(DISPUTED)
        if affixes != Affixes():
            whole = clean(affixes.around("NAME"))
            self._notes.append(f"Taken as {whole}, by the name of a student or a team.")
        for item, entry in named:
            if affixes != Affixes() and self._known.whom(entry.person) is None:
                student = StudentInfo(id=written(affixes.without(entry.person)))
                entry = msgspec.structs.replace(entry, student=student)
            self._add(entry, item)

    def _is_copy(self, stem: str, base: str) -> bool:
        """Whether a numbered name is another attempt of the one without a number."""
        if self._known.whom(stem) is not None:
            return False
        # `group-1` is a name of its own; only a browser writes `group (1)`.
        is_browsers = stem.endswith(")") and base in self._stems
        return is_browsers or self._known.whom(base) is not None

    def attempts(self, person: Person) -> Iterator[Attempt]:
        """A person's attempts in order of time."""
        for number, items in enumerate(_in_attempts(person), 1):
            pieces = tuple(piece for item, entry in items for piece in _renamed(item, entry))
            single = pieces[0].place if len(pieces) == 1 else None
            origin = ", ".join(written(item.name) for item, _ in items[:3])
            problem = next((item.problem for item, _ in items if item.problem), "")
            if all(entry.typed for _, entry in items):
                problem = _TYPED
            yield Attempt(
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


# --- teams ----------------------------------------------------------------------------------------


def share_in_teams(download: ClassDownload, former: Iterable[StudentInfo] = ()) -> ClassDownload:
    """The download as if each member of a team had handed in what any of them did.

    Teams are those of the roster, else those of before, of the `former` students. Notes say who is in no
    team and who is in another one than before.
    """
    before = {student.id: student for student in former}
    present = [
        *(a.student for a in download.attempts if a.student.id not in download.teams),
        *download.missing,
    ]
    people = before | {s.id: _with_team(s, before.get(s.id)) for s in present}
    teams: dict[str, list[StudentInfo]] = {}
    for person in sorted(people.values(), key=lambda person: person.id):
        if team := person.ids.get(TEAM):
            teams.setdefault(team, []).append(person)
    # An attempt of a team that nobody is in any more stays what it is.
    of_teams = {id_: team for id_, team in download.teams.items() if team in teams}
    people |= {
        a.student.id: a.student
        for a in download.attempts
        if a.student.id in download.teams and a.student.id not in of_teams
    }
    attempts = [
        a
        for a in download.attempts
        if a.student.id not in of_teams
        and (a.student.id in download.teams or not people[a.student.id].ids.get(TEAM))
    ]
    for team, members in teams.items():
        ids = {member.id for member in members}
        ids |= {id_ for id_, called in of_teams.items() if called == team}
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
        teams={},
        notes=(*download.notes, *_notes(teams, people, before)),
    )


def _with_team(student: StudentInfo, before: StudentInfo | None) -> StudentInfo:
    team = before.ids.get(TEAM) if before is not None else None
    if student.ids.get(TEAM) or not team:
        return student
    return msgspec.structs.replace(student, ids={**student.ids, TEAM: team})


def _in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts of a team by time; where one has none, in the order in which they were found."""
    if all(attempt.submitted_at for attempt in attempts):
        return sorted(attempts, key=lambda attempt: attempt.submitted_at)
    return list(attempts)


def _notes(
    teams: dict[str, list[StudentInfo]],
    people: dict[str, StudentInfo],
    before: dict[str, StudentInfo],
) -> list[str]:
    """What an instructor should know of the teams, a line each."""
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
    several = [
        f"{listed([member.id for member in members], _MOST_NAMES)} ({team})"
        for team, members in teams.items()
        if any(part != team and part in teams for part in parts_of(team))
    ]
    if several:
        notes.append(
            f"In several teams at once, and so taken for a team apart: {listed_names(several)}. Write one "
            "team a student."
        )
    if moved:
        notes.append(
            f"In another team than before: {listed(moved, _MOST_NAMES)}. What the former team handed in stays "
            "theirs, too: where it is newer, it counts."
        )
    return notes
