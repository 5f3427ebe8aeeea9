"""Answers from the gradebook: a submission, a student's standing, the queue.

The structs are the JSON of the routes, and the schemas of docs/openapi.json. Answers to students pass
`disclosed`; answers to staff do not.
"""

from __future__ import annotations

import datetime
import math
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from grader.course.assignments import CourseAssignment
from grader.course.manifest import Course, Exercise
from grader.exports.disclosure import disclosed, disclosed_result
from grader.gradebook import Gradebook, drafts, queue
from grader.gradebook.corrections_file import CorrectionsError
from grader.gradebook.facts import ClockChange
from grader.gradebook.policy import Policy, attempts_at, late_words
from grader.gradebook.queue import JobState
from grader.gradebook.review import (
    Attention,
    StudentAttention,
    by_student,
    left_in_the_editor,
)
from grader.gradebook.standing import handed_in, result_of, with_late_days
from grader.gradebook.term import TermRow, TermSoFar
from grader.gradebook.times import moment
from grader.gradebook.work import Work
from grader.judge.scoring import sum_of, with_extra_credit
from grader.results import EXTRA_CREDIT, Entry, ExerciseResult, Result, StudentInfo, SubmissionInfo
from grader.serve.exercise import text_of
from grader.serve.gate import Gate
from grader.serve.roles import Asker
from grader.serve.teams import Teams
from grader.text import listed, utc

Places = Mapping[tuple[int, str], int]
_MAX_LISTED = 50
# The chart of the class shows the last hour in pieces of five minutes.
HOUR, PIECE = 3600.0, 300.0


class ExerciseState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of an exercise in a submission; `place` is its place in the queue, from 1, while it waits."""

    state: JobState
    place: int = 0


class SubmissionAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A submission; `result` has the exercises that are judged so far, as students may read them.

    `about` describes each exercise in words: its assignment, and when it is due.
    """

    id: str
    handed_in_at: str
    state: JobState
    exercises: dict[str, ExerciseState]
    problems: dict[str, str] = {}
    about: dict[str, str] = {}
    result: Result | None = None


class ExerciseStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The points and due time of an exercise now; `file` is the SHA-256 of the newest file, empty without one.

    Times are ISO 8601 in UTC, or empty; with an extension, `until` is later than `due`, and `extended` has the
    reason. If another member of the student's team handed the newest file in, `handed_in_by` is this member.
    `draft_at` is when a draft was saved after the newest file, with another text.
    """

    name: str
    title: str
    chapter: str
    status: str
    score: float
    max_score: float
    extra_credit: bool
    attempts: int
    most_attempts: int | None
    due: str
    until: str
    extended: str
    open: bool
    file: str
    assignment: str = ""
    handed_in_by: str = ""
    handed_in_at: str = ""
    draft_at: str = ""


class AssignmentStanding(msgspec.Struct, frozen=True, kw_only=True):
    """An assignment as a student has it; its `state` is `upcoming`, `open`, or `past` its due time.

    Times are as in `ExerciseStanding`; `seconds_left` is None without an end, or after it. In an assignment for
    `teams`, `mates` are the others in the student's team. `counts` says how it counts in the term, and `late`
    what lateness costs.
    """

    id: str
    title: str
    state: str
    opens: str
    due: str
    until: str
    seconds_left: int | None
    exam: bool
    teams: bool
    mates: tuple[str, ...]
    score: float
    max_score: float
    counts: str = ""
    late: str = ""


class TermStanding(msgspec.Struct, frozen=True):
    """A student's total of a term so far, in per cent, with its letter.

    While the total is open, it is None, and `why` is the reason. It is `provisional` if it has held points.
    """

    total: float | None
    letter: str
    why: str
    provisional: bool


class OwnStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A student's own standing.

    In a term it has the assignments and the total so far; `late_days` is the budget of the term.
    """

    student: str
    name: str
    course: str
    title: str
    timezone: str
    score: float
    max_score: float
    most_submissions: int
    cool_down_seconds: float
    exercises: tuple[ExerciseStanding, ...]
    submissions: tuple[SubmissionAnswer, ...]
    assignments: tuple[AssignmentStanding, ...] = ()
    term: TermStanding | None = None
    late_days: int = 0
    late_days_left: int = 0


