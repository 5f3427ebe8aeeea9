"""A class's download: its platform, its students, and their attempts in order.

Only names and tables of contents are read here. If a name fits two people, or two names fit one, nothing is
guessed: each keeps a separate result, and a note says so. In a team, each member's submission is an attempt of
every member, and the newest of any member is the newest of all (`share_in_teams`). In a whole course, this is
true only of files of assignments for teams.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.assignments import CourseAssignment
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import TEAM, StudentInfo
from grader.submissions.archive import looks_like_code, looks_packed
from grader.submissions.attempt import Attempt
from grader.submissions.contents import Context, open_download
from grader.submissions.folder import EntryKind, normalized
from grader.submissions.member import AttemptFile
from grader.submissions.owners import (
    DISPUTED,
    Affixes,
    known_owner,
    owner_of,
    shared_affixes,
    without_suffix,
)
from grader.submissions.people import Person, match_people
from grader.submissions.platforms import (
    Download,
    Item,
    ItemInfo,
    Platform,
    copy_number,
    platform_of,
)
from grader.submissions.roster import Known, Roster, parts_of
from grader.submissions.times import Times
from grader.text import MOST_NAMES, alike, clean, counted, listed, listed_names

_TYPED = "Only text was typed in, without a file: hand in the files of the exercises."
_MAX_NAMES = 10


class ClassDownload(msgspec.Struct, frozen=True):
    """Everyone's attempts in a download, by student, the newest one last.

    layout: the recognized platform or layout, in words.
    notes: notes for an instructor, each on a line.
    missing: students of the roster who handed in nothing.
    strangers: students who are not in the roster.
    teams: teams by the id of their attempts' student; such attempts belong to all members (`share_in_teams`).
    timed: the ids in a list of times that belong to somebody here or in the roster.
    paths: the places of the downloads.
    """

    layout: str
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...]
    missing: tuple[StudentInfo, ...] = ()
    strangers: tuple[StudentInfo, ...] = ()
    teams: Mapping[str, str] = {}
    timed: frozenset[str] = frozenset()
    paths: tuple[Path, ...] = ()


def find_class(
    path: Path,
    course: Course,
    roster: Roster | None = None,
    times: Times | None = None,
    *,
    former: Iterable[StudentInfo] = (),
    given: Iterable[Path] = (),
) -> ClassDownload:
    """Find the students and their attempts in a folder or archive.

    Only names and tables of contents are read; `read_attempt` reads the files. Attempts get their `times` from
    the list, if it has them. If the roster does not tell whose folder it is, the `former` students of a
    gradebook may. Files that the command was `given` are not submissions.

    Raises SubmissionError if there is no class in it.
    """
    listed = times.listed if times is not None else None
    known = Known(roster, Roster(former), listed)
    download = open_download(path, Context(course, known, frozenset(p.resolve() for p in given)))
    finding = _Finding(download, course, known)
    platform = finding.collect()
    if not finding.people:
        raise SubmissionError(
            f"{path} has no submissions: expected a folder, a zip or a tar for each student, or the "
            "download of a learning platform. See docs/intake.md."
        )
    matched = match_people(
        finding.people,
        platform,
        known,
        by_team=bool(for_teams(course)),
        # In a whole course, most exercises are a student's own.
        students_first=course.assignment is None,
    )
    notes = [*finding.notes(), *matched.notes]
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
        strangers=matched.strangers,
        teams=matched.teams,
        timed=timed,
        paths=(path.resolve(),),
    )


def joined(downloads: Sequence[ClassDownload]) -> ClassDownload:
    """Join downloads: a student gets the attempts of all of them, in the order of the downloads."""
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
        paths=tuple(path for download in downloads for path in download.paths),
    )


def refuse_unlisted(
    download: ClassDownload, roster: Roster, former: Iterable[StudentInfo] = ()
) -> None:
    """Raise SubmissionError if nobody who handed in is in the roster or among the `former` students."""
    here = {attempt.student.id: attempt.student for attempt in download.attempts}
    known = {student.id for student in (*roster.students, *former)}
    if not here or download.teams or here.keys() & known:
        return
    found = [student.name or student.id for student in here.values()]
    raise SubmissionError(
        "Nobody who handed in is in the roster, so all of its students would get nothing. The submissions, "
        f"read as {download.layout}, are of {listed_names(found)}, and the roster has "
        f"{listed_names([student.id for student in roster.students])}. Give a download that docs/intake.md "
        "lists, or write the names of the folders into a column of the roster."
    )


def likely_matches(download: ClassDownload) -> Iterator[str]:
    """Yield a note with likely pairs if strangers and missing students of the roster may be the same people."""
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
        # A folder's name may have a prefix before the student's name.
        rests = [called[at.end() :] for at in re.finditer("[-_ ]", called)]
        matches = {names[text] for rest in (called, *rests) for text in alike(rest, names)}
        if len(matches) == 1:
            near.append(f"{called!r} may be {next(iter(matches))!r}")
    guess = f" {listed_names(near)}: please check." if near else ""
    yield (
        "Somebody outside the roster may be a student of the roster who seems to have handed in nothing."
        f"{guess} If two are the same person, write the name of the folder into a column of the roster, or "
        "rename the folder."
    )


class _Finding:
    """The people of a download, found item by item, and their attempts."""

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
        """Yield notes on items that were skipped."""
        yield from self._notes
        code = [name for name in self._ignored if looks_like_code(name) or looks_packed(name)]
        if others := [name for name in self._ignored if name not in code]:
            yield f"Ignored: {listed_names(others, MOST_NAMES)}."
        if code := [*code, *self._download.code]:
            yield (
                f"Code of no student, which is not graded: {listed_names(code, MOST_NAMES)}. If it is a "
                "student's, name it after the student and the exercise, such as "
                f"alice_{self._course.exercises[0].id}.py."
            )
        if hidden := self._download.hidden:
            yield (
                f"Ignored because of the dot in front: {listed_names(hidden)}. If this is a student's "
                "name, rename it without the dot."
            )
        if self._download.strays:
            yield (
                f"Ignored: names in the archive that lead out of it ({self._download.strays}). "
                "Such names are made on purpose."
            )

    def collect(self) -> Platform:
        """Assign every item to a person, by the rules of the platform; return the platform."""
        items = sorted(self._download.items, key=lambda item: item.name)
        platform = platform_of(items)
        platform.begin(self._download, self._known)
        self._notes += platform.notes
        by_name: list[tuple[Item, ItemInfo]] = []
        by_part: list[tuple[Item, ItemInfo]] = []
        for item in items:
            entries = list(platform.read(item))
            for entry in entries:
                self._add(entry, item)
            if entries:
                continue
            if (part := self._by_known_part(item)) is not None:
                by_part.append((item, part))
                continue
            named = self._by_name(item)
            if named is None or not (platform.mixed or self._known.whom(named.person)):
                self._ignored.append(item.name)
            else:
                by_name.append((item, named))
        self._add_by_name(by_name)
        self._add_by_part(by_part)
        return platform

    def _add(self, entry: ItemInfo, item: Item) -> None:
        person = self._people.setdefault(entry.person, Person(entry.student))
        person.items.append((item, entry))

    def _by_name(self, item: Item) -> ItemInfo | None:
        """Return the person after whom an item is named, None if the item is not a submission."""
        name = item.name
        if item.kind is EntryKind.FOLDER:
            return ItemInfo(name, StudentInfo(id=normalized(name)), name)
        if looks_packed(name) or (item.problem and not name.endswith(".py")):
            stem = without_suffix(name)
            base, copy = copy_number(stem)
            if copy and not self._is_copy(stem, base):
                base, copy = stem, 0
            return ItemInfo(base, StudentInfo(id=normalized(base)), name, order=copy)
        names = [(name, 0)]
        if name.rpartition(".")[0].endswith(")"):
            # A browser saves a second `alice_glu.py` as `alice_glu (1).py`.
            names.append(copy_number(name))
        for stem, copy in names:
            if (owner := owner_of(self._course, stem)) is not None:
                student = StudentInfo(id=normalized(owner[0]))
                return ItemInfo(owner[0], student, owner[1], order=copy)
        return None

    def _by_known_part(self, item: Item) -> ItemInfo | None:
        """Return the known student in a part of a name in which `_by_name` finds nobody or a stranger."""
        named = self._by_name(item)
        if named is not None and self._known.whom(named.person) is not None:
            return None
        is_file = item.kind is EntryKind.FILE
        owner = known_owner(self._course, item.name, self._known, is_file=is_file)
        if owner is None:
            return None
        rest = owner[1] if is_file and not looks_packed(item.name) else item.name
        return ItemInfo(owner[0], StudentInfo(id=normalized(owner[0])), rest)

    def _add_by_name(self, named: Sequence[tuple[Item, ItemInfo]]) -> None:
        """Add items by the people in their names; a class list may tell these from a common prefix."""
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
                student = StudentInfo(id=normalized(affixes.without(entry.person)))
                entry = msgspec.structs.replace(entry, student=student)
            self._add(entry, item)

    def _add_by_part(self, named: Sequence[tuple[Item, ItemInfo]]) -> None:
        """Add items to the people in parts of their names, who may have other items under another name."""
        found = {
            self._known.whom(person.student.name or person.student.id): key
            for key, person in self._people.items()
        }
        for item, entry in named:
            key = found.setdefault(self._known.whom(entry.person), entry.person)
            self._add(msgspec.structs.replace(entry, person=key), item)

    def _is_copy(self, stem: str, base: str) -> bool:
        """Whether a numbered name is another attempt under the name without a number."""
        if self._known.whom(stem) is not None:
            return False
        # `group-1` is a separate name; only a browser writes `group (1)`.
        is_browsers = stem.endswith(")") and base in self._stems
        return is_browsers or self._known.whom(base) is not None

    def attempts(self, person: Person) -> Iterator[Attempt]:
        """Yield a person's attempts in order of time."""
        for number, items in enumerate(_in_attempts(person), 1):
            pieces = tuple(piece for item, entry in items for piece in _renamed(item, entry))
            # Text that was typed in beside files may be read, but does not make the attempt.
            items = [pair for pair in items if not pair[1].typed] or items
            single = pieces[0].place if len(pieces) == 1 else None
            # The newest file first: on Canvas, it orders attempts without a time.
            newest = sorted(items, key=lambda pair: pair[1].order, reverse=True)
            origin = ", ".join(normalized(item.name) for item, _ in newest[:3])
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
    """Yield the items of each attempt of a person, oldest first.

    Each folder or archive is an attempt, and so are files that were `sent` together. Other files are one
    attempt until a name is repeated. Then a new attempt begins, with the new file in place of the old one and
    the other files as before. Text that was typed in has no number, so it belongs to the newest attempt.
    """
    attempts = [*_of_files(person)]
    if typed := [(item, entry) for item, entry in person.items if entry.typed]:
        attempts[-1:] = [[*(attempts[-1] if attempts else []), *typed]]
    yield from attempts


