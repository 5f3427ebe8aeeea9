"""A term: the gradebooks of its assignments, added up for each student by the rules of `assignments.toml`.

Nothing is judged and nothing is guessed: where a student is missing, a result is open or an id stands for two
people, the total stays empty and a note says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.assignments import CourseAssignment, TermRules
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.intake import refuse_other_course
from grader.judge.scoring import hundredths
from grader.results import Entry, Status, StudentInfo
from grader.text import counted, listed, number, rounded

# The most people that one note names.
_MOST_NAMES = 10


class Score(msgspec.Struct, frozen=True):
    """What a student has of an assignment: `points` of those `worth`, None while something is not judged.

    `why` says what is in the way of them.
    """

    points: float | None
    worth: float
    provisional: bool = False
    why: str = ""

    @property
    def percent(self) -> float:
        """The exact per cent of the points: it is rounded where it is shown, and nothing is computed with that.

        Points are hundredths, so that the same per cent is the same to the last bit.
        """
        worth = hundredths(self.worth)
        return 100 * hundredths(self.points or 0.0) / worth if worth else 0.0

    @property
    def words(self) -> str:
        """The points and the per cent: `18 / 30 = 60 %`."""
        if self.points is None:
            return f"open / {number(self.worth)}"
        return f"{number(self.points)} / {number(self.worth)} = {number(self.percent)} %"


class GradedAssignment(msgspec.Struct, frozen=True):
    """An assignment with the scores of its gradebook, and all who are in that, by id."""

    assignment: CourseAssignment
    folder: Path
    students: dict[str, StudentInfo]
    scores: dict[str, Score]
    notes: tuple[str, ...] = ()


class TermPart(msgspec.Struct, frozen=True):
    """One assignment in a student's total: the exact `percent` that count of it, its `weight`, and why.

    `share` are the per cent of the total that come from it; those of all parts add up to it.
    """

    assignment: str
    score: Score | None
    percent: float | None
    weight: float
    share: float = 0.0
    why: str = ""

    @property
    def words(self) -> str:
        """The part as a student reads it: `week1 18 / 30 = 60 %, weight 1: 20`."""
        earned = f"{self.assignment} {self.score.words}" if self.score else self.assignment
        counts = f"weight {number(self.weight)}: {number(self.share)}"
        is_counted = self.weight and self.percent is not None
        return ", ".join(filter(None, (earned, self.why, counts if is_counted else "")))


class TermRow(msgspec.Struct, frozen=True):
    """A student's term: the total in per cent, or None where it is open, its letter, and what it is made of."""

    student: StudentInfo
    parts: tuple[TermPart, ...]
    total: float | None
    letter: str = ""
    why: str = ""

    @property
    def is_provisional(self) -> bool:
        """Whether points of it are held until a person has looked at a file."""
        return any(part.score is not None and part.score.provisional for part in self.parts)

    @property
    def words(self) -> str:
        """One line that explains the total."""
        end = f"open: {self.why}" if self.total is None else f"{number(self.total)} %{self.why}"
        letter = f", {self.letter}" if self.letter else ""
        return f"{'; '.join(part.words for part in self.parts)}. Total: {end}{letter}"


class Term(msgspec.Struct, frozen=True):
    """The assignments in the order of the course, a row for each student, and what a person should know."""

    assignments: tuple[CourseAssignment, ...]
    rows: tuple[TermRow, ...]
    notes: tuple[str, ...]


def read_graded(folder: Path, course: Course) -> GradedAssignment:
    """The scores of one gradebook; raises SubmissionError where it is that of no assignment of the course."""
    with Gradebook.open(folder) as book:
        refuse_other_course(book, course)
        name = book.facts.assignment
        assignment = next((a for a in course.assignments if a.id == name), None)
        if assignment is None:
            which = (
                f"of the assignment {name}, which assignments.toml has no more"
                if name
                else ("of no assignment; `grade regrade` with --assignment says of which one it is")
            )
            raise SubmissionError(f"{folder} is the gradebook {which}.")
        notes = [book.unfinished] if book.unfinished else []
        entries = {entry.student.id: entry for entry in book.entries()}
        graded = set(book.exercises)
    if graded != set(assignment.exercises):
        notes.append(
            f"{folder} was graded with other exercises than {name} has now: run `grade regrade {folder}`."
        )
    return GradedAssignment(
        assignment,
        folder,
        {student: entry.student for student, entry in entries.items()},
        {student: _score(entry, assignment) for student, entry in entries.items()},
        tuple(notes),
    )


def _score(entry: Entry, assignment: CourseAssignment) -> Score:
    """The points of an assignment, and what it is worth without its extra credit."""
    exercises = entry.result.exercises
    open_ones = [exercise for exercise in exercises if exercise.status is Status.UNJUDGED]
    faults, waiting = (
        ", ".join(e.name for e in open_ones if e.waiting is is_waiting)
        for is_waiting in (False, True)
    )
    why = [f"could not be judged, for a fault of the grader ({faults})"] if faults else []
    why += [f"is not judged yet ({waiting})"] if waiting else []
    return Score(
        None if open_ones else rounded(math.fsum(exercise.score for exercise in exercises)),
        rounded(math.fsum(e.max_score for e in exercises if e.name not in assignment.extra_credit)),
        any(exercise.provisional for exercise in exercises),
        " and ".join(why),
    )


