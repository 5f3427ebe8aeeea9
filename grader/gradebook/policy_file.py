"""The file of a policy, `policy.toml`: read it, and explain the first mistake in it."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.course.assignments import CourseAssignment
from grader.course.manifest import MANIFEST, Course, load_course
from grader.errors import GraderError
from grader.gradebook.policy import EXAMPLES, Due, Extension, Late, NamedPolicy, Policy, Rules
from grader.gradebook.times import (
    Span,
    instant,
    oddity,
    read_period,
    read_span,
    read_zone,
    span_text,
)
from grader.results import StudentInfo
from grader.submissions.roster import is_in_group
from grader.text import listed, nearest
from grader.toml import TomlMistake, converted, explained, read_toml, written

T = TypeVar("T", Due, Extension)

POLICY_FILE = "policy.toml"


class PolicyError(GraderError):
    """A policy has a mistake, which its author has to correct."""

    exit_code = 2


def read_policy(
    text: str,
    chapters: Mapping[str, str] | None = None,
    *,
    file: str = "the policy",
    due_elsewhere: bool = False,
) -> Policy:
    """Return the policy in a TOML text, for exercises of these chapters; an empty text has no rules.

    With `due_elsewhere`, as in assignments, it may have rules for lateness without a due time.

    Raises PolicyError with the file, the line, the key, and a remedy.
    """
    try:
        rules = read_toml(text, Rules, dec_hook=_decoded)
    except TomlMistake as error:
        words = explained(error, text, Rules, EXAMPLES)
        raise PolicyError(f"{file}{error.place}: {words}") from error
    for complaint in _complaints(rules, due_elsewhere=due_elsewhere):
        raise PolicyError(f"{file}: {complaint}")
    return Policy(rules, dict(chapters or {}))


def policy_of(course: Course, named: NamedPolicy | None = None) -> Rules | None:
    """Return the rules of a course, or of its assignment; None if no policy lies beside the manifest.

    A `named` policy replaces the file beside the manifest, unless it is that file. With an assignment, they are
    merged: see `policy_of_assignment`. Raises PolicyError if the policy is not in order.
    """
    path, assignment = course.folder / POLICY_FILE, course.assignment
    rules: Rules | None = None
    if named is not None and Path(named.file) != path.resolve():
        rules = named.rules
    elif path.is_file():
        rules = policy_from(path, course.chapter_of, due_elsewhere=assignment is not None).rules
    if assignment is None:
        return rules
    return policy_of_assignment(assignment, course.chapter_of, rules or Rules())


def name_policy(
    path: Path, course: Course, chapters: Mapping[str, str]
) -> tuple[NamedPolicy, Rules]:
    """Name a file as the policy of a course or its assignment; returns it and the rules that hold then.

    The file may name the exercises of these chapters, and exercises of a course beside it. Raises PolicyError.
    """
    policy = policy_from(path, chapters, due_elsewhere=course.assignment is not None)
    named = NamedPolicy(str(path.resolve()), policy.rules)
    return named, policy_of(course, named) or Rules()


def policy_of_assignment(
    assignment: CourseAssignment, chapters: Mapping[str, str], rules: Rules
) -> Rules:
    """Merge the rules of a course with an assignment's; rules about other exercises are left out.

    The `due` of the assignment is the due time of all its exercises. The keys of its `policy` replace the
    course's, but extensions are added to the course's. Raises PolicyError.
    """
    where = f"the policy of the assignment {assignment.id}"
    try:
        own = converted(assignment.policy, Rules, dec_hook=_decoded)
    except TomlMistake as error:
        raise PolicyError(f"{where}: {explained(error, '', Rules, EXAMPLES)}") from error
    zone = rules.timezone or assignment.timezone
    if assignment.timezone and zone != assignment.timezone:
        raise PolicyError(
            f"{where}: policy.toml has the time zone {zone!r}, and assignments.toml {assignment.timezone!r}; "
            "write the same into both."
        )
    merged = msgspec.structs.replace(
        rules,
        timezone=zone,
        due=_about(rules.due, chapters) if assignment.due is None else (Due(assignment.due),),
    )
    merged = msgspec.structs.replace(
        merged, **{key: getattr(own, key) for key in assignment.policy}
    )
    extension = (*_about(rules.extension, chapters), *own.extension)
    merged = msgspec.structs.replace(merged, extension=extension)
    if not merged.due:
        # Nothing is late or extended that is never due.
        merged = msgspec.structs.replace(merged, late=Late(), extension=())
    if merged == Rules(timezone=merged.timezone):
        return Rules()
    for complaint in _complaints(merged, due_elsewhere=False):
        raise PolicyError(f"{where}: {complaint}")
    check_names(Policy(merged, chapters), where, chapters.keys(), chapters.values())
    return merged


def _about(tables: Iterable[T], chapters: Mapping[str, str]) -> tuple[T, ...]:
    """Return the tables about these exercises or about all; they name no others then."""
    chosen = []
    for table in tables:
        exercises = tuple(name for name in table.exercises if name in chapters)
        in_chapters = tuple(name for name in table.chapters if name in chapters.values())
        if exercises or in_chapters or not (table.exercises or table.chapters):
            chosen.append(msgspec.structs.replace(table, exercises=exercises, chapters=in_chapters))
    return tuple(chosen)


def policy_text(rules: Rules) -> str:
    """Return rules as the TOML text of a policy, without keys that have their default values."""
    return written(_table(rules)) if rules != Rules() else ""


def _table(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            return {
                field.name: _table(item)
                for field in msgspec.structs.fields(value)
                if (item := getattr(value, field.name)) != field.default
            }
        case tuple():
            return [_table(item) for item in value]
        case enum.Enum():
            return value.value
        case Span():
            return span_text(value)
    return value


def policy_from(path: Path, chapters: Mapping[str, str], *, due_elsewhere: bool = False) -> Policy:
    """Read the policy of a file, which may name these exercises and exercises of a course beside it.

    Raises PolicyError.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
        raise PolicyError(f"{path} cannot be read: {reason}.") from error
    chapter_of = dict(chapters)
    if (manifest := path.with_name(MANIFEST)).is_file():
        # A class may have been given only some of the exercises.
        chapter_of |= load_course(manifest).chapter_of
    policy = read_policy(text, chapter_of, file=str(path), due_elsewhere=due_elsewhere)
    check_names(policy, str(path), chapter_of.keys(), chapter_of.values())
    return policy


