"""A term: its assignments, added up for each student by the rules of `assignments.toml`.

Each assignment has its own gradebook, or one gradebook has the whole course.

Nothing is judged or guessed: if a student is missing, a result is open, or two ids may be one person's, the
total stays empty and a note says why.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.assignments import CourseAssignment, TermRules
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.policy import Policy
from grader.gradebook.refusals import refuse_other_course
from grader.gradebook.times import local, moment
from grader.judge.scoring import extra_credit_words, hundredths, is_provisional
from grader.results import Entry, Status, StudentInfo
from grader.text import counted, listed, number, rounded, utc

# The most people named in one note.
_MAX_NAMES = 10


class Score(msgspec.Struct, frozen=True):
    """A student's points for an assignment that is `worth` points; None while an exercise is not judged.

    `why` is the reason why the points are open. `extra` of the points are extra credit. `is_due` is false while
    the student may hand in on time.
    """

    points: float | None
    worth: float
    provisional: bool = False
    why: str = ""
    extra: float = 0.0
    is_due: bool = True

    @property
    def percent(self) -> float:
        """The exact percentage of the points; only outputs round it.

        It is computed from hundredths, so equal percentages are equal to the last bit.
        """
        worth = hundredths(self.worth)
        return 100 * hundredths(self.points or 0.0) / worth if worth else 0.0

    @property
    def words(self) -> str:
        """The points and the percentage: `18 / 30 = 60 %`."""
        if self.points is None:
            return f"open / {number(self.worth)}"
        after = extra_credit_words(self.extra) + ", provisional" * self.provisional
        return f"{number(self.points)} / {number(self.worth)} = {number(self.percent)} %{after}"


class GradedAssignment(msgspec.Struct, frozen=True):
    """An assignment with the students and scores of its gradebook, by student id.

    `later` are the ids of assignments in the same gradebook that are not due yet: a note names them.
    """

    assignment: CourseAssignment
    folder: Path
    students: dict[str, StudentInfo]
    scores: dict[str, Score]
    notes: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class TermPart(msgspec.Struct, frozen=True):
    """One assignment in a student's total: the exact `percent` that counts, its `weight`, and why.

    `share` is its contribution to the total, in per cent; the shares of all parts add up to the total. It is
    None while the total is open.
    """

    assignment: str
    score: Score | None
    percent: float | None
    weight: float
    share: float | None = None
    why: str = ""

    @property
    def words(self) -> str:
        """The part in words for students: `week1 18 / 30 = 60 %, weight 1: 20`."""
        earned = f"{self.assignment} {self.score.words}" if self.score else self.assignment
        counts = f"weight {number(self.weight)}"
        counts += "" if self.share is None else f": {number(self.share)}"
        is_counted = self.weight and self.percent is not None
        return ", ".join(filter(None, (earned, self.why, counts if is_counted else "")))


class TermRow(msgspec.Struct, frozen=True):
    """A student's term: the total in per cent (None if it is open), its letter, and its parts."""

    student: StudentInfo
    parts: tuple[TermPart, ...]
    total: float | None
    letter: str = ""
    why: str = ""

    @property
    def is_provisional(self) -> bool:
        """Whether points that count in it are provisional until a person has looked at a file."""
        return any(
            part.weight and part.score is not None and part.score.provisional for part in self.parts
        )

    @property
    def words(self) -> str:
        """One line that explains the total."""
        end = f"open: {self.why}" if self.total is None else f"{number(self.total)} %{self.why}"
        letter = f", {self.letter}" if self.letter else ""
        return f"{'; '.join(part.words for part in self.parts)}. Total: {end}{letter}"


class Term(msgspec.Struct, frozen=True):
    """The assignments in the order of the course, a row for each student, and notes for a person."""

    assignments: tuple[CourseAssignment, ...]
    rows: tuple[TermRow, ...]
    notes: tuple[str, ...]


