"""The file of a policy, `policy.toml`: read it, and explain the first mistake in it."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.course.assignments import CourseAssignment
from grader.course.manifest import MANIFEST, Course, load_course
from grader.errors import ExitCode, GraderError
from grader.gradebook.policy import (
    EXAMPLES,
    OVERRIDES,
    Due,
    Extension,
    Late,
    NamedPolicy,
    Override,
    Policy,
    Rules,
    is_about,
)
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
from grader.toml import TomlMistake, converted, explain_mistake, read_toml, to_toml

T = TypeVar("T", Due, Override, Extension)

POLICY_FILE = "policy.toml"


class PolicyError(GraderError):
    """A policy has a mistake that its author must correct."""

    exit_code = ExitCode.USAGE


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
        words = explain_mistake(error, text, Rules, EXAMPLES)
        raise PolicyError(f"{file}{error.place}: {words}") from error
    for complaint in _complaints(rules, due_elsewhere=due_elsewhere):
        raise PolicyError(f"{file}: {complaint}")
    return Policy(rules, dict(chapters or {}))


def policy_of(course: Course, named: NamedPolicy | None = None) -> Rules | None:
    """Return the rules of a course, or of its assignment; None if there is no policy beside the manifest.

    A `named` policy replaces the file beside the manifest, unless it is that file. Rules of assignments are
    merged into it: see `policy_of_assignment` and `policy_of_assignments`. Raises PolicyError if the policy has
    a mistake.
    """
    path, assignment = course.folder / POLICY_FILE, course.assignment
    rules: Rules | None = None
    if named is not None and Path(named.file) != path.resolve():
        rules = named.rules
    elif path.is_file():
        rules = policy_from(path, course.chapter_of, due_elsewhere=bool(course.assignments)).rules
    if assignment is not None:
        return policy_of_assignment(assignment, course.chapter_of, rules or Rules())
    if any(each.due is not None or each.policy for each in course.assignments):
        return policy_of_assignments(course.assignments, course.chapter_of, rules or Rules())
    return rules


def name_policy(
    path: Path, course: Course, chapters: Mapping[str, str]
) -> tuple[NamedPolicy, Rules]:
    """Name a file as the policy of a course or its assignment; return it and the rules that then hold.

    The file may name exercises in `chapters`, and exercises of a course in its folder. Raises PolicyError.
    """
    policy = policy_from(path, chapters, due_elsewhere=bool(course.assignments))
    named = NamedPolicy(str(path.resolve()), policy.rules)
    return named, policy_of(course, named) or Rules()


def policy_of_assignment(
    assignment: CourseAssignment, chapters: Mapping[str, str], rules: Rules
) -> Rules:
    """Merge the rules of a course with an assignment's; rules about other exercises are left out.

    The `due` of the assignment is the due time of all its exercises. The keys of its `policy` replace the
    course's, but extensions are added to the course's. Raises PolicyError.
    """
    where, own = f"the policy of the assignment {assignment.id}", _own_rules(assignment)
    if rules.late_days and "late_days" not in assignment.policy:
        raise PolicyError(
            f"{where}: `late_days` of policy.toml is for the whole term, but one assignment is graded here. "
            "Grade the whole course into one RESULTS, or write policy = {late_days = 0} in the assignment."
        )
    merged = msgspec.structs.replace(
        rules,
        timezone=_zone_of(assignment, rules),
        due=_about(rules.due, chapters) if assignment.due is None else (Due(assignment.due),),
        override=_about(rules.override, chapters),
    )
    merged = msgspec.structs.replace(
        merged, **{key: getattr(own, key) for key in assignment.policy}
    )
    extension = (*_about(rules.extension, chapters), *own.extension)
    merged = msgspec.structs.replace(merged, extension=extension)
    return _checked(merged, chapters, where)


def policy_of_assignments(
    assignments: Iterable[CourseAssignment], chapters: Mapping[str, str], rules: Rules
) -> Rules:
    """Merge the rules of a course and of all its assignments, each for its own exercises.

    The `due` of an assignment replaces every due time of the course for its exercises. The keys of its `policy`
    hold for its exercises instead of the course's, and its extensions are added. Raises PolicyError.
    """
    merged = rules
    dues, overrides, extensions = [], [], []
    for assignment in assignments:
        exercises = tuple(name for name in assignment.exercises if name in chapters)
        if not exercises:
            continue
        own, table = _own_rules(assignment), assignment.policy
        merged = msgspec.structs.replace(merged, timezone=_zone_of(assignment, merged))
        late = own.late if "late" in table else None
        # Late days cannot move the end of an exam.
        days = own.late_days if "late_days" in table else None if assignment.exam is None else 0
        if assignment.due is not None:
            dues.append(Due(assignment.due, exercises, late=late, late_days=days))
        elif late is not None or days is not None:
            dues += _dues_with(Policy(rules, chapters), exercises, late, days)
        if keys := table.keys() & OVERRIDES:
            changed = {key: getattr(own, key) for key in keys}
            overrides.append(Override(exercises, **changed))
        for extension in own.extension:
            extensions += _only_about(extension, exercises, chapters)
    own_due = {name for due in dues for name in due.exercises}
    own_rules = {name for override in overrides for name in override.exercises}
    merged = msgspec.structs.replace(
        merged,
        due=(*_but(rules.due, own_due, chapters), *dues),
        override=(*_but(rules.override, own_rules, chapters), *overrides),
        extension=(*rules.extension, *extensions),
    )
    return _checked(merged, chapters, "the policy with assignments.toml")


def _own_rules(assignment: CourseAssignment) -> Rules:
    """Return the rules of an assignment's `policy`; raises PolicyError."""
    where = f"the policy of the assignment {assignment.id}"
    if "keep" in assignment.policy:
        raise PolicyError(f"{where}: `keep` is for the whole class. Write it in policy.toml.")
    try:
        return converted(assignment.policy, Rules, dec_hook=_decoded)
    except TomlMistake as error:
        raise PolicyError(f"{where}: {explain_mistake(error, '', Rules, EXAMPLES)}") from error


