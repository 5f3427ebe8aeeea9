"""Assignments: exercises that are handed out together, with due times and weights.

`assignments.toml` beside `course.toml` has a table `[[assignment]]` for each. Only staff have it, since it
holds seeds and rules. A release has a file `assignments/<id>.toml` for each assignment that students received,
with the entries of its exercises, so that the student's folder grows with the term.
"""

from __future__ import annotations

import datetime
import ipaddress
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from grader.course.names import why_no_folder
from grader.errors import CourseError
from grader.text import nearest
from grader.toml import Identifier, Text, line_of, read_course_file

FILE = "assignments.toml"
# In a release, the folder with the files of the assignments that students received.
FOLDER = "assignments"
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
_FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class ReleasedAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that students get. After reading, `exercises` includes the exercises of `chapters`.

    `weight` is the weight in the total of a term. Points for the exercises of `extra_credit` are added to those
    of the assignment, and full marks do not need them.
    """

    id: Identifier
    title: Text
    exercises: tuple[Text, ...] = ()
    chapters: tuple[Text, ...] = ()
    opens: datetime.datetime | None = None
    due: datetime.datetime | None = None
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.0
    extra_credit: tuple[Text, ...] = ()
    teams: bool = False


class Exam(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An exam on a server: whether the page has `hints` and `downloads`, and the `networks` it is written in.

    Without `networks`, it may be written anywhere.
    """

    hints: bool = True
    downloads: bool = True
    networks: tuple[Text, ...] = ()