def check_names(
    policy: Policy, file: str, exercises: Collection[str], chapters: Collection[str]
) -> None:
    """Raise PolicyError if the policy names another exercise or chapter than these.

    Also raise it if an exercise in `policy.chapters` is due twice.
    """
    tables: dict[str, Due | Extension] = {
        f"[[{key}]] {number}": table
        for key in ("due", "extension")
        for number, table in enumerate(getattr(policy.rules, key), 1)
    }
    for where, table in tables.items():
        for kind, names, existing in (
            ("exercise", table.exercises, exercises),
            ("chapter", table.chapters, chapters),
        ):
            if unknown := [name for name in names if name not in existing]:
                raise PolicyError(
                    f"{file}: `{kind}s` of {where} names {unknown[0]!r}, which is no {kind} of this course. "
                    f"{nearest(unknown[0], existing)}"
                )
    for exercise in policy.chapters:
        if len(sets := policy.sets(exercise)) > 1:
            twice = [where for where, table in tables.items() if any(table is s for s in sets)]
            raise PolicyError(
                f"{file}: {exercise!r} is due twice, by {' and '.join(twice[:2])}. Name its `exercises` or "
                "`chapters` in one of them."
            )


def unknown_students(policy: Policy, students: Iterable[StudentInfo]) -> Iterator[str]:
    """Yield a sentence about each student, section and team in extensions that the class does not have."""
    people = list(students)
    ids = [student.id for student in people]
    known_as = {text: s.id for s in people for text in _texts_of(s)}
    for number, extension in enumerate(policy.rules.extension, 1):
        for name in filter(None, (extension.student, *extension.students)):
            if name not in ids:
                key = "student" if name == extension.student else "students"
                yield (
                    f"`{key}` of [[extension]] {number} names {name!r}, and no student here has that id. "
                    f"{nearest(name, ids, also=known_as)}"
                )
        for kind, name in (("section", extension.section), ("team", extension.team)):
            if name and not any(is_in_group(student, kind, name) for student in people):
                names = sorted({s.ids[kind] for s in people if s.ids.get(kind)})
                advice = nearest(name, names) if names else f"A --roster has {kind}s."
                yield (
                    f"`{kind}` of [[extension]] {number} is {name!r}, and no student here is in it. {advice}"
                )