def _of_files(person: Person) -> Iterator[list[tuple[Item, ItemInfo]]]:
    """Yield the files, folders and archives of each attempt of a person, oldest first."""
    whole: list[tuple[Item, ItemInfo]] = []
    loose: list[tuple[Item, ItemInfo]] = []
    together: dict[str, list[tuple[Item, ItemInfo]]] = {}
    for item, entry in person.items:
        if entry.typed:
            continue
        if entry.sent and entry.rest:
            together.setdefault(entry.sent, []).append((item, entry))
            continue
        is_whole = entry.rest in ("", item.name)
        (whole if is_whole else loose).append((item, entry))
    whole.sort(
        key=lambda pair: (
            *(pair[1].submitted_at, pair[1].sent, pair[1].order),
            *(pair[0].newest, pair[0].name),
        )
    )
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
    for sent in sorted(together):
        yield together[sent]


def _renamed(item: Item, entry: ItemInfo) -> Iterator[AttemptFile]:
    """Yield the pieces of an item under the student's own names."""
    for piece in item.pieces:
        if item.kind is not EntryKind.FOLDER and entry.rest:
            yield AttemptFile(entry.rest, piece.place)
        else:
            yield piece


# --- teams ----------------------------------------------------------------------------------------


def for_teams(course: Course) -> list[CourseAssignment]:
    """Return the assignments in which teams hand in exercises of the course."""
    if course.assignment is not None:
        return [course.assignment] if course.assignment.teams else []
    names = {exercise.id for exercise in course.exercises}
    return [part for part in course.assignments if part.teams and names & {*part.exercises}]