class CourseAssignment(
    ReleasedAssignment, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One assignment, with the keys that students never see.

    `seed` is the seed of the tests' inputs, `graders` are people who grade by hand, and `policy` has keys of
    `policy.toml` that hold for this assignment. `at_most` is the highest percentage that counts, `can_drop`
    says whether a term may drop it as one of the lowest, and `replaces` names assignments whose lower results
    are replaced by the result of this one. An `exam` is handed in only from the page of a server, between
    `opens` and `due`.
    """

    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    graders: tuple[Text, ...] = ()
    policy: dict[str, Any] = {}
    at_most: _Positive = 100.0
    can_drop: bool = True
    replaces: tuple[Identifier, ...] = ()
    timezone: str = ""
    exam: Exam | None = None

    @property
    def opens_at(self) -> datetime.datetime:
        """The opening time, with an offset; the first moment of all if there is none."""
        return _FIRST if self.opens is None else _instant(self.opens, self.timezone)

    @property
    def due_at(self) -> datetime.datetime:
        """The due time, with an offset; the last moment of all if there is none."""
        return _LAST if self.due is None else _instant(self.due, self.timezone)


class Excused(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A student for whom an assignment does not count, and the reason."""

    student: Text
    assignment: Identifier
    reason: Text


class TermRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the assignments of a term make a total of at most `at_most` per cent.

    The `drop_lowest` assignments with the lowest results do not count; `cuts` has letters with the lowest total
    of each. Each list in `same` has the ids of one person. `missing` is for a student missing from an
    assignment: "open" for no total, or "zero".
    """

    drop_lowest: Annotated[int, msgspec.Meta(ge=0)] = 0
    at_most: _Positive = 100.0
    cuts: dict[Text, Annotated[float, msgspec.Meta(ge=0, le=1e6)]] = {}
    missing: Annotated[str, msgspec.Meta(pattern=r"^(open|zero)$")] = "open"
    same: tuple[tuple[Text, ...], ...] = ()
    excused: tuple[Excused, ...] = ()


class Assignments(msgspec.Struct, frozen=True):
    """The contents of `assignments.toml`, in its order."""

    assignments: tuple[CourseAssignment, ...] = ()
    term: TermRules = TermRules()


class _AssignmentsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    assignment: tuple[CourseAssignment, ...] = ()
    timezone: str = ""
    term: TermRules = TermRules()


def read_assignments(path: Path, chapters: Mapping[str, str]) -> Assignments:
    """Read the assignments of a file; `chapters` maps exercises to chapters, in the order of the course.

    Raises CourseError with the file, the line, and how to correct it.
    """
    file = read_course_file(path, _AssignmentsFile, "reference.md")
    assignments = resolved(path, file.assignment, file.timezone, chapters)
    for complaint in _term_complaints(file.term, [assignment.id for assignment in assignments]):
        raise CourseError(f"{path}: {complaint}")
    return Assignments(assignments, file.term)


def resolved(
    path: Path,
    assignments: tuple[CourseAssignment, ...],
    timezone: str,
    chapters: Mapping[str, str],
) -> tuple[CourseAssignment, ...]:
    """Return the checked assignments of a file, with exercises instead of chapters, and with the time zone.

    Raises CourseError with the assignment, its line in the file at `path`, and how to correct it.
    """
    if timezone and not _is_zone(timezone):
        raise CourseError(
            f'{path}: there is no time zone {timezone!r}; write one as timezone = "Europe/Warsaw".'
        )
    for number, key, complaint in _complaints(assignments, timezone, chapters):
        place = f"assignment {assignments[number].id!r}{_line(path, number, key)}"
        raise CourseError(f"{path}: {place}: {complaint}")
    return tuple(
        msgspec.structs.replace(
            assignment,
            exercises=_exercises(assignment, chapters),
            chapters=(),
            timezone=timezone,
        )
        for assignment in assignments
    )


def released_table(assignment: CourseAssignment) -> dict[str, Any]:
    """Return the keys of an assignment for students, as a release's file has them.

    An exam is called an exam, without its rules, so that no command proposes its exercises.
    """
    keys = {name: getattr(assignment, name) for name in ReleasedAssignment.__struct_fields__}
    written = {name: value for name, value in keys.items() if value not in (None, ())}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in written.items()
    } | ({} if assignment.exam is None else {"exam": {}})


def _exercises(assignment: CourseAssignment, chapters: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        name
        for name, chapter in chapters.items()
        if name in assignment.exercises or chapter in assignment.chapters
    )


def _instant(time: datetime.datetime, timezone: str) -> datetime.datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=zoneinfo.ZoneInfo(timezone))


# --- checks beyond decoding ---------------------------------------------------------------------------


def _complaints(
    assignments: Sequence[CourseAssignment], timezone: str, chapters: Mapping[str, str]
) -> Iterator[tuple[int, str, str]]:
    """Yield the number of an assignment, from 0, one of its keys, and the problem with it."""
    ids = [assignment.id for assignment in assignments]
    for number, assignment in enumerate(assignments):
        for key, complaint in (
            *_id_complaints(assignment, assignments[:number], chapters),
            *_name_complaints(assignment, ids, chapters),
            *_time_complaints(assignment, timezone),
            *_exam_complaints(assignment),
        ):
            yield number, key, complaint
    for number, assignment in enumerate(assignments):
        for complaint in _overlaps(assignment, assignments[:number], chapters):
            yield number, "", complaint


def _id_complaints(
    assignment: CourseAssignment, before: Sequence[CourseAssignment], chapters: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield problems with ids and titles that are taken, and with misplaced keys."""
    taken = dict.fromkeys(chapters.values(), "a chapter") | dict.fromkeys(chapters, "an exercise")
    taken |= {other.id: "an assignment" for other in before}
    if (what := taken.get(assignment.id)) is not None:
        yield "id", f"this is the id of {what}, too; an id means one thing in a course."
    if why := why_no_folder(assignment.id):
        yield "id", f"this id cannot be used: {why}; choose another."
    if assignment.title.casefold() in {other.title.casefold() for other in before}:
        yield (
            "title",
            f"another assignment has the title {assignment.title!r}, too; choose another.",
        )
    if assignment.timezone:
        yield "timezone", "write `timezone` only once, at the top of the file."


def _name_complaints(
    assignment: CourseAssignment, ids: Sequence[str], chapters: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield problems with names of exercises, chapters and assignments that are unknown or repeated."""
    others = [id_ for id_ in ids if id_ != assignment.id]
    for key, kind, names, existing in (
        ("exercises", "exercise", assignment.exercises, list(chapters)),
        ("chapters", "chapter", assignment.chapters, list(dict.fromkeys(chapters.values()))),
        ("replaces", "other assignment", assignment.replaces, others),
    ):
        for name in names:
            if name not in existing:
                yield key, f"there is no {kind} {name!r}. {nearest(name, existing)}"
            elif names.count(name) > 1:
                yield key, f"{name!r} is twice in `{key}`; once is enough."
    for name in assignment.exercises:
        chapter = chapters.get(name)
        if chapter in assignment.chapters:
            twice = f"{name!r} is there twice: by its name, and as one of the chapter {chapter!r}."
            yield "exercises", twice
    exercises = _exercises(assignment, chapters)
    if not exercises:
        yield "id", "it has no exercises; name them in `exercises`, or whole `chapters`."
    for name in assignment.extra_credit:
        if name not in exercises:
            yield (
                "extra_credit",
                f"{name!r} is not one of its exercises. {nearest(name, exercises)}",
            )
    if exercises and set(exercises) <= set(assignment.extra_credit):
        yield "extra_credit", "all of its exercises are for extra credit; leave one that is not."


def _exam_complaints(assignment: CourseAssignment) -> Iterator[tuple[str, str]]:
    """Yield problems with an exam: without a beginning or an end, or with invalid networks."""
    if assignment.exam is None:
        return
    if assignment.opens is None or assignment.due is None:
        yield "exam", "an exam needs `opens` and `due`; write both times."
    for network in assignment.exam.networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            yield "exam", f'{error}. Write networks as networks = ["10.1.0.0/16"].'


def _time_complaints(assignment: CourseAssignment, timezone: str) -> Iterator[tuple[str, str]]:
    """Yield problems with times that need a zone, or are in the wrong order."""
    for key, time in (("opens", assignment.opens), ("due", assignment.due)):
        if time is not None and time.tzinfo is None and not timezone:
            local = f"`{key}` is a local time, and no time zone is named; write "
            yield key, f'{local}timezone = "Europe/Warsaw" at the top of the file.'
            return
    here = msgspec.structs.replace(assignment, timezone=timezone)
    if assignment.due is not None and here.due_at <= here.opens_at:
        yield "due", f"it is due at {assignment.due}, before it opens at {assignment.opens}."
    if "due" in assignment.policy:
        yield "policy", "write `due` in the assignment itself instead of in its policy."
    if "timezone" in assignment.policy:
        yield "policy", "write `timezone` only once, at the top of the file."


def _overlaps(
    assignment: CourseAssignment, before: Sequence[CourseAssignment], chapters: Mapping[str, str]
) -> Iterator[str]:
    """Yield problems with exercises of two assignments: a second release would overwrite a student's work."""
    owners = {name: other.id for other in before for name in _exercises(other, chapters)}
    for name in _exercises(assignment, chapters):
        if name in owners:
            yield (
                f"the exercise {name!r} is one of {owners[name]!r}, too; "
                "an exercise belongs to one assignment."
            )


def _term_complaints(term: TermRules, ids: list[str]) -> Iterator[str]:
    """Yield problems with rules of a term that contradict each other or name no assignment."""
    if term.drop_lowest and term.drop_lowest >= len(ids):
        yield f"`drop_lowest` of [term] is {term.drop_lowest}, and there are {len(ids)} assignments."
    if term.cuts and min(term.cuts.values()) > 0:
        yield "`cuts` of [term] has no letter from 0 per cent on; name it, as F = 0."
    if len(set(term.cuts.values())) < len(term.cuts):
        yield "`cuts` of [term] has two letters from the same total on; change one of them."
    for excused in term.excused:
        if excused.assignment not in ids:
            yield (
                f"[[term.excused]] of {excused.student!r} names the assignment {excused.assignment!r}, "
                f"which does not exist here. {nearest(excused.assignment, ids)}"
            )
    named = [student for group in term.same for student in group]
    if twice := [student for student in named if named.count(student) > 1]:
        yield f"`same` of [term] names {twice[0]!r} twice; put all ids of a person into one list."


def _line(path: Path, number: int, key: str = "") -> str:
    """Return the line of a key of the assignment with this number, from 0, as `, line 12`."""
    line = line_of(path.read_text(encoding="utf-8"), f"assignment[{number}].{key}")
    return f", line {line}" if line else ""


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