class Running(msgspec.Struct, frozen=True):
    """A job that is being judged."""

    student: str
    exercise: str
    seconds: float
    regrade: bool


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The queue and the judges, for staff; waits are of the last hour, None if nothing ended.

    `clock` lists the times when the machine's clock was set; times of earlier submissions stay as they were.
    """

    paused: bool
    judges: int
    fault: str
    waiting: int
    regrades: int
    running: tuple[Running, ...]
    accepted_last_hour: int
    judged_last_hour: int
    median_wait_seconds: float | None
    longest_wait_seconds: float | None
    median_judging_seconds: float | None
    clock: tuple[ClockChange, ...]


class ClassSubmission(msgspec.Struct, frozen=True):
    """A submission in the list of the newest ones, for staff."""

    id: str
    student: str
    name: str
    handed_in_at: str
    exercises: dict[str, JobState]


class DraftVersion(msgspec.Struct, frozen=True):
    """A version of a draft by its number, and when it was saved; number 0 is the newest file handed in.

    `saved_words` is this time as the pages write it. If another member of the team handed it in, `by` is this
    member.
    """

    number: int
    saved_at: str
    saved_words: str
    by: str = ""


class DraftAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A student's file for an exercise, as the page shows it, and its earlier versions, newest first.

    Before the first draft, `revision` is 0, and the source is the newest file handed in, else the stub.
    `saved_words` is the time of the draft as the pages write it.
    """

    exercise: str
    file: str
    source: str
    stub: str
    revision: int
    saved_at: str
    saved_words: str
    versions: tuple[DraftVersion, ...]


class DraftSaved(msgspec.Struct, frozen=True):
    """A draft that was saved; `saved_words` is the time as the pages write it."""

    revision: int
    saved_at: str
    saved_words: str


class VersionAnswer(msgspec.Struct, frozen=True):
    """The text of a version of a draft."""

    source: str


class PracticeAnswer(msgspec.Struct, frozen=True):
    """A judged practice run: its result, and the findings of `grade run` as a piece of a page."""

    exercise: ExerciseResult
    page: str