def read_graded(
    folder: Path, course: Course, now: datetime.datetime | None = None
) -> list[GradedAssignment]:
    """Read the scores of one gradebook: of its assignment, or in a course's, of all assignments due by `now`.

    Raises SubmissionError if it belongs to no assignment of the course.
    """
    with Gradebook.open(folder) as book:
        refuse_other_course(book, course)
        exercises = {*book.exercises}
        entries = {entry.student.id: entry for entry in book.entries()}
        if not book.facts.parts:
            return [_graded(book, entries, _assignment_of(book, course))]
        now = now or datetime.datetime.now(datetime.UTC)
        assignments = [a for a in course.assignments if exercises & {*a.exercises}]
        due = [a for a in assignments if a.due is None or a.due_at <= now]
        graded = [_graded(book, entries, assignment, now) for assignment in due]
        if not graded:
            raise SubmissionError(f"{folder} has no assignment that is due yet.")
        notes = [
            f"{a.id} is due at {moment(utc(a.due_at), a.timezone)}: the total does not include it."
            for a in assignments
            if a not in due
        ]
        if without := [e.id for e in course.exercises if e.id not in course.assignment_of]:
            notes.append(f"No assignment has {listed(without)}: the total does not include them.")
    first, later = graded[0], tuple(a.id for a in assignments if a not in due)
    return [
        msgspec.structs.replace(first, notes=(*first.notes, *notes), later=later),
        *graded[1:],
    ]


def _assignment_of(book: Gradebook, course: Course) -> CourseAssignment:
    """Return the assignment that a gradebook is of; raises SubmissionError if there is none."""
    name = book.facts.assignment
    assignment = next((a for a in course.assignments if a.id == name), None)
    if assignment is None:
        owner = (
            f"of the assignment {name}, which is no longer in assignments.toml"
            if name
            else "of no assignment; `grade regrade` with --assignment sets its assignment"
        )
        raise SubmissionError(f"{book.folder} is the gradebook {owner}.")
    return assignment


def _graded(
    book: Gradebook,
    entries: Mapping[str, Entry],
    assignment: CourseAssignment,
    now: datetime.datetime | None = None,
) -> GradedAssignment:
    """Return an assignment with its scores; with `now`, students who may still hand in on time are open."""
    name, folder, policy = assignment.id, book.folder, book.policy
    notes = [book.unfinished] if book.unfinished else []
    graded = {*book.exercises}
    if now is not None:
        # The gradebook of a course has the exercises of other assignments, too.
        graded &= {*assignment.exercises}
    if graded != {*assignment.exercises}:
        notes.append(
            f"{folder} was graded with other exercises than {name} now has: run `grade regrade {folder}`."
        )
    return GradedAssignment(
        assignment,
        folder,
        {student: entry.student for student, entry in entries.items()},
        {
            student: _score(entry, assignment, graded, policy, now)
            for student, entry in entries.items()
        },
        tuple(notes),
    )


class TermSoFar:
    """The terms of students at a moment, from the gradebook of a course.

    A term has a part for each assignment that has opened. An assignment that the student may still hand in on
    time does not count.
    """

    def __init__(self, book: Gradebook, course: Course, now: datetime.datetime) -> None:
        self._rules, self._now, self._policy = course.term, now, book.policy
        self._folder, self._names = book.folder, {*book.exercises}
        self._opened = [each for each in course.assignments if each.opens_at <= now]
        # Of the other students, only people with several ids are needed.
        known = (book.student(id_) for group in course.term.same for id_ in group)
        self._doubled = {student.id: student for student in known if student is not None}

    def of(self, entry: Entry) -> TermRow | None:
        """Return a student's term; None before the first assignment has opened."""
        if not self._opened:
            return None
        student = entry.student
        students = {**self._doubled, student.id: student}
        graded = [
            GradedAssignment(each, self._folder, students, {student.id: self._score(entry, each)})
            for each in self._opened
        ]
        people = _People(graded, self._rules)
        return _row(people.person(student.id), graded, people, self._rules, so_far=True)

    def _score(self, entry: Entry, assignment: CourseAssignment) -> Score:
        names = self._names & {*assignment.exercises}
        return _score(entry, assignment, names, self._policy, self._now)


