"""What was handed in comes into a gradebook: whose it is, which files need a verdict, and how each gets one.

A gradebook is for one course, and every student is in it once: what would break that is refused before anything
is written. Then all that was handed in is kept, and the policy says which attempts have to be judged. For a
batch and a server alike, `Verdicts` decides what happens to a file: it gets the verdict that the same file has,
or the result that needs no judge, or else a judge is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader import submissions
from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.requests import keep_requests
from grader.gradebook.review import (
    Attention,
    attention,
    held,
    nothing_found,
    passed_over,
    stub_after_work,
)
from grader.gradebook.standing import ClassRules, handed_in, needed
from grader.gradebook.verdict_key import VerdictKey, verdict_key
from grader.gradebook.work import Attempt, Verdict, Work
from grader.grading import environment_of, settle, unjudged, version_of, with_note
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Environment, ExerciseResult, Outcome, StudentInfo
from grader.submissions import ClassDownload, ExerciseFile, State, read_attempt
from grader.submissions.odd_code import ordinary_in

# How a request came that was handed in beside the work.
_FILE = "a file"


# --- refusals -----------------------------------------------------------------------------------------


def refuse_other_course(book: Gradebook, course: Course) -> None:
    """Raise SubmissionError for the gradebook of another course; the points of both would be added up."""
    name = book.facts.course.name
    if name and name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def refuse_other_ids(book: Gradebook, download: ClassDownload) -> None:
    """Raise SubmissionError if most of a class are there under other ids, as without the earlier roster.

    They would be in the gradebook twice. A few who seem to be may be others, with a like number.
    """
    counts = book.attempt_counts()
    registered = {student.id: student for student in book.students() if student.id in counts}
    advice = "grade with the same --roster as before, or into a new folder."
    _refuse_known(registered, _students(download), str(book.folder), advice)


def refuse_two_ids(downloads: Sequence[ClassDownload]) -> None:
    """Raise SubmissionError if most students of a download are in an earlier one under other ids."""
    earlier: dict[str, StudentInfo] = {}
    for download in downloads:
        students = _students(download)
        advice = "grade with a --roster that has both ids."
        _refuse_known(earlier, students, "another of these downloads", advice)
        earlier |= students


def refuse_other_roster(
    registered: Iterable[StudentInfo], roster: Iterable[StudentInfo], where: str
) -> None:
    """Raise SubmissionError if a roster has most of the `registered` students under other ids."""
    before = {student.id: student for student in registered}
    students = {student.id: student for student in roster}
    advice = "use the same --roster as before, or a new folder."
    _refuse_known(before, students, where, advice)


def _refuse_known(
    registered: Mapping[str, StudentInfo],
    students: Mapping[str, StudentInfo],
    where: str,
    advice: str,
) -> None:
    """Raise SubmissionError if most students are new by id, and most of them are known by another id."""
    new = {id_: student for id_, student in students.items() if id_ not in registered}
    if not registered or 2 * len(new) <= len(students):
        return
    ids = {name: student.id for student in registered.values() for name in _names_of(student)}
    other_ids = {id_: ids[id_] for id_ in new if id_ in ids}
    for id_, student in new.items():
        for other in _names_of(student) & registered.keys():
            other_ids[id_] = other
    if 2 * len(other_ids) > len(students):
        id_, other = next(iter(other_ids.items()))
        raise SubmissionError(
            f"{len(other_ids)} of these {len(students)} students are in {where} under another id, such "
            f"as {id_} under {other}, and would be there twice: {advice}"
        )


def _students(download: ClassDownload) -> dict[str, StudentInfo]:
    return {attempt.student.id: attempt.student for attempt in download.attempts}


def _names_of(student: StudentInfo) -> set[str]:
    """Return the names under which another list may have a student."""
    return {*student.other_ids.values(), student.email, student.name} - {""}


# --- what to judge ------------------------------------------------------------------------------------


class ToJudge(NamedTuple):
    """The files of one student that need a verdict, and what to look at among files that can have none.

    `is_undated` where one of several files counts for being found last, for want of a time; `is_older` where
    the gradebook has a newer attempt than the download.
    """

    student: str
    files: list[tuple[Attempt, Exercise, ExerciseFile]]
    attention: tuple[Attention, ...] = ()
    is_undated: bool = False
    is_older: bool = False


class Asking:
    """Finds the files of each student that need a verdict, for the exercises that are graded."""

    def __init__(self, book: Gradebook, course: Course, exercises: Sequence[Exercise]) -> None:
        self._book, self._course, self._exercises = book, course, exercises

    def handed_in(self, attempts: Sequence[submissions.Attempt], *, all_attempts: bool) -> ToJudge:
        """Keep what one student handed in; returns which of these and of earlier files may count.

        Within a transaction.
        """
        student = attempts[0].student
        read: dict[int, dict[str, ExerciseFile]] = {}
        asking: set[int] = set()
        for attempt in attempts:
            submission = read_attempt(attempt, self._course)
            id_ = self._book.register(attempt, submission).id
            read[id_] = submission.files
            asking |= {id_} if submission.requests else set()
            at = attempt.submitted_at
            keep_requests(self._book, student.id, submission.requests, at, _FILE)
        work = self._book.work(student)
        wanted = read.keys() if all_attempts else ()
        files = self._files(work, {e.id: wanted for e in self._exercises}, read)
        newest = next(attempt for attempt in reversed(work.attempts) if attempt.id in read)
        without = {name: file for name, file in read[newest.id].items() if file.source is None}
        emptied = [
            stub_after_work(student.id, exercise)
            for exercise in self._exercises
            if (file := read[newest.id].get(exercise.id)) is not None
            and is_stub_after_work(self._course, exercise, file, work, self._book.rules())
        ]
        return ToJudge(
            student.id,
            files,
            (*self._attention(newest, files, without, asks=newest.id in asking), *emptied),
            is_undated=work.has_versions and not work.is_dated,
            is_older=newest != work.attempts[-1],
        )

    def kept(self, student: StudentInfo) -> ToJudge:
        """Return which of a student's files in the gradebook were judged or may count."""
        work = self._book.work(student)
        judged = {e.id: work.verdicts.get(e.id, {}).keys() for e in self._exercises}
        return ToJudge(student.id, self._files(work, judged, {}))

    def _files(
        self,
        work: Work,
        wanted: Mapping[str, Collection[int]],
        read: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> list[tuple[Attempt, Exercise, ExerciseFile]]:
        """Return the files of the wanted attempts and of all that may count; without any, the newest."""
        pairs: list[tuple[Attempt, Exercise]] = []
        for exercise in self._exercises:
            ids = {attempt.id for attempt in needed(work, self._book.rules(), exercise.id)}
            ids.update(wanted[exercise.id])
            with_file = [attempt for attempt, _ in work.sources(exercise.id) if attempt.id in ids]
            pairs += [(attempt, exercise) for attempt in with_file or [work.attempts[-1]]]
        # What was read just now says more of why there is no file, and was looked at.
        files_of = {
            id_: {**self._book.files_of(id_), **read.get(id_, {})}
            for id_ in {attempt.id for attempt, _ in pairs}
        }
        return [
            (attempt, exercise, files_of[attempt.id].get(exercise.id) or _missing(exercise))
            for attempt, exercise in sorted(pairs, key=lambda pair: pair[0].number)
        ]

    def _attention(
        self,
        newest: Attempt,
        asked: Sequence[tuple[Attempt, Exercise, ExerciseFile]],
        without: Mapping[str, ExerciseFile],
        *,
        asks: bool,
    ) -> tuple[Attention, ...]:
        """Return what to look at in the newest attempt here, which is `without` files for these exercises.

        An attempt that only `asks` for a regrade needs none.
        """
        entries: list[Attention] = []
        if len(without) == len(self._course.exercises) and not asks:
            entries += nothing_found(newest.student, self._exercises, without)
        answered = {exercise.id for attempt, exercise, _ in asked if attempt.id == newest.id}
        for exercise in self._exercises:
            if exercise.id in without and exercise.id not in answered:
                entries += passed_over(newest.student, exercise, without[exercise.id])
        return tuple(entries)


def is_stub_after_work(
    course: Course, exercise: Exercise, file: ExerciseFile, work: Work, rules: ClassRules
) -> bool:
    """Whether the newest file of an exercise is the stub or empty, and an earlier attempt has work."""
    if len(work.sources(exercise.id)) < 2:
        return False
    if file.state(course.stub(exercise)) not in (State.UNTOUCHED, State.EMPTY):
        return False
    *earlier, _ = handed_in(work, rules, exercise.id)
    return any(not each.untouched for each in earlier)


def _missing(exercise: Exercise) -> ExerciseFile:
    return ExerciseFile(None, f"{exercise.file} is missing: hand it in under this name.")


# --- which result a file gets -------------------------------------------------------------------------


class Question:
    """A file that needs a verdict, the key of that verdict, and why its points are held, if they are."""

    def __init__(
        self,
        course: Course,
        options: GradingOptions,
        exercise: Exercise,
        file: ExerciseFile,
        key: VerdictKey,
        held: tuple[str, ...],
    ) -> None:
        self._course, self._options = course, options
        self.exercise, self.file, self.key, self.held = exercise, file, key, held

    @functools.cached_property
    def settled(self) -> ExerciseResult | None:
        """The result of a file that needs no judge: missing, untouched, unreadable."""
        return settle(self._course, self.exercise, self.file, self._options)

    def answered_by(self, result: ExerciseResult) -> ExerciseResult:
        """Return the result as it is kept for this file: odd code holds the points of any file but the stub.

        Both what is found in the source and what happened as it ran.
        """
        held = () if result.untouched else tuple(dict.fromkeys((*self.held, *result.held)))
        return with_note(msgspec.structs.replace(result, held=held), self.file)


class Questions:
    """Asks about the files of a course; any thread may call it.

    A suite is run for each of the `exercises`.
    """

    def __init__(self, course: Course, options: GradingOptions) -> None:
        self._course, self._options = course, options
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._stubs = {e.id: course.stub(e).source for e in course.exercises}
        self._ordinary = {e.id: ordinary_in(e, self._stubs[e.id]) for e in course.exercises}
        self.exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]

    def about(
        self,
        exercise: Exercise,
        file: ExerciseFile,
        found: tuple[VerdictKey, tuple[str, ...]] | None = None,
    ) -> Question:
        """Ask about a file, which needs neither the suite nor the gradebook.

        The key and what holds the points are the `found` ones if it was asked about before: that saves time.
        """
        if found is not None:
            question = Question(self._course, self._options, exercise, file, *found)
            # It waited for a judge.
            question.settled = None
            return question
        key = verdict_key(exercise, file, self._digests[exercise.id], self._options)
        return Question(
            self._course, self._options, exercise, file, key, self._held(exercise, file)
        )

    def _held(self, exercise: Exercise, file: ExerciseFile) -> tuple[str, ...]:
        # Of a class that has not begun most files are the stub, and need no look.
        if file.source is None or file.source == self._stubs[exercise.id]:
            return ()
        return held(file.source, self._ordinary[exercise.id])