class Views:
    """Answers from an open gradebook; call each method in the thread of that gradebook."""

    def __init__(
        self, book: Gradebook, course: Course, students: Iterable[StudentInfo] = ()
    ) -> None:
        self.book = book
        self._course, self._info = course, course.info()
        self._gate, self._teams = Gate(course), Teams(course, students)

    def own(self, student: StudentInfo, id_: str) -> queue.Submission | None:
        """Return the submission with this id if it is this student's, else None."""
        handed = queue.submission(self.book, id_)
        return handed if handed is not None and handed.student == student.id else None

    def submission(
        self, handed: queue.Submission, places: Places, *, brief: bool = False
    ) -> SubmissionAnswer:
        """Return a submission with its places in the queue, and with its result unless `brief`."""
        states = queue.states_of(self.book, handed.attempt)
        return SubmissionAnswer(
            id=handed.id,
            handed_in_at=utc(handed.accepted_at),
            state=_state_of(states.values()),
            exercises={
                name: ExerciseState(
                    state,
                    places.get((handed.attempt, name), 0) if state is JobState.WAITING else 0,
                )
                for name, state in states.items()
            },
            result=None if brief else self._result(handed),
        )

    def _result(self, handed: queue.Submission) -> Result | None:
        """Return the result so far, as students may read it; None before the first verdict."""
        verdicts = self.book.work(StudentInfo(id=handed.student)).verdicts
        judged = [
            verdict
            for exercise in self._course.exercises
            if (verdict := verdicts.get(exercise.id, {}).get(handed.attempt)) is not None
        ]
        if not judged:
            return None
        results = (self._gate.hide_hints(verdict.result) for verdict in judged)
        exercises = with_extra_credit(results, self._course.extra_credit)
        submission = SubmissionInfo(handed.student, handed.id)
        result = disclosed_result(result_of(self._info, submission, exercises, judged))
        # Students do not get the seed of the hidden tests.
        return msgspec.structs.replace(result, seed=0)

    def entry(self, student: StudentInfo) -> Entry | None:
        """Return a student's entry as the student may read it, without assignments that are not open yet."""
        return self._readable(self.book.entry_of(student.id))

    def _readable(self, entry: Entry | None) -> Entry | None:
        if entry is None:
            return None
        exercises = [e for e in entry.result.exercises if self._gate.exists(e.name)]
        return disclosed(with_exercises(entry, exercises))

    def standing(self, student: StudentInfo, places: Places) -> OwnStanding:
        """A student's own standing."""
        return self.home(student, places)[0]

    def home(self, student: StudentInfo, places: Places) -> tuple[OwnStanding, Entry | None]:
        """Return a student's own standing, and the entry as the student may read it."""
        whole, work = self.book.entry_of(student.id), self.book.work(student)
        entry = self._readable(whole)
        policy = self.book.policy
        open_ones = queue.open_exercises(self.book, student.id)
        by_mates = queue.handed_in_by(self.book, student.id)
        in_editor = drafts.drafts_of(self.book, student.id)
        rules = policy.rules
        results = {} if entry is None else {e.name: e for e in entry.result.exercises}
        exercises = []
        for exercise in self._course.exercises:
            if (result := results.get(exercise.id)) is None:
                continue
            assignment, sources = self._gate.assignment(exercise.id), work.sources(exercise.id)
            tried = {f.source for f in attempts_at(handed_in(work, self.book.rules(), exercise.id))}
            deadline = policy.deadline(student, exercise.id)
            due, until = _times(policy, student, exercise.id)
            newest = sources[-1][0] if sources else None
            exercises.append(
                ExerciseStanding(
                    name=exercise.id,
                    title=exercise.title,
                    chapter=exercise.chapter,
                    status=result.status.value,
                    score=result.score,
                    max_score=result.max_score,
                    extra_credit=result.extra_credit,
                    attempts=len(tried),
                    most_attempts=policy.rules_of(exercise.id).max_attempts,
                    due=due,
                    until=until,
                    extended=deadline.extension.reason if deadline and deadline.extension else "",
                    open=exercise.id in open_ones,
                    file=sources[-1][1] if sources else "",
                    assignment="" if assignment is None else assignment.id,
                    handed_in_by="" if newest is None else self._name(by_mates.get(newest.id, "")),
                    handed_in_at="" if newest is None else newest.submitted_at,
                    draft_at=self._left(work, exercise, in_editor.get(exercise.id)),
                )
            )
        handed = queue.submissions_of(self.book, student.id, _MAX_LISTED)
        row = self._term(whole)
        counts = {} if row is None else {part.assignment: part.words for part in row.parts}
        standing = OwnStanding(
            student=student.id,
            name=student.name,
            course=self._info.name,
            title=self._course.title,
            timezone=rules.timezone,
            score=entry.result.score if entry is not None else 0.0,
            max_score=entry.result.max_score if entry is not None else 0.0,
            most_submissions=rules.most_in_a_day,
            cool_down_seconds=rules.cool_down.total_seconds(),
            exercises=tuple(exercises),
            submissions=tuple(self.submission(h, places, brief=True) for h in handed),
            assignments=tuple(
                self._assignment(
                    student, policy, assignment, results, counts.get(assignment.id, "")
                )
                for assignment in self._course.assignments
                if any(exercise.id in assignment.exercises for exercise in self._course.exercises)
            ),
            term=term_standing(row),
            late_days=rules.late_days,
            late_days_left=with_late_days(work, self.book.rules()).policy.late_days_left,
        )
        return standing, entry

    def assignment(self, student: StudentInfo, exercise: str) -> AssignmentStanding | None:
        """Return the assignment of an exercise, without points; None if the exercise is in no assignment."""
        if (assignment := self._gate.assignment(exercise)) is None:
            return None
        return self._assignment(student, self.book.policy, assignment, {}, exercise=exercise)

    def term(self, student: StudentInfo) -> TermRow | None:
        """Return a student's term so far; None if the server has no assignments, or grades only one of them."""
        return self._term(self.book.entry_of(student.id))

    def _term(self, entry: Entry | None) -> TermRow | None:
        if entry is None or not self._gate.is_term:
            return None
        now = datetime.datetime.now(datetime.UTC)
        return TermSoFar(self.book, self._course, now).of(entry)

    def _assignment(
        self,
        student: StudentInfo,
        policy: Policy,
        assignment: CourseAssignment,
        results: Mapping[str, ExerciseResult],
        counts: str = "",
        exercise: str = "",
    ) -> AssignmentStanding:
        """Return an assignment with the points of these results; times are of one `exercise`, or the latest."""
        names = [exercise] if exercise else assignment.exercises
        due, until = (
            max(times) for times in zip(*(_times(policy, student, n) for n in names), strict=True)
        )
        left = (datetime.datetime.fromisoformat(until).timestamp() - time.time()) if until else None
        score, max_score = sum_of([results[n] for n in assignment.exercises if n in results])
        state = "past" if left is not None and left < 0 else "open"
        mates = self._teams.mates(student.id) if assignment.teams else []
        deadline = policy.deadline(student, names[0])
        return AssignmentStanding(
            id=assignment.id,
            title=assignment.title,
            state=state if self._gate.is_open(assignment) else "upcoming",
            opens="" if assignment.opens is None else utc(assignment.opens_at),
            due=due,
            until=until,
            seconds_left=None if left is None or left < 0 else math.floor(left),
            exam=assignment.exam is not None,
            teams=assignment.teams,
            mates=tuple(mate.name or mate.id for mate in mates),
            score=score,
            max_score=max_score,
            counts=counts,
            late="" if deadline is None or assignment.exam else late_words(deadline.rules),
        )

    def by_mate(self, student: StudentInfo, exercise: str) -> tuple[str, str]:
        """Return which other member of the team handed in the newest file, and when; both empty if none did."""
        sources = self.book.work(student).sources(exercise)
        by_mates = queue.handed_in_by(self.book, student.id)
        if not sources or (mate := by_mates.get(sources[-1][0].id)) is None:
            return "", ""
        return self._name(mate), sources[-1][0].submitted_at

    def about(self, student: StudentInfo, exercises: Iterable[str]) -> dict[str, str]:
        """Describe each exercise: its assignment and due time, for whom a file counts, the cost of lateness.

        Returns nothing while the file of corrections has a mistake, so that hand-ins are answered all the same.
        """
        try:
            rules = self.book.rules()
        except CorrectionsError:
            return {}
        said, work = {}, self.book.work(student)
        policy = with_late_days(work, rules).policy
        for exercise in exercises:
            if (assignment := self.assignment(student, exercise)) is None:
                continue
            until = moment(assignment.until, self.book.policy.rules.timezone)
            extended = " (extended)" if assignment.until != assignment.due else ""
            words = [assignment.title, f"due {until}{extended}" if until else ""]
            words.append(EXTRA_CREDIT if exercise in self._course.extra_credit else "")
            mates = self._counts_for(student, assignment, exercise)
            words.append(f"also for {listed(mates)}" if mates else "")
            words.append(
                "for you alone, since you have no team"
                * (assignment.teams and not assignment.mates)
            )
            words.append(policy.cost(student, exercise, handed_in(work, rules, exercise)))
            said[exercise] = ", ".join(filter(None, words))
        return said

    def _counts_for(
        self, student: StudentInfo, assignment: AssignmentStanding, exercise: str
    ) -> list[str]:
        """Return the names of others in the team for whom a file counts: not after the end of their exam."""
        mates = self._teams.mates(student.id) if assignment.teams else []
        ends = [
            self.book.policy.deadline(mate, exercise) if assignment.exam else None for mate in mates
        ]
        return [
            mate.name or mate.id
            for mate, end in zip(mates, ends, strict=True)
            if end is None or end.until.timestamp() >= time.time()
        ]

    def _name(self, student: str) -> str:
        """Return the name of a student, empty for nobody."""
        info = self.book.student(student) if student else None
        return student if info is None else info.name or student

    def draft(self, student: StudentInfo, exercise: Exercise) -> DraftAnswer:
        """Return a student's file for an exercise: the draft, else the newest file handed in, else the stub."""
        draft = drafts.draft_of(self.book, student.id, exercise.id)
        stub = self._course.stub(exercise).source
        handed = self._handed_in(self.book.work(student), exercise)
        zone, versions = self.book.policy.rules.timezone, []
        for each in drafts.versions_of(self.book, student.id, exercise.id):
            kept = drafts.version_of(self.book, student.id, exercise.id, each.number)
            # The page saves a draft before it hands in: do not list the same text twice.
            if handed is None or text_of(kept or b"") != text_of(handed[1]):
                saved = utc(each.saved_at)
                versions.append(DraftVersion(each.number, saved, moment(saved, zone)))
        if handed is not None:
            by = self.by_mate(student, exercise.id)[0]
            versions.append(DraftVersion(0, handed[0], moment(handed[0], zone), by))
        saved = "" if draft is None else utc(draft.saved_at)
        source = stub if handed is None else handed[1]
        return DraftAnswer(
            exercise=exercise.id,
            file=f"{exercise.id}.py",
            source=text_of(source if draft is None else draft.source),
            stub=text_of(stub),
            revision=0 if draft is None else draft.revision,
            saved_at=saved,
            saved_words=moment(saved, zone),
            versions=tuple(versions),
        )

    def _left(self, work: Work, exercise: Exercise, draft: drafts.Draft | None) -> str:
        """Return when a draft was saved that is newer than the newest file and differs from it; else empty."""
        sources = work.sources(exercise.id)
        saved = "" if draft is None else utc(draft.saved_at)
        # Most drafts were handed in; for those, no file has to be read.
        if draft is None or (sources and saved <= sources[-1][0].submitted_at):
            return ""
        handed = self._handed_in(work, exercise)
        source = self._course.stub(exercise).source if handed is None else handed[1]
        return saved if text_of(draft.source) != text_of(source) else ""

    def version(
        self, student: StudentInfo, exercise: Exercise, number: int
    ) -> VersionAnswer | None:
        """Return a version of a student's draft; None if there is no such number."""
        if number:
            source = drafts.version_of(self.book, student.id, exercise.id, number)
        else:
            handed = self._handed_in(self.book.work(student), exercise)
            source = None if handed is None else handed[1]
        return None if source is None else VersionAnswer(text_of(source))

    def _handed_in(self, work: Work, exercise: Exercise) -> tuple[str, bytes] | None:
        """Return the time and the source of a student's newest file for an exercise."""
        for attempt, _ in reversed(work.sources(exercise.id)):
            file = self.book.files_of(attempt.id).get(exercise.id)
            if file is not None and file.source is not None:
                return attempt.submitted_at, file.source
        return None

    def queue(self, asker: Asker, judges: int, fault: str) -> QueueAnswer:
        """Return the queue and the judges; running jobs only of students that the asker may see."""
        now, reach = time.time(), asker.reach(self.book.students())
        counts, waits = queue.counts(self.book), queue.waits_since(self.book, now - HOUR)
        waited = [max(wait.started_at - wait.queued_at, 0.0) for wait in waits if wait.started_at]
        judged = [wait.ended_at - wait.started_at for wait in waits if wait.started_at]
        return QueueAnswer(
            paused=self.book.facts.is_paused,
            judges=judges,
            fault=fault,
            waiting=counts.waiting,
            regrades=counts.regrades,
            running=tuple(
                Running(
                    job.student, job.exercise, round(max(now - since, 0.0), 1), job.priority > 0
                )
                for job, since in queue.running(self.book)
                if reach is None or job.student in reach
            ),
            accepted_last_hour=len(queue.accepted_between(self.book, now - HOUR, now)),
            judged_last_hour=len(waits),
            median_wait_seconds=_median(waited),
            longest_wait_seconds=round(max(waited), 2) if waited else None,
            median_judging_seconds=_median(judged),
            clock=self.book.facts.clock,
        )

    def newest(self, asker: Asker) -> list[ClassSubmission]:
        """Return the newest submissions of the students that the asker may see."""
        names, reach = self.book.names(), asker.reach(self.book.students())
        return [
            ClassSubmission(
                handed.id,
                handed.student,
                names.get(handed.student, ""),
                utc(handed.accepted_at),
                queue.states_of(self.book, handed.attempt),
            )
            for handed in queue.newest(self.book, _MAX_LISTED, reach)
        ]

    def attention(
        self, asker: Asker, exercises: Collection[str] | None = None
    ) -> list[StudentAttention]:
        """Return the things to look at, by student, for the students that the asker may see.

        With `exercises`, return only things about these.
        """
        reach = asker.reach(self.book.students())
        entries = [
            entry
            for entry in [*self.book.attention(), *self._never_handed_in()]
            if (reach is None or entry.student in reach)
            and (exercises is None or {*entry.exercises} & {*exercises})
        ]
        return by_student(entries, _MAX_LISTED)

    def _never_handed_in(self) -> Iterator[Attention]:
        """Yield an entry for each draft of an exercise that is past due, if its student handed in no file."""
        policy, now = self.book.policy, time.time()
        known = {exercise.id: exercise for exercise in self._course.exercises}
        students = {student.id: student for student in self.book.students()}
        for who, name in drafts.never_handed_in(self.book):
            student, exercise = students.get(who), known.get(name)
            if student is None or exercise is None:
                continue
            deadline = policy.deadline(student, name)
            if deadline is None or deadline.until.timestamp() > now:
                continue
            # Unpack drafts only here: those of a whole class take a second.
            draft = drafts.draft_of(self.book, who, name)
            if saved := self._left(Work(student, (), {}, {}), exercise, draft):
                zone = policy.rules.timezone
                times = moment(saved, zone), moment(utc(deadline.until), zone)
                yield left_in_the_editor(who, name, *times)

    def last_hour(self) -> list[int]:
        """Return the number of submissions in each five minutes of the last hour, oldest first."""
        now, pieces = time.time(), [0] * int(HOUR / PIECE)
        for accepted in queue.accepted_between(self.book, now - HOUR, now):
            ago = math.floor((now - accepted) / PIECE)
            pieces[len(pieces) - 1 - min(ago, len(pieces) - 1)] += 1
        return pieces