def share_in_teams(
    download: ClassDownload,
    former: Iterable[StudentInfo] = (),
    parts: Sequence[CourseAssignment] = (),
) -> ClassDownload:
    """Return the download with each attempt of a team as an attempt of every member.

    Teams are from the roster, else from the `former` students. Notes name students without a team, and students
    who have changed their team. In a download of a whole course, members share only the files of these `parts`,
    its assignments for teams; without any team, it is returned unchanged.
    """
    before = {student.id: student for student in former}
    present = [
        *(a.student for a in download.attempts if a.student.id not in download.teams),
        *download.missing,
    ]
    people = before | {s.id: _with_team(s, before.get(s.id)) for s in present}
    teams: dict[str, list[StudentInfo]] = {}
    for person in sorted(people.values(), key=lambda person: person.id):
        if team := person.team:
            teams.setdefault(team, []).append(person)
    if parts and not teams:
        return download
    only = frozenset(name for part in parts for name in part.exercises) if parts else None
    # An attempt of a team without members is kept unchanged.
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
        and (a.student.id in download.teams or not people[a.student.id].team)
    ]
    for team, members in teams.items():
        ids = {member.id for member in members}
        ids |= {id_ for id_, called in of_teams.items() if called == team}
        shared = _in_order([a for a in download.attempts if a.student.id in ids])
        attempts += [
            msgspec.structs.replace(
                attempt,
                student=member,
                attempt=number,
                only=None if attempt.student.id == member.id else only,
                of_team=attempt.student.id in of_teams,
            )
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
        notes=(*download.notes, *_notes(teams, people, before, parts, of_teams)),
    )


