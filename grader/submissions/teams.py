"""Teams: what one member hands in is an attempt of every member, the newest of any member the newest of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from grader.results import StudentInfo
from grader.submissions.attempt import ClassAttempt
from grader.submissions.download import ClassDownload
from grader.text import counted, listed

# The kind of id that a roster's column for teams becomes.
TEAM = "team"
_MOST_NAMES = 10


def share_in_teams(download: ClassDownload, known: Iterable[StudentInfo] = ()) -> ClassDownload:
    """The download as if each member of a team had handed in what any of them did.

    Teams are those of the roster, else those of before, of the students who are `known`. Notes say who is in no
    team and who is in another one than before.
    """
    before = {student.id: student for student in known}
    found = [*(attempt.student for attempt in download.attempts), *download.missing]
    people = before | {each.id: _with_team(each, before.get(each.id)) for each in found}
    teams: dict[str, list[StudentInfo]] = {}
    for person in sorted(people.values(), key=lambda each: each.id):
        if team := person.ids.get(TEAM):
            teams.setdefault(team, []).append(person)
    attempts = [a for a in download.attempts if not people[a.student.id].ids.get(TEAM)]
    for members in teams.values():
        ids = {member.id for member in members}
        shared = _in_order([a for a in download.attempts if a.student.id in ids])
        for member in members:
            attempts += _as_of(member, shared)
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


def _as_of(member: StudentInfo, shared: Sequence[ClassAttempt]) -> list[ClassAttempt]:
    return [
        msgspec.structs.replace(attempt, student=member, attempt=number)
        for number, attempt in enumerate(shared, 1)
    ]


def _notes(
    teams: dict[str, list[StudentInfo]],
    people: dict[str, StudentInfo],
    before: dict[str, StudentInfo],
) -> list[str]:
    alone = sorted(each.id for each in people.values() if not each.ids.get(TEAM))
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