def _zone_of(assignment: CourseAssignment, rules: Rules) -> str:
    """Return the time zone of the rules and of an assignment; raises PolicyError if they differ."""
    zone = rules.timezone or assignment.timezone
    if assignment.timezone and zone != assignment.timezone:
        raise PolicyError(
            f"the policy of the assignment {assignment.id}: policy.toml has the time zone {zone!r}, and "
            f"assignments.toml {assignment.timezone!r}; write the same in both."
        )
    return zone


def _checked(merged: Rules, chapters: Mapping[str, str], where: str) -> Rules:
    """Return merged rules, without rules that have no effect; raises PolicyError."""
    if not merged.due:
        # Without a due time, nothing is late or extended.
        merged = msgspec.structs.replace(merged, late=Late(), late_days=0, extension=())
    if merged == Rules(timezone=merged.timezone):
        return Rules()
    for complaint in _complaints(merged, due_elsewhere=False):
        raise PolicyError(f"{where}: {complaint}")
    check_names(Policy(merged, chapters), where, chapters.keys(), chapters.values())
    return merged


def _dues_with(
    policy: Policy, exercises: Iterable[str], late: Late | None, days: int | None
) -> list[Due]:
    """Return the course's due times of exercises, with other rules for lateness."""
    dues: dict[int, Due] = {}
    names: dict[int, list[str]] = {}
    for name in exercises:
        if (due := policy.due(name)) is not None:
            dues[id(due)] = due
            names.setdefault(id(due), []).append(name)
    return [
        Due(
            due.at,
            tuple(names[key]),
            late=due.late if late is None else late,
            late_days=due.late_days if days is None else days,
        )
        for key, due in dues.items()
    ]


def _only_about(
    extension: Extension, exercises: Sequence[str], chapters: Mapping[str, str]
) -> list[Extension]:
    """Return an extension limited to these exercises; none if it is about none of them."""
    names = tuple(name for name in exercises if is_about(extension, name, chapters[name]))
    return [msgspec.structs.replace(extension, exercises=names, chapters=())] if names else []


def _but(tables: Iterable[T], names: Collection[str], chapters: Mapping[str, str]) -> tuple[T, ...]:
    """Return the tables without the names of these exercises, and without tables about no others."""
    others = [name for name in chapters if name not in names]
    left = []
    for table in tables:
        exercises = tuple(name for name in table.exercises if name not in names)
        if any(is_about(table, name, chapters[name]) for name in others):
            left.append(msgspec.structs.replace(table, exercises=exercises))
    return tuple(left)


def _about(tables: Iterable[T], chapters: Mapping[str, str]) -> tuple[T, ...]:
    """Return the tables about these exercises or about all, without the names of others."""
    chosen = []
    for table in tables:
        exercises = tuple(name for name in table.exercises if name in chapters)
        in_chapters = tuple(name for name in table.chapters if name in chapters.values())
        if exercises or in_chapters or not (table.exercises or table.chapters):
            chosen.append(msgspec.structs.replace(table, exercises=exercises, chapters=in_chapters))
    return tuple(chosen)