def _score(
    entry: Entry,
    assignment: CourseAssignment,
    names: Collection[str],
    policy: Policy,
    now: datetime.datetime | None,
) -> Score:
    """Return a student's points for these exercises of an assignment, and their worth without extra credit."""
    exercises = [e for e in entry.result.exercises if e.name in names]
    extras = [e for e in exercises if e.name in assignment.extra_credit]
    open_ones = [exercise for exercise in exercises if exercise.status is Status.UNJUDGED]
    faults, waiting = (
        ", ".join(e.name for e in open_ones if e.waiting is is_waiting)
        for is_waiting in (False, True)
    )
    why = [f"could not be judged because of a fault of the grader ({faults})"] if faults else []
    why += [f"is not judged yet ({waiting})"] if waiting else []
    until = None if now is None else policy.until(entry.student, (e.name for e in exercises))
    is_due = until is None or now is None or until <= now
    if until is not None and not is_due:
        why.append(f"may be handed in until {local(until, policy.zone)}")
    return Score(
        None if open_ones else rounded(math.fsum(exercise.score for exercise in exercises)),
        rounded(math.fsum(e.max_score for e in exercises if e not in extras)),
        is_provisional(exercises),
        " and ".join(why),
        rounded(math.fsum(e.score for e in extras)),
        is_due,
    )


def add_up(graded: Sequence[GradedAssignment], course: Course) -> Term:
    """Add up gradebooks; raises SubmissionError if two belong to the same assignment."""
    of_ids: dict[str, GradedAssignment] = {}
    for gradebook in graded:
        id_ = gradebook.assignment.id
        if (other := of_ids.get(id_)) is not None:
            raise SubmissionError(
                f"{other.folder} and {gradebook.folder} are both the gradebook of {id_}: name one of them."
            )
        of_ids[id_] = gradebook
    ordered = [of_ids[a.id] for a in course.assignments if a.id in of_ids]
    people = _People(ordered, course.term)
    rows = tuple(_row(person, ordered, people, course.term) for person in people.ids)
    notes = [note for gradebook in ordered for note in gradebook.notes]
    named = {*of_ids, *(id_ for gradebook in graded for id_ in gradebook.later)}
    if lacking := [a.id for a in course.assignments if a.id not in named]:
        them = "it" if len(lacking) == 1 else "them"
        notes.append(
            f"No gradebook of {listed(lacking)} was named: the total does not include {them}."
        )
    notes += people.notes()
    notes += [
        f"[[term.excused]] names {excused.student!r}, who is not in any of these gradebooks."
        for excused in course.term.excused
        if people.person(excused.student) not in people.ids
    ]
    if held := [row.student.id for row in rows if row.is_provisional]:
        notes.append(
            f"Points of {listed(held, _MAX_NAMES)} are provisional because of odd code in a file. "
            "`grade show` shows the code; `grade adjust --release` lets the points count."
        )
    return Term(tuple(gradebook.assignment for gradebook in ordered), rows, tuple(notes))


