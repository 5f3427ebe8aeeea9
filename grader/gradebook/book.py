"""Reading a gradebook: students, attempts, files, and what counts for each student at this moment.

The tables are read through `store.py`; what counts of them is computed by `standing.py`, and no table says it.
A gradebook can be read while a grading writes to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import (
    CORRECTIONS_FILE,
    corrections_text,
    read_corrections,
)
from grader.gradebook.policy import Policy
from grader.gradebook.policy_file import NamedPolicy, read_policy
from grader.gradebook.review import Attention, Reason
from grader.gradebook.standing import ClassRules, choices, entry_of
from grader.gradebook.store import FILE, Store, opened
from grader.gradebook.work import KeptRequest, Replaced, Work, work_of
from grader.results import CourseInfo, Entry, ExerciseResult, Result, Status, StudentInfo
from grader.text import nearest


class AssignmentPart(msgspec.Struct, frozen=True):
    """An assignment in the gradebook of a whole course."""

    title: str
    exercises: tuple[str, ...]


class Gradebook:
    """The gradebook of one RESULTS folder; open it with `Gradebook.open`.

    What the tables have as it is, as files and verdicts, is read from its `store`.
    """

    def __init__(self, folder: Path, store: Store, assignment: str = "") -> None:
        self.folder = folder
        self.store = store
        self._rules: tuple[object, ClassRules] | None = None
        self._part = self._part_of(assignment) if assignment else None

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, assignment: str | None = None) -> Iterator[Gradebook]:
        """Open the gradebook in a folder to read it, as if it had the exercises of an assignment alone.

        Raises SubmissionError where there is none, or not of this assignment; GraderError if it is damaged or
        was written by a newer grader.
        """
        file = folder / FILE
        if not file.is_file():
            raise SubmissionError(
                f"There is no gradebook in {folder}: name the folder that `grade batch -o` wrote."
            )
        with opened(file, create=False) as store:
            yield cls(folder, store, assignment or "")

    def _part_of(self, assignment: str) -> AssignmentPart | None:
        """The part of a gradebook of the whole course that is an assignment; None where all of it is."""
        own = self.fact("assignment")
        if own == assignment:
            return None
        parts = self.store.json_fact("assignments", dict[str, AssignmentPart]) or {}
        if own:
            raise SubmissionError(
                f"{self.folder} is the gradebook of {own}, and not of {assignment!r}."
            )
        if assignment not in parts:
            raise SubmissionError(
                f"{self.folder} knows no assignment {assignment!r}. {nearest(assignment, parts)} After a "
                "change of assignments.toml `grade regrade` reads it anew."
            )
        return parts[assignment]

    # --- the grading ----------------------------------------------------------------------------

    def fact(self, name: str) -> str:
        """A fact about the whole gradebook, such as `title`; empty where it is not known."""
        return self.store.fact(name)

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of the exercises that count, in the order of the course."""
        names = filter(None, self.fact("exercises").split(","))
        return tuple(n for n in names if self._part is None or n in self._part.exercises)

    @property
    def title(self) -> str:
        """The title of the course, and of the assignment."""
        title = self.fact("title")
        return title if self._part is None else f"{title}: {self._part.title}"

    @property
    def work_title(self) -> str:
        """What students call that which is graded: the title of the assignment, else that of the course."""
        part, own = self._part, self.fact("assignment")
        if part is None and own:
            part = (self.store.json_fact("assignments", dict[str, AssignmentPart]) or {}).get(own)
        return self.fact("title") if part is None else part.title

    @property
    def assigned(self) -> tuple[str, ...]:
        """The exercises that alone are graded; empty where it is the whole course."""
        return tuple(filter(None, self.fact("assigned").split(",")))

    @property
    def course(self) -> CourseInfo:
        """The course of the last grading."""
        return self.store.json_fact("course", CourseInfo) or CourseInfo("", "", "")

    @property
    def revision(self) -> int:
        """The number of the grading that goes on, or of the last one."""
        return int(self.fact("revision") or 0)

    @property
    def unfinished(self) -> str:
        """A warning while a grading goes on or after it was interrupted, else empty."""
        if self.fact("finished") in ("", "yes"):
            return ""
        return (
            f"The last grading of {self.folder} is not at its end: who was not reached yet has no score "
            "here, or is missing. Let it end, or run `grade batch` again."
        )

    def noted(self) -> tuple[Attention, ...]:
        """Entries of the last grading that a person should look at, or has looked at since."""
        return self.store.json_fact("attention", tuple[Attention, ...]) or ()

    def attention(self) -> tuple[Attention, ...]:
        """Entries of the last grading that a person should look at."""
        part = self._part
        return self.unanswered(
            e for e in self.noted() if part is None or {*e.exercise.split(", ")} & {*part.exercises}
        )

    def unanswered(self, entries: Iterable[Attention]) -> tuple[Attention, ...]:
        """The entries without odd code that a person released, or whose points a person set.

        That is about one file: another file of the student is told again.
        """
        held: dict[str, set[str]] = {}
        answered = {
            (correction.student, correction.exercise)
            for correction in self.rules.corrections
            if correction.release or correction.points is not None
        }

        def is_open(entry: Attention, exercise: str) -> bool:
            if (entry.student, exercise) not in answered:
                return True
            if entry.student not in held:
                counts = self.entry_of(entry.student)
                results = counts.result.exercises if counts is not None else ()
                held[entry.student] = {result.name for result in results if result.held}
            return exercise in held[entry.student]

        return tuple(
            entry
            for entry in entries
            if entry.kind is not Reason.FORGER
            or any(is_open(entry, exercise) for exercise in entry.exercise.split(", "))
        )

    def totals_before(self) -> dict[str, float]:
        """The points of the grading before the last one, by student; without those that were not final."""
        if self._part is not None:
            return {}  # they are of all exercises
        return self.store.json_fact("totals before", dict[str, float]) or {}

    def dropped(self) -> dict[str, int]:
        """The number of verdicts on each exercise that the course of the last grading has no more.

        They are kept, and count in no total.
        """
        counts = self.store.verdict_counts()
        return {name: count for name, count in counts.items() if name not in self.exercises}

    # --- rules ----------------------------------------------------------------------------------

    @property
    def rules(self) -> ClassRules:
        """What holds for every student at this moment.

        Raises CorrectionsError where the file of corrections is not in order.
        """
        version = self.store.version, corrections_text(self.folder)
        # They change when another process, or a person, wrote to a file.
        if self._rules is None or self._rules[0] != version:
            rules = ClassRules(
                course=self.course,
                exercises=self.exercises,
                stubs=self.store.json_fact("stubs", dict[str, str]) or {},
                blank=self.blank,
                policy=self.policy,
                has_policy=bool(self.fact("policy")),
                corrections=self._of_files(
                    read_corrections(version[1], self.folder / CORRECTIONS_FILE)
                ),
                unfinished=bool(self.unfinished),
                extra_credit=frozenset(self.fact("extra credit").split(",")),
            )
            self._rules = version, rules
        return self._rules[1]

    def _of_files(self, corrections: tuple[Correction, ...]) -> tuple[Correction, ...]:
        """The corrections, of which one of an earlier grader names a file by its bytes as they came."""
        if not any(made.release or made.marked for made in corrections):
            return corrections
        now = self.store.originals()
        return tuple(
            msgspec.structs.replace(
                made,
                release=now.get(made.release, made.release),
                marked=now.get(made.marked, made.marked),
            )
            for made in corrections
        )

    @property
    def policy(self) -> Policy:
        """The policy of the class, which may have no rules."""
        text = self.fact("policy")
        return read_policy(text, self.chapters) if text else Policy()

    @property
    def named_policy(self) -> NamedPolicy | None:
        """The policy that a person named in the place of the course's, if one did."""
        if not (file := self.fact("policy_file")):
            return None
        text = self.store.json_fact("named policy", str)
        # An earlier grader kept what counts alone.
        return NamedPolicy(file, self.fact("policy") if text is None else text)

    @property
    def chapters(self) -> dict[str, str]:
        """The chapter of each exercise that was graded."""
        blank = self.blank
        exercises = blank.exercises if blank is not None else ()
        return {exercise.name: exercise.chapter for exercise in exercises}

    @property
    def blank(self) -> Result | None:
        """The result of a student who handed in nothing; None before the first grading."""
        return self.store.json_fact("blank", Result)

    def corrections(self) -> tuple[Correction, ...]:
        """Every correction, in the order of the file. Raises CorrectionsError."""
        return self.rules.corrections

    # --- students and attempts ------------------------------------------------------------------

    def attempt_counts(self) -> dict[str, int]:
        """The number of attempts of each student who handed in something."""
        return self.store.attempt_counts()

    def students(self) -> list[StudentInfo]:
        """Every student, by id, also those who handed in nothing."""
        return self.store.students()

    def names(self) -> dict[str, str]:
        """The name of each student, by id; without those who have none, or no other."""
        return {s.id: s.name for s in self.students() if s.name not in ("", s.id)}

    def absent(self) -> list[StudentInfo]:
        """The students of the roster who handed in nothing."""
        counts = self.attempt_counts()
        return [student for student in self.students() if student.id not in counts]

    def work(self, student: StudentInfo) -> Work:
        """All that a student handed in, oldest first, with every verdict."""
        store, id_ = self.store, student.id
        files, verdicts = store.digests_of(id_), store.verdicts_of(id_)
        return work_of(student, store.attempts_of(id_), files, verdicts, store.requests_of(id_))

    def requests(self) -> list[KeptRequest]:
        """The regrade requests on the exercises that count, oldest first."""
        return [r for r in self.store.requests() if r.exercise in self.exercises]

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """The files that an entry was graded from, by exercise."""
        chosen = choices(self.work(entry.student), self.rules)
        files = {
            id_: self.store.files_of(id_)
            for id_ in {choice.attempt.id for choice in chosen.values()}
        }
        return {
            name: source
            for name, choice in chosen.items()
            if choice.source and (source := files[choice.attempt.id][name].source) is not None
        }

    # --- verdicts -------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """What counts for each student, by id, one at a time; also for those who handed in nothing."""
        for student in self.students():
            if (entry := entry_of(self.work(student), self.rules)) is not None:
                yield entry

    def entry_of(self, student: str) -> Entry | None:
        """What counts for a student; None where there is none with this id."""
        info = self.store.student(student)
        return None if info is None else entry_of(self.work(info), self.rules)

    def entry_before(self, student: str, replaced: Sequence[Replaced]) -> Entry | None:
        """What counted for a student before these verdicts were replaced, by the rules of today."""
        info = self.store.student(student)
        if info is None:
            return None
        work = self.work(info)
        numbered = {attempt.number: attempt.id for attempt in work.attempts}
        verdicts = {exercise: dict(judged) for exercise, judged in work.verdicts.items()}
        for verdict in replaced:
            judged, attempt = verdicts[verdict.before.name], numbered[verdict.attempt]
            judged[attempt] = judged[attempt].with_result(verdict.before)
        return entry_of(work._replace(verdicts=verdicts), self.rules)

    def history(self, student: StudentInfo, least: int) -> dict[str, list[ExerciseResult]]:
        """The verdicts on a student's different files for an exercise, oldest first.

        Of those exercises alone of which there are `least` or more.
        """
        work, history = self.work(student), {}
        for exercise in self.exercises:
            first: dict[str, int] = {}
            for attempt, source in work.sources(exercise):
                first.setdefault(source, attempt.id)
            judged = [work.judged_as(exercise, attempt) for attempt in first.values()]
            verdicts = [work.verdicts[exercise][id_] for id_ in judged if id_ is not None]
            results = [v.result for v in verdicts if v.status is not Status.UNJUDGED]
            if len(results) >= least:
                history[exercise] = results
        return history

    def replaced(self) -> Iterator[Replaced]:
        """The verdicts of the present revision that differ from those before it, by student."""
        return self.store.replaced(self.revision)