def _times(policy: Policy, student: StudentInfo, exercise: str) -> tuple[str, str]:
    """Return when an exercise is due for a student, and until when by an extension; empty if never."""
    if (deadline := policy.deadline(student, exercise)) is None:
        return "", ""
    return utc(deadline.due), utc(deadline.until)


def with_exercises(entry: Entry, exercises: Sequence[ExerciseResult]) -> Entry:
    """Return an entry with only these exercises, and the points of these."""
    result = msgspec.structs.replace(entry.result, exercises=tuple(exercises))
    return with_points_of(msgspec.structs.replace(entry, result=result), exercises)


def so_far(entry: Entry, not_open: Collection[str]) -> Entry:
    """Return an entry with all its exercises, and the points of the ones that have opened."""
    return with_points_of(entry, [e for e in entry.result.exercises if e.name not in not_open])


def with_points_of(entry: Entry, exercises: Sequence[ExerciseResult]) -> Entry:
    """Return an entry with all its exercises, and the points of these."""
    score, max_score = sum_of(exercises)
    result = msgspec.structs.replace(entry.result, score=score, max_score=max_score)
    return msgspec.structs.replace(entry, result=result)


def _state_of(states: Iterable[JobState]) -> JobState:
    """Return the state of a submission: running, waiting or done if any exercise is, in this order."""
    there = set(states)
    for state in (JobState.RUNNING, JobState.WAITING, JobState.DONE):
        if state in there:
            return state
    return JobState.REPLACED


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None


def term_standing(row: TermRow | None) -> TermStanding | None:
    """Return the total of a term so far as the pages and programs read it; None without a term."""
    return None if row is None else TermStanding(row.total, row.letter, row.why, row.is_provisional)