def policy_text(rules: Rules) -> str:
    """Return rules as the TOML text of a policy, without keys that have their default values."""
    return to_toml(_table(rules)) if rules != Rules() else ""


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
    """Read a policy file; it may name these exercises, and exercises of a course in its folder.

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

    Also raise it if an exercise in `policy.chapters` is due twice, or has two overrides.
    """
    tables: dict[str, Due | Override | Extension] = {
        f"[[{key}]] {number}": table
        for key in ("due", "override", "extension")
        for number, table in enumerate(getattr(policy.rules, key), 1)
    }
    for where, table in tables.items():
        for kind, names, existing in (
            ("exercise", table.exercises, exercises),
            ("chapter", table.chapters, chapters),
        ):
            if unknown := [name for name in names if name not in existing]:
                raise PolicyError(
                    f"{file}: `{kind}s` of {where} names {unknown[0]!r}, and this course has no such {kind}. "
                    f"{nearest(unknown[0], existing)}"
                )
    for exercise in policy.chapters:
        if len(dues := policy.dues(exercise)) > 1:
            twice = [where for where, table in tables.items() if any(table is due for due in dues)]
            raise PolicyError(
                f"{file}: {exercise!r} is due twice, by {' and '.join(twice[:2])}. Name its `exercises` or "
                "`chapters` in one of them."
            )
        if len(overrides := policy.overrides(exercise)) > 1:
            twice = [where for where, table in tables.items() if any(table is o for o in overrides)]
            raise PolicyError(
                f"{file}: {exercise!r} has two overrides, {' and '.join(twice[:2])}. Remove it from one of "
                "them."
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
            cells = {student.cell(kind) for student in people}
            if name and not any(is_in_group(cell, name) for cell in cells):
                names = sorted(filter(None, cells))
                advice = nearest(name, names) if names else f"Give a --roster with {kind}s."
                yield (
                    f"`{kind}` of [[extension]] {number} is {name!r}, and no student here is in it. {advice}"
                )


def refuse_strangers(policy: Policy, students: Iterable[StudentInfo]) -> None:
    """Raise PolicyError if extensions name several students, and none of them is in the class.

    A single unknown name may belong to a student who left; several mean another kind of ids.
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
            f"The extensions of the policy name no student of this class, so none would hold. They name "
            f"{listed(list(names), 5)}, and ids here are {listed(list(ids), 5)}: write these ids, or give the "
            f"--roster that has the others as `id`. For {first!r}: {advice}"
        )


def _texts_of(student: StudentInfo) -> list[str]:
    """Return a student's name, address and other ids."""
    return [text for text in (student.name, student.email, *student.other_ids.values()) if text]


def odd_times(policy: Policy) -> list[str]:
    """Return sentences on local times that a change of the clocks skips or repeats."""
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
    """Yield complaints about rules that contradict each other or have no effect."""
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
            "[late] has no effect, since nothing is due. Write a table [[due]] with "
            f"{EXAMPLES['at']}, or remove [late]."
        )
    for number, due in enumerate(rules.due, 1):
        where = f"[[due]] {number}"
        yield from _time_complaints(rules, where, "at", due.at)
        if due.late is not None:
            yield from _late_complaints(f"[due.late] of {where}", due.late)
    for number, override in enumerate(rules.override, 1):
        where = f"[[override]] {number}"
        if not (override.exercises or override.chapters):
            yield f"{where} names no exercises. Write {EXAMPLES['exercises']} or {EXAMPLES['chapters']}."
        if all(getattr(override, key) is None for key in OVERRIDES):
            yield f"{where} changes nothing. Write one of {', '.join(OVERRIDES)}."
    lates = (rules.late, *(due.late for due in rules.due if due.late is not None))
    if rules.late_days and is_due and not due_elsewhere and not any(map(_is_costly, lates)):
        yield (
            "`late_days` has no effect, since lateness costs nothing. Write [late] with "
            f"{EXAMPLES['per_day']}, {EXAMPLES['steps']} or {EXAMPLES['closes']}."
        )
    if rules.late_days and not is_due:
        yield f"`late_days` has no effect, since nothing is due. Write {EXAMPLES['due']}."
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
            yield f"{where} has no effect, since nothing is due. Write {EXAMPLES['due']}."


def _time_complaints(rules: Rules, where: str, key: str, time: datetime.datetime) -> Iterator[str]:
    """Yield complaints about local times without a zone, and years out of range."""
    if time.tzinfo is None and not rules.timezone:
        yield (
            f"`{key}` of {where} is a local time without a time zone. Write "
            f"{EXAMPLES['timezone']} at the top of the file, or the time with its offset: "
            f"{time.isoformat()}+02:00."
        )
        return
    try:
        instant(time, read_zone(rules.timezone) if rules.timezone else None)
    except OverflowError:
        yield f"`{key}` of {where}: the year {time.year} is out of range."


def _is_costly(late: Late) -> bool:
    return bool(late.per_day or late.steps or late.closes is not None)


def _late_complaints(where: str, late: Late) -> Iterator[str]:
    """Yield complaints about rules for lateness that contradict each other."""
    if late.per_day is not None and late.steps:
        yield f"{where} has `per_day` and `steps`; keep one of them."
    if late.at_most < 100 and late.per_day is None:
        yield f"{where} has `at_most` without `per_day`. Write {EXAMPLES['per_day']}, or remove `at_most`."
    afters = [step.after for step in late.steps]
    if afters != sorted(set(afters)):
        yield f"`steps` of {where} are not in order. Write {EXAMPLES['steps']}."
    if late.closes is not None and late.closes < late.grace:
        yield f"{where} `closes` before the `grace` is over; make `closes` longer."