def refuse_strangers(policy: Policy, students: Iterable[StudentInfo]) -> None:
    """Raise PolicyError if extensions name several students, and none of them is in the class.

    A single unknown name may be of a student who left; several are another kind of ids.
    """
    people = list(students)
    ids = dict.fromkeys(student.id for student in people)
    extensions = policy.rules.extension
    names = dict.fromkeys(n for e in extensions for n in (e.student, *e.students) if n)
    if not people or not names or not ids.keys().isdisjoint(names):
        return
    known_as = {text: s.id for s in people for text in _texts_of(s)}
    if len(names) > 1 or not known_as.keys().isdisjoint(names):
        first = next((name for name in names if name in known_as), next(iter(names)))
        advice = nearest(first, ids, also=known_as)
        raise PolicyError(
            f"The extensions of the policy name nobody of this class, so that nobody would have one. They name "
            f"{listed(list(names), 5)}, and ids here are {listed(list(ids), 5)}: write these ids, or give the "
            f"--roster that has the others as `id`. For {first!r}: {advice}"
        )


def _texts_of(student: StudentInfo) -> list[str]:
    """Return the names of a student besides the id."""
    return [text for text in (student.name, student.email, *student.other_ids.values()) if text]


def odd_times(policy: Policy) -> list[str]:
    """Yield sentences on local times that a change of the clocks skips or repeats."""
    times = [due.at for due in policy.rules.due]
    times += [more.until for more in policy.rules.extension if more.until is not None]
    return [text for text in (oddity(time, policy.zone) for time in times) if text]


def _decoded(kind: type, value: Any) -> Any:
    if kind is not Span:
        raise NotImplementedError(f"{kind} in a policy")
    if not isinstance(value, str):
        raise ValueError(f"Expected a duration, got {value!r}")
    return read_span(value)


# --- mistakes that the decoder does not see -------------------------------------------------------


def _complaints(rules: Rules, *, due_elsewhere: bool) -> Iterator[str]:
    """Rules that contradict each other, or have no effect."""
    if rules.timezone:
        try:
            read_zone(rules.timezone)
        except ValueError as error:
            yield f"`timezone`: {error} Write {EXAMPLES['timezone']}."
    if rules.keep:
        try:
            read_period(rules.keep)
        except ValueError as error:
            yield f"`keep`: {error}. Write {EXAMPLES['keep']}."
    yield from _late_complaints("[late]", rules.late)
    is_due = due_elsewhere or bool(rules.due)
    if rules.late != Late() and not is_due:
        yield (
            "[late] has rules, and nothing is due. Write a table [[due]] with "
            f"{EXAMPLES['at']}, or leave [late] out."
        )
    for number, due in enumerate(rules.due, 1):
        where = f"[[due]] {number}"
        yield from _time_complaints(rules, where, "at", due.at)
        if due.late is not None:
            yield from _late_complaints(f"[due.late] of {where}", due.late)
    for number, extension in enumerate(rules.extension, 1):
        where = f"[[extension]] {number}"
        if not (extension.student or extension.students or extension.section or extension.team):
            yield (
                f"{where} is for no student. Write {EXAMPLES['student']}, {EXAMPLES['students']}, "
                f"{EXAMPLES['section']} or {EXAMPLES['team']}."
            )
        if (extension.until is None) == (extension.by is None):
            both = "neither" if extension.until is None else "both"
            yield (
                f"{where} has {both} of `until` and `by`. Write {EXAMPLES['until']} or {EXAMPLES['by']}."
            )
        if extension.until is not None:
            yield from _time_complaints(rules, where, "until", extension.until)
        if not is_due:
            yield f"{where} extends nothing, for nothing is due. Write {EXAMPLES['due']}."


def _time_complaints(rules: Rules, where: str, key: str, time: datetime.datetime) -> Iterator[str]:
    """Yield complaints about local times without a zone, and years out of range."""
    if time.tzinfo is None and not rules.timezone:
        yield (
            f"`{key}` of {where} is a local time, and no time zone is named. Write "
            f"{EXAMPLES['timezone']} at the top of the file, or the time with its offset: "
            f"{time.isoformat()}+02:00."
        )
        return
    try:
        instant(time, read_zone(rules.timezone) if rules.timezone else None)
    except OverflowError:
        yield f"`{key}` of {where}: the year {time.year} is out of range."


def _late_complaints(where: str, late: Late) -> Iterator[str]:
    """Rules for lateness of which one makes another meaningless."""
    if late.per_day is not None and late.steps:
        yield f"{where} has `per_day` and `steps`; keep one of them."
    if late.at_most < 100 and late.per_day is None:
        yield f"{where} has `at_most` without `per_day`. Write {EXAMPLES['per_day']}, or leave it out."
    afters = [step.after for step in late.steps]
    if afters != sorted(set(afters)):
        yield f"`steps` of {where} are not in order. Write {EXAMPLES['steps']}."
    if late.closes is not None and late.closes < late.grace:
        yield f"{where} `closes` before the `grace` is over; make `closes` longer."