def add_up(graded: Sequence[GradedAssignment], course: Course) -> Term:
    """Add up gradebooks; raises SubmissionError where two are of the same assignment."""
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
    if lacking := [a.id for a in course.assignments if a.id not in of_ids]:
        notes.append(f"No gradebook of {listed(lacking)} was named: the total is of the others.")
    notes += people.notes()
    notes += [
        f"[[term.excused]] names {excused.student!r}, who is in none of these gradebooks."
        for excused in course.term.excused
        if people.person(excused.student) not in people.ids
    ]
    if held := [row.student.id for row in rows if row.is_provisional]:
        notes.append(
            f"Points of {listed(held, _MOST_NAMES)} are provisional, for odd code in a file: `grade show` says "
            "what is odd, `grade adjust --release` lets them count."
        )
    return Term(tuple(gradebook.assignment for gradebook in ordered), rows, tuple(notes))


class _People:
    """Who is in which gradebook, under which ids."""

    def __init__(self, graded: Sequence[GradedAssignment], rules: TermRules) -> None:
        self._graded, self._rules = graded, rules
        self._first = {other: group[0] for group in rules.same for other in group}
        ids = {self.person(student) for gradebook in graded for student in gradebook.students}
        self.ids = sorted(ids)

    def person(self, student: str) -> str:
        """The id under which a student stands here."""
        return self._first.get(student, student)

    def ids_in(self, person: str, graded: GradedAssignment) -> list[str]:
        """The ids that a gradebook has for a person."""
        group = next((group for group in self._rules.same if group[0] == person), (person,))
        return [student for student in group if student in graded.students]

    def info(self, person: str) -> StudentInfo:
        """What the newest gradebook that has the person knows."""
        for gradebook in reversed(self._graded):
            for student in self.ids_in(person, gradebook):
                return msgspec.structs.replace(gradebook.students[student], id=person)
        raise KeyError(person)

    def notes(self) -> Iterator[str]:
        """Sentences on students who are missing somewhere, and on ids that may be one person."""
        for gradebook in self._graded:
            missing = [p for p in self.ids if not self.ids_in(p, gradebook)]
            if missing:
                verb = "who is" if len(missing) == 1 else "who are"
                name, people = gradebook.assignment.id, listed(missing, _MOST_NAMES)
                yield (
                    f"{name} ({gradebook.folder}) has no {people}, {verb} in others: grade it with the same "
                    '--roster, excuse them with [[term.excused]], or write missing = "zero" under [term].'
                )
        yield from self._doubles()

    def _doubles(self) -> Iterator[str]:
        """Ids that share an address or another system's id, or a name and no gradebook."""
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
    person: str, graded: Sequence[GradedAssignment], people: _People, rules: TermRules
) -> TermRow:
    """A student's term: parts are replaced, then dropped, then weighed; it is open where a part is."""
    excused = {e.assignment: e.reason for e in rules.excused if people.person(e.student) == person}
    parts = [_part(person, gradebook, people, rules, excused) for gradebook in graded]
    open_ones = [p for p in parts if p.percent is None and p.weight]
    info = people.info(person)
    if open_ones:
        why = ", ".join(f"{part.assignment} {part.why}" for part in open_ones)
        return TermRow(info, tuple(parts), None, why=why)
    parts = _dropped(_replaced(parts, graded), graded, rules.drop_lowest)
    if not any(part.weight for part in parts):
        return TermRow(info, tuple(parts), None, why="no assignment counts")
    parts, total = _weighed(parts)
    why = ""
    if total > rules.at_most:
        total, why = rules.at_most, f", at most, of {number(total)} %"
    reached = [(least, letter) for letter, least in rules.cuts.items() if total >= least]
    return TermRow(info, tuple(parts), total, max(reached)[1] if reached else "", why)


def _part(
    person: str,
    graded: GradedAssignment,
    people: _People,
    rules: TermRules,
    excused: Mapping[str, str],
) -> TermPart:
    """What an assignment is for a student, before others replace it or it is dropped."""
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
    if score.points is None:
        return TermPart(name, score, None, weight, why=score.why)
    if score.percent > assignment.at_most:
        most = f"at most {number(assignment.at_most)} % count"
        return TermPart(name, score, assignment.at_most, weight, why=most)
    return TermPart(name, score, score.percent, weight)


def _replaced(parts: list[TermPart], graded: Sequence[GradedAssignment]) -> list[TermPart]:
    """The parts, each with the per cent of the best assignment that replaces it, if that is higher."""
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
    """The parts without the weight of the lowest; of equal ones the heavier goes, and one always stays."""
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
    """The parts with their shares, in hundredths that add up to the total, and the total.

    Each is rounded down, and the hundredths that are left go to those with the largest rests.
    """
    weights = math.fsum(part.weight for part in parts)
    exact = [100 * (part.percent or 0.0) * part.weight / weights for part in parts]
    # 33.335 is a little less in binary.
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
    """How many students there are, the mean of the totals, and how many of these are open."""
    totals = [row.total for row in term.rows if row.total is not None]
    words = counted(len(term.rows), "student")
    if totals:
        words += f", mean {number(math.fsum(totals) / len(totals))} %"
    still_open = len(term.rows) - len(totals)
    return words + (f", {counted(still_open, 'total')} open" if still_open else "")