class Kept(NamedTuple):
    """The result that was kept for a file, and what to look at; `is_known` if it was the verdict on another."""

    result: ExerciseResult
    attention: list[Attention]
    is_known: bool = False


class Verdicts:
    """Gives files their results and keeps them in a gradebook, for one grading or one server.

    Called within a transaction if other writes belong to it.
    """

    def __init__(self, book: Gradebook, course: Course, options: GradingOptions) -> None:
        self._book, self._course, self._options = book, course, options
        self._here = environment_of("", ())
        self._torch = version_of("torch")

    def without_judge(
        self, attempt: Attempt, question: Question, judged_now: Container[str] = ()
    ) -> Kept | None:
        """Keep the result of a file that needs no judge; None if a judge has to be asked.

        It is the verdict with the same key, on the file of any student, if it is final or one of those
        `judged_now`; else the result of a file that is settled without a judge.
        """
        key = question.key.key
        verdict = self._book.tables.verdict(key)
        if verdict is not None and (key in judged_now or _is_final(verdict)):
            return self._keep(attempt, question, verdict.result, verdict.environment, is_known=True)
        if question.settled is not None:
            return self._keep(attempt, question, question.settled, self._here)
        return None

    def judged(self, attempt: Attempt, question: Question, judged: Judgment | JudgeFault) -> Kept:
        """Keep the verdict of a judge; after a fault the file is unjudged, which a later grading makes good."""
        if isinstance(judged, Judgment):
            result, walls = judged.result, judged.walls
        else:
            fault = judged.message
            result, walls = unjudged(self._course, question.exercise, self._options, fault), ()
        return self._keep(attempt, question, result, environment_of(self._torch, walls))

    def has_verdict(self, attempt: Attempt, question: Question) -> bool:
        """Whether this attempt has the verdict with the key of the question."""
        return self._book.tables.has_verdict(attempt.id, question.exercise.id, question.key.key)

    def wait(self, attempt: Attempt, question: Question, not_yet: ExerciseResult) -> None:
        """Keep that a verdict is waited for; one that is there stays until then."""
        key, seed = question.key, self._options.seed
        self._book.keep(attempt, key, seed, not_yet, self._here, waited_for=True)

    def _keep(
        self,
        attempt: Attempt,
        question: Question,
        result: ExerciseResult,
        environment: Environment,
        *,
        is_known: bool = False,
    ) -> Kept:
        """Keep a result for a file, with what is odd in that file; a known one only if the attempt lacks it."""
        kept = question.answered_by(result)
        # What is odd may be known only since then.
        if not (is_known and kept == result and self.has_verdict(attempt, question)):
            self._book.keep(attempt, question.key, self._options.seed, kept, environment)
        entries = attention(attempt.student, question.exercise, question.file, kept)
        return Kept(kept, entries, is_known)


def _is_final(verdict: Verdict) -> bool:
    """Whether the verdict holds for the same file, too: time runs out on a busy machine, and is tried again."""
    return all(test.outcome is not Outcome.TIMEOUT for test in verdict.result.tests)