class _People:
    """The students of all gradebooks, with the ids that belong to one person."""

    def __init__(self, graded: Sequence[GradedAssignment], rules: TermRules) -> None:
        self._graded, self._rules = graded, rules
        self._first = {other: group[0] for group in rules.same for other in group}
        ids = {self.person(student) for gradebook in graded for student in gradebook.students}
        self.ids = sorted(ids)

    def person(self, student: str) -> str:
        """Return the id under which a student is listed here."""
        return self._first.get(student, student)

    def ids_in(self, person: str, graded: GradedAssignment) -> list[str]:
        """Return the ids that a gradebook has for a person."""
        group = next((group for group in self._rules.same if group[0] == person), (person,))
        return [student for student in group if student in graded.students]

    def info(self, person: str) -> StudentInfo:
        """Return a person's facts from the newest gradebook that has the person."""
        for gradebook in reversed(self._graded):
            for student in self.ids_in(person, gradebook):
                return msgspec.structs.replace(gradebook.students[student], id=person)
        raise KeyError(person)

    def notes(self) -> Iterator[str]:
        """Yield notes on students who are missing in a gradebook, and on ids that may be one person."""
        for gradebook in self._graded:
            missing = [p for p in self.ids if not self.ids_in(p, gradebook)]
            if missing:
                verb = "who is" if len(missing) == 1 else "who are"
                name, people = gradebook.assignment.id, listed(missing, _MAX_NAMES)
                yield (
                    f"{name} ({gradebook.folder}) has no {people}, {verb} in others: grade it with the same "
                    '--roster, excuse them with [[term.excused]], or write missing = "zero" under [term].'
                )
        yield from self._doubles()

    def _doubles(self) -> Iterator[str]:
        """Yield notes on ids with the same address or other id, or the same name but no common gradebook."""
        holders: dict[tuple[str, str], dict[str, None]] = {}
        where: dict[str, set[str]] = {}
        for gradebook in self._graded:
            for student, info in gradebook.students.items():
                person = self.person(student)
                where.setdefault(person, set()).add(gradebook.assignment.id)
                names = {**info.other_ids, "address": info.email, "name": info.name}
                for kind, value in names.items():
                    if value:
                        holders.setdefault((kind, value.casefold()), {})[person] = None
        reported: set[tuple[str, ...]] = set()
        for (kind, value), people in holders.items():
            pair = tuple(people)
            if len(pair) < 2 or pair in reported:
                continue
            if kind == "name" and set.intersection(*(where[person] for person in pair)):
                continue
            reported.add(pair)
            quoted = ", ".join(f'"{person}"' for person in pair)
            yield (
                f"{listed(list(pair))} have the same {kind}, {value}: if they are one person, write "
                f"same = [[{quoted}]] under [term]."
            )


def _row(
    person: str,
    graded: Sequence[GradedAssignment],
    people: _People,
    rules: TermRules,
    *,
    so_far: bool = False,
) -> TermRow:
    """Return a student's term: parts are replaced, then dropped, then weighed; with an open part, it is open.

    With `so_far`, parts that are not due do not count.
    """
    excused = {e.assignment: e.reason for e in rules.excused if people.person(e.student) == person}
    parts = [_part(person, gradebook, people, rules, excused) for gradebook in graded]
    if so_far:
        parts = [
            part
            if part.score is None or part.score.is_due
            else msgspec.structs.replace(part, weight=0.0)
            for part in parts
        ]
    open_ones = [p for p in parts if p.percent is None and p.weight]
    info = people.info(person)
    if open_ones:
        why = ", ".join(f"{part.assignment} {part.why}" for part in open_ones)
        return TermRow(info, tuple(parts), None, why=why)
    parts = _dropped(_replaced(parts, graded), graded, rules.drop_lowest)
    if not any(part.weight for part in parts):
        return TermRow(info, tuple(parts), None, why=f"no assignment counts{' yet' * so_far}")
    parts, total = _weighed(parts)
    why = ""
    if total > rules.at_most:
        total, why = rules.at_most, f", the most that counts of {number(total)} %"
    reached = [(least, letter) for letter, least in rules.cuts.items() if total >= least]
    return TermRow(info, tuple(parts), total, max(reached)[1] if reached else "", why)