def _with_team(student: StudentInfo, before: StudentInfo | None) -> StudentInfo:
    team = before.team if before is not None else None
    if student.team or not team:
        return student
    return msgspec.structs.replace(student, ids={**student.ids, TEAM: team})


def _in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts of a team by time, or in their order in the download if a time is missing."""
    if all(attempt.submitted_at for attempt in attempts):
        return sorted(attempts, key=lambda attempt: attempt.submitted_at)
    return list(attempts)


def _notes(
    teams: dict[str, list[StudentInfo]],
    people: dict[str, StudentInfo],
    before: dict[str, StudentInfo],
    parts: Sequence[CourseAssignment],
    named: Collection[str],
) -> list[str]:
    """Return notes on the teams for an instructor; some attempts were `named` after a team."""
    alone = sorted(name for name, person in people.items() if not person.team)
    moved = sorted(
        name for name, person in before.items() if person.team and person.team != people[name].team
    )
    ids = listed([part.id for part in parts]) if parts else ""
    what = f"file of one member for {ids}" if parts else ""
    what = what or "submission of one member"
    notes = [f"{counted(len(teams), 'team')}: a {what} counts for all of them."]
    if parts and named:
        notes.append(
            f"Named after a team: {listed_names([*named])}. Only the files for {ids} count, for every member."
        )
    if alone:
        notes.append(
            f"Without a team: {listed(alone, _MAX_NAMES)}. Put teams into a column `team` of the --roster."
        )
    several = [
        f"{listed([member.id for member in members], _MAX_NAMES)} ({team})"
        for team, members in teams.items()
        if any(part != team and part in teams for part in parts_of(team))
    ]
    if several:
        notes.append(
            f"In several teams at once, and so taken as a separate team: {listed_names(several)}. Write one "
            "team for each student."
        )
    if moved:
        notes.append(
            f"In a different team from before: {listed(moved, _MAX_NAMES)}. They keep attempts of their "
            "former team, too; the newest attempt counts."
        )
    return notes