def _part(
    person: str,
    graded: GradedAssignment,
    people: _People,
    rules: TermRules,
    excused: Mapping[str, str],
) -> TermPart:
    """Return an assignment's part in a student's total, before it is replaced or dropped."""
    assignment = graded.assignment
    name, weight = assignment.id, assignment.weight
    ids = people.ids_in(person, graded)
    score = graded.scores[ids[0]] if len(ids) == 1 else None
    if name in excused:
        return TermPart(name, score, None, 0.0, why=f"excused ({excused[name]})")
    if len(ids) > 1:
        return TermPart(name, None, None, weight, why=f"has the person as {listed(ids)}")
    if score is None and rules.missing == "zero":
        return TermPart(name, None, 0.0, weight, why="missing, 0 %")
    if score is None:
        return TermPart(name, None, None, weight, why="is missing")
    if score.points is None or not score.is_due:
        return TermPart(name, score, None, weight, why=score.why)
    if score.percent > assignment.at_most:
        most = f"at most {number(assignment.at_most)} % count"
        return TermPart(name, score, assignment.at_most, weight, why=most)
    return TermPart(name, score, score.percent, weight)


def _replaced(parts: list[TermPart], graded: Sequence[GradedAssignment]) -> list[TermPart]:
    """Return the parts, each with the percentage of its best replacement, if that is higher."""
    by_id = {part.assignment: part for part in parts}
    done = []
    for part in parts:
        assignments = [g.assignment for g in graded]
        better = [by_id[a.id] for a in assignments if part.assignment in a.replaces]
        best = max(better, key=lambda part: part.percent or 0.0, default=part)
        if part.percent is not None and (best.percent or 0.0) > part.percent:
            why = f"replaced by {number(best.percent or 0.0)} % of {best.assignment}"
            part = msgspec.structs.replace(part, percent=best.percent, why=why)
        done.append(part)
    return done


def _dropped(
    parts: list[TermPart], graded: Sequence[GradedAssignment], count: int
) -> list[TermPart]:
    """Return the parts, with the lowest ones at weight 0.

    Among equal parts, the heavier one is dropped first. At least one part keeps its weight.
    """
    can_drop = {gradebook.assignment.id for gradebook in graded if gradebook.assignment.can_drop}
    counting = [part for part in parts if part.weight]
    lowest = sorted(
        (part for part in counting if part.assignment in can_drop),
        key=lambda part: (part.percent or 0.0, -part.weight),
    )[: min(count, len(counting) - 1)]
    names = {part.assignment for part in lowest}
    words = "dropped as the lowest" if count == 1 else f"dropped as one of the lowest {count}"
    return [
        msgspec.structs.replace(part, weight=0.0, why=", ".join(filter(None, (part.why, words))))
        if part.assignment in names
        else part
        for part in parts
    ]


def _weighed(parts: list[TermPart]) -> tuple[list[TermPart], float]:
    """Return the parts with their shares, and the total.

    Shares are hundredths that add up to the total: each is rounded down, and the remaining hundredths go to the
    parts with the largest remainders.
    """
    weights = math.fsum(part.weight for part in parts)
    exact = [100 * (part.percent or 0.0) * part.weight / weights for part in parts]
    # For example, 33.335 is a little less in binary.
    cents = [math.floor(value + 1e-6) for value in exact]
    total = round(math.fsum(exact) + 1e-6)
    rests = sorted(range(len(parts)), key=lambda at: exact[at] - cents[at], reverse=True)
    for at in rests[: total - sum(cents)]:
        cents[at] += 1
    shared = [
        msgspec.structs.replace(part, share=share / 100)
        for part, share in zip(parts, cents, strict=True)
    ]
    return shared, total / 100


def summary(term: Term) -> str:
    """Return the number of students, the mean of the totals, and the number of open totals, in words."""
    totals = [row.total for row in term.rows if row.total is not None]
    words = counted(len(term.rows), "student")
    if totals:
        words += f", mean {number(math.fsum(totals) / len(totals))} %"
    still_open = len(term.rows) - len(totals)
    return words + (f", {counted(still_open, 'total')} open" if still_open else "")
