"""Intake of submissions into a gradebook: keep attempts, choose the files to judge, and keep their results.

A gradebook is for one course, and has every student once. A grading that would break this is refused before
anything is written. All attempts are kept, and the policy decides which of them are judged. For both a batch
and a server, `Verdicts` decides how a file gets its result: from the verdict on an equal file, without a judge,
or from a judge.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader import submissions
from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.policy import CountedAttempt
from grader.gradebook.requests import keep_requests
from grader.gradebook.review import (
    OF_DOWNLOADS,
    Attention,
    Reason,
    attention,
    nothing_found,
    passed_over,
    stub_after_work,
    without_code,
)
from grader.gradebook.standing import ClassRules, handed_in, needed, with_late_days
from grader.gradebook.verdict_key import VerdictKey, source_digest, verdict_key
from grader.gradebook.work import SERVER, Attempt, Verdict, Work
from grader.grading import environment_of, settle, unjudged, version_of, with_note
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Environment, ExerciseResult, Outcome, StudentInfo
from grader.submissions import ClassDownload, ExerciseFile, State, read_attempt
from grader.submissions.odd_code import ordinary_in, reasons
from grader.submissions.platforms import Platform
from grader.submissions.roster import Finder, Roster
from grader.text import listed_names, names_differ

# The origin of a request in a file beside the work.
_FILE = "a file"


# --- refusals -----------------------------------------------------------------------------------------


def refuse_other_course(book: Gradebook, course: Course) -> None:
    """Raise SubmissionError if the gradebook belongs to another course: points of both would add up."""
    name = book.facts.course.name
    if name and name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def refuse_other_ids(book: Gradebook, download: ClassDownload) -> None:
    """Raise SubmissionError if most of a class are in the gradebook under other ids or names.

    This happens if the earlier roster is omitted, or with Moodle's numbers, which are new in each assignment,
    and would put students into the gradebook twice. A few matches are allowed: they may be other people with
    equal numbers. `notes_on_known` names them.
    """
    advice = (
        "grade with the same --roster as before, or, if there was none, with one into a new folder."
    )
    _refuse_known(_handed_in(book), _students(download), str(book.folder), advice)


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
    """Raise SubmissionError if most students are `registered` under other ids, or their ids are others'."""
    if 2 * len(others := _other_ids(registered, students)) > len(students):
        id_, other = next(iter(others.items()))
        raise SubmissionError(
            f"{len(others)} of these {len(students)} students are in {where} under another id, such "
            f"as {id_} under {other}, and would be there twice: {advice}"
        )
    names = _other_names(registered, students)
    # One student may have a new name.
    if len(names) > 1 and 2 * len(names) > len(students):
        raise SubmissionError(
            f"{len(names)} of these {len(students)} students have the id of somebody else in {where}, such as "
            f"{names[0]}. Another site or course may use the same numbers: {advice}"
        )


def notes_on_ids(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo], where: str
) -> Iterator[str]:
    """Yield notes on students who may be `registered` under another id, or whose id is somebody else's."""
    if others := _other_ids(registered, students):
        pairs = listed_names([f"{id_} may be {other}" for id_, other in others.items()])
        yield (
            f"Perhaps in {where} under another id, and so there twice, each time with a part of the points: "
            f"{pairs}. If they are the same people, grade with a --roster into a new folder."
        )
    if names := _other_names(registered, students):
        yield (
            f"The same id as in {where}, but another name, so please check: {listed_names(names)}. If they are "
            "different people, grade with a --roster into a new folder."
        )


def notes_on_known(book: Gradebook, download: ClassDownload) -> list[str]:
    """Return notes on students who may be in the gradebook under another id, or whose id is somebody else's."""
    return [*notes_on_ids(_handed_in(book), _students(download), str(book.folder))]


def notes_on_two_ids(downloads: Sequence[ClassDownload]) -> Iterator[str]:
    """Yield such notes on students of several downloads."""
    earlier: dict[str, StudentInfo] = {}
    for download in downloads:
        yield from notes_on_ids(earlier, _students(download), "another of these downloads")
        earlier |= _students(download)


def _other_ids(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo]
) -> dict[str, str]:
    """Map the new ids of students to the ids under which they are registered; each is taken once."""
    finder = Finder(Roster(registered.values()), Platform(), students.values())
    others: dict[str, str] = {}
    for id_, student in students.items():
        if id_ in registered:
            continue
        if names := _names_of(student) & registered.keys():
            others[id_] = min(names)
        elif (found := finder.find(student)) is not None:
            others[id_] = found.student.id
    uses = Counter(others.values())
    return {
        id_: other
        for id_, other in others.items()
        if uses[other] == 1 and not names_differ(students[id_].name, registered[other].name)
    }


def _other_names(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo]
) -> list[str]:
    """Return students with the id of somebody who is registered under a name without a common word."""
    return [
        f"{id_} ({student.name}, there {registered[id_].name})"
        for id_, student in students.items()
        if id_ in registered and names_differ(student.name, registered[id_].name)
    ]


def _handed_in(book: Gradebook) -> dict[str, StudentInfo]:
    counts = book.attempt_counts()
    return {student.id: student for student in book.students() if student.id in counts}


def _students(download: ClassDownload) -> dict[str, StudentInfo]:
    return {attempt.student.id: attempt.student for attempt in download.attempts}


def _names_of(student: StudentInfo) -> set[str]:
    """Return the names that another list may have for a student."""
    return {*student.other_ids.values(), student.email, student.name} - {""}


# --- files to judge -----------------------------------------------------------------------------------


class ToJudge(NamedTuple):
    """The files of one student that need a verdict, and notes on files that cannot get one.

    `is_undated`: a file counts only because it was found last, as times are unknown. `is_older`: the gradebook
    has a newer attempt than the download.
    """

    student: str
    files: list[tuple[Attempt, Exercise, ExerciseFile]]
    attention: tuple[Attention, ...] = ()
    is_undated: bool = False
    is_older: bool = False


class _Registered(NamedTuple):
    """A student's attempts that were read and kept: the files of each, by the attempt's id in the gradebook.

    Attempts in `own` are the student's submissions, those in `of_team` have only files for the team, and those
    `with_request` have a regrade request. `every` also has attempts that are one in the gradebook, because they
    differ only in files that are not judged.
    """

    files: dict[int, Mapping[str, ExerciseFile]]
    every: list[tuple[int, Mapping[str, ExerciseFile]]]
    own: set[int]
    of_team: set[int]
    with_request: set[int]


class Intake:
    """Keeps attempts, and chooses the files of each student that need a verdict, for these exercises."""

    def __init__(self, book: Gradebook, course: Course, exercises: Sequence[Exercise]) -> None:
        self._book, self._course, self._exercises = book, course, exercises

    def take_in(self, attempts: Sequence[submissions.Attempt], *, all_attempts: bool) -> ToJudge:
        """Keep a student's attempts, and return the files that may count, including earlier ones.

        Other members of the team may have handed some of them in. Call this within a transaction.
        """
        student = attempts[0].student
        read = self._register(attempts)
        before = [e for e in self._book.facts.attention if e.student == student.id]
        if not read.files:
            # Teammates handed in no file for an exercise of teams.
            self._book.keep_student(student)
            return ToJudge(student.id, [], tuple(before))
        work = self._book.work(student)
        wanted: dict[str, Collection[int]] = {
            e.id: read.files if all_attempts or self._is_idle(student, e, read.files) else ()
            for e in self._exercises
        }
        return ToJudge(
            student.id,
            self._chosen(work, wanted, read.files),
            tuple(self._attention(work, read, before)),
            is_undated=work.has_versions and not work.is_ordered,
            is_older=_newest(work, read.files) != work.attempts[-1],
        )

    def in_gradebook(self, student: StudentInfo) -> ToJudge:
        """Return a student's files in the gradebook that have been judged or may count."""
        work = self._book.work(student)
        judged = {e.id: work.verdicts.get(e.id, {}).keys() for e in self._exercises}
        return ToJudge(student.id, self._chosen(work, judged, {}))

    def _register(self, attempts: Sequence[submissions.Attempt]) -> _Registered:
        """Read a student's attempts, and keep them with their regrade requests."""
        read = _Registered({}, [], set(), set(), set())
        for attempt in attempts:
            submission = read_attempt(attempt, self._course)
            is_whole = attempt.only is None
            if not (is_whole or submission.files):
                continue
            id_ = self._book.register(attempt, submission, whole=is_whole).id
            read.every.append((id_, submission.files))
            # The same files at the same time are one attempt; the student's own copy says more about them.
            if is_whole or (attempt.of_team and id_ not in read.own) or id_ not in read.files:
                read.files[id_] = submission.files
            if is_whole:
                read.own.add(id_)
            elif attempt.of_team:
                read.of_team.add(id_)
            if submission.requests:
                read.with_request.add(id_)
            at, requests = attempt.submitted_at, submission.requests
            keep_requests(self._book, attempt.student.id, requests, at, _FILE)
        return read

    def _chosen(
        self,
        work: Work,
        wanted: Mapping[str, Collection[int]],
        read: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> list[tuple[Attempt, Exercise, ExerciseFile]]:
        """Return the files of wanted attempts and of attempts that may count; if there is none, the newest."""
        pairs: list[tuple[Attempt, Exercise]] = []
        # Compute the rules once for all exercises, which share the late days.
        rules = with_late_days(work, self._book.rules())
        rows = self._book.tables.digests_of(work.student.id)
        for exercise in self._exercises:
            ids = {attempt.id for attempt in needed(work, rules, exercise.id)}
            ids.update(wanted[exercise.id])
            with_file = [attempt for attempt, _ in work.sources(exercise.id) if attempt.id in ids]
            # A file that another member of the team shared says nothing about other exercises.
            has_row = rows.get(exercise.id, {})
            whole = [attempt for attempt in work.attempts if attempt.id in has_row]
            newest = (whole or work.attempts)[-1]
            # On a server, nobody hands in every exercise at once, so an exercise without a file is not missing.
            instead = [] if newest.origin == SERVER else [newest]
            pairs += [(attempt, exercise) for attempt in with_file or instead]
        # A file just read knows more about a missing source.
        files_of = {
            id_: {**self._book.files_of(id_), **read.get(id_, {})}
            for id_ in {attempt.id for attempt, _ in pairs}
        }
        return [
            (attempt, exercise, files_of[attempt.id].get(exercise.id) or _missing(exercise))
            for attempt, exercise in sorted(pairs, key=lambda pair: pair[0].number)
        ]

    def _is_idle(
        self,
        student: StudentInfo,
        exercise: Exercise,
        read: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> bool:
        """Whether a file handed in for the team has no work, though it differs from the stub.

        Only its verdict shows that it has no work. Then an earlier file counts, which needs a verdict, too.
        """
        rules = self._book.rules()
        files = [files[exercise.id] for files in read.values() if exercise.id in files]
        stub = self._course.stub(exercise)
        return rules.is_shared(student, exercise.id) and any(
            source_digest(file) != rules.stubs.get(exercise.id)
            and file.state(stub) in (State.UNTOUCHED, State.EMPTY)
            for file in files
        )

    def _attention(
        self, work: Work, read: _Registered, before: Iterable[Attention]
    ) -> list[Attention]:
        """Return entries on the attempts just read, and earlier ones on exercises without work since.

        An attempt has none on exercises with work since, unless it is the student's newest one, or the newest
        one with files for the team.
        """
        entries: list[Attention] = []
        newest = {_newest(work, ids).id for ids in (read.own, read.of_team) if ids}
        places = {attempt.id: place for place, attempt in enumerate(work.attempts)}
        worked = {e.id: self._newest_work(work, read, e) for e in self._exercises}
        for id_, files in read.every:
            attempt = work.attempts[places[id_]]
            open_ones = [e for e in self._exercises if id_ in newest or places[id_] > worked[e.id]]
            without = [file for file in files.values() if file.source is None]
            is_empty = len(without) == len(self._course.exercises)
            # A request needs no files.
            if is_empty and id_ not in read.with_request:
                entries += nothing_found(attempt.student, open_ones, files)
            for exercise in open_ones:
                file = files.get(exercise.id)
                if file is not None and file.source is None:
                    entries += about_file(self._book, self._course, work, attempt, exercise, file)
                elif file is not None and file.seems_misnamed and places[id_] > worked[exercise.id]:
                    # Only the file that counts gets a verdict, and with it the entries on it.
                    result = settle(self._course, exercise, file, GradingOptions())
                    if result is not None:
                        entries += attention(attempt.student, exercise, file, result)
        before = [entry for entry in before if entry.kind in OF_DOWNLOADS]
        listed = {e for entry in before if entry.kind is Reason.NO_POINTS for e in entry.exercises}
        for exercise in self._exercises:
            if (
                found := self._newest_file(work, read, exercise, again=exercise.id in listed)
            ) is not None:
                entries += about_file(self._book, self._course, work, found[0], exercise, found[1])
        now = {e.id for e in self._exercises if self._is_read(work, read, worked[e.id])}
        graded = {exercise.id for exercise in self._exercises}
        for entry in before:
            # Those without points were looked at again, if they are graded now.
            over = graded if entry.kind is Reason.NO_POINTS else now
            if names := tuple(name for name in entry.exercises if name not in over):
                entries.append(msgspec.structs.replace(entry, exercises=names))
        return entries

    def _newest_work(self, work: Work, read: _Registered, exercise: Exercise) -> int:
        """Return the place of the newest attempt with work for an exercise; -1 if there is none."""
        stub = self._course.stub(exercise)
        for place, attempt in reversed([*enumerate(work.attempts)]):
            file = read.files.get(attempt.id, {}).get(exercise.id)
            if file is None:
                is_work = _has_work(self._course, work, exercise, attempt.id)
            else:
                is_work = file.state(stub) in (State.EDITED, State.INVALID)
            if is_work:
                return place
        return -1

    def _is_read(self, work: Work, read: _Registered, place: int) -> bool:
        """Whether the attempt at a place was just read."""
        return place >= 0 and work.attempts[place].id in read.files

    def still_without_points(self, entries: Iterable[Attention]) -> list[Attention]:
        """Return the entries, without files that turned out to cost no points when all verdicts were there."""
        kept = []
        for entry in entries:
            if entry.kind is Reason.NO_POINTS:
                names = tuple(name for name in entry.exercises if self._costs_points(entry, name))
                entry = msgspec.structs.replace(entry, exercises=names)
            if entry.exercises:
                kept.append(entry)
        return kept

    def _costs_points(self, entry: Attention, name: str) -> bool:
        """Whether an entry still holds for this exercise; also true if its file cannot be found."""
        student = self._book.student(entry.student)
        exercise = next((each for each in self._exercises if each.id == name), None)
        if student is None or exercise is None:
            return True
        work = self._book.work(student)
        if not (sources := work.sources(name)):
            return True
        attempt, _ = sources[-1]
        file = self._book.files_of(attempt.id)[name]
        about = about_file(self._book, self._course, work, attempt, exercise, file)
        return any(each.what == entry.what for each in about)

    def _newest_file(
        self, work: Work, read: _Registered, exercise: Exercise, *, again: bool
    ) -> tuple[Attempt, ExerciseFile] | None:
        """Return the newest file of an exercise if it was just read, or if it has to be looked at `again`."""
        if not (sources := work.sources(exercise.id)):
            return None
        attempt, _ = sources[-1]
        files = read.files.get(attempt.id)
        if files is None and again:
            files = self._book.files_of(attempt.id)
        file = files.get(exercise.id) if files is not None else None
        return (attempt, file) if file is not None else None


def _newest(work: Work, ids: Container[int]) -> Attempt:
    """Return the newest of these attempts."""
    return next(attempt for attempt in reversed(work.attempts) if attempt.id in ids)


def about_file(
    book: Gradebook,
    course: Course,
    work: Work,
    attempt: Attempt,
    exercise: Exercise,
    file: ExerciseFile,
) -> list[Attention]:
    """Return the entries on a file that its result does not give.

    It is unreadable, or it is the newest file of the exercise and has nothing that could earn points: the stub
    after work, an empty file, comments, or code that is not valid Python. An untouched stub alone has none.
    """
    if file.source is None:
        has_earlier = any(
            _has_work(course, work, exercise, each.id) for each, _ in work.sources(exercise.id)
        )
        return [*passed_over(attempt.student, exercise, file, earlier=has_earlier)]
    if [each.id for each, _ in work.sources(exercise.id)][-1:] != [attempt.id]:
        return []
    stub, rules = course.stub(exercise), book.rules()
    look = file.look(stub)
    if look.state in (State.UNTOUCHED, State.EMPTY):
        earlier = [
            each for each in handed_in(work, rules, exercise.id) if each.attempt != attempt.number
        ]
        if any(not each.untouched for each in earlier):
            # In a team, the earlier work still counts.
            is_shared = rules.is_shared(work.student, exercise.id)
            return [] if is_shared else [stub_after_work(attempt.student, exercise)]
    entry = without_code(attempt.student, exercise, file, look, stub)
    return [entry] if entry is not None and not _has_points(work, rules, exercise) else []


def _has_work(course: Course, work: Work, exercise: Exercise, attempt: int) -> bool:
    """Whether an attempt in the gradebook has work for an exercise, as far as is known without reading it."""
    source = work.files.get(exercise.id, {}).get(attempt)
    stub = ExerciseFile(course.stub(exercise).source)
    is_stub = source in (None, source_digest(stub))
    return not is_stub and not work.is_untouched(exercise.id, attempt)


def _has_points(work: Work, rules: ClassRules, exercise: Exercise) -> bool:
    """Whether a file that may count has points, so that a newer one without any costs none.

    In an average, each file without points costs some.
    """
    if rules.policy.rules_of(exercise.id).attempts is CountedAttempt.AVERAGE:
        return False
    may_count = {attempt.number for attempt in needed(work, rules, exercise.id)}
    files = handed_in(work, rules, exercise.id)
    return any(file.judged for file in files if file.attempt in may_count)


def _missing(exercise: Exercise) -> ExerciseFile:
    return ExerciseFile(None, f"{exercise.file} is missing: hand it in under this name.")


# --- results of files --------------------------------------------------------------------------------


class WaitingFile(NamedTuple):
    """What is known of a file that waits for a judge: its verdict's key, and reasons to hold the points."""

    key: VerdictKey
    held: tuple[str, ...]


class Question:
    """A file that needs a verdict, and the key of the verdict; the slow rest is computed when first used.

    For a `waiting` file, an earlier question has computed it.
    """

    def __init__(
        self,
        questions: Questions,
        exercise: Exercise,
        file: ExerciseFile,
        waiting: WaitingFile | None = None,
    ) -> None:
        self._questions, self._waiting = questions, waiting
        self.exercise, self.file = exercise, file
        self.key = questions.key_of(exercise, file) if waiting is None else waiting.key

    @functools.cached_property
    def settled(self) -> ExerciseResult | None:
        """The result if the file needs no judge, being missing, untouched or unreadable; else None."""
        if self._waiting is not None:
            return None
        return self._questions.settled(self.exercise, self.file)

    @functools.cached_property
    def held(self) -> tuple[str, ...]:
        """The odd code in the source, as reasons to hold the points."""
        if self._waiting is not None:
            return self._waiting.held
        return self._questions.reasons_to_hold(self.exercise, self.file)

    def waiting(self) -> WaitingFile:
        """Return what to remember of the question while the file waits for a judge."""
        return WaitingFile(self.key, self.held)

    def prepare(self) -> None:
        """Compute what the result may need now, to spare the thread that keeps it."""
        if self.settled is None:
            _ = self.held

    def answered_by(self, result: ExerciseResult) -> ExerciseResult:
        """Return a new result as it is kept for this file. Odd code holds its points, except in a stub.

        Odd code is found in the source, or reported while it runs.
        """
        held = () if result.untouched else tuple(dict.fromkeys((*self.held, *result.held)))
        return with_note(msgspec.structs.replace(result, held=held), self.file)


class Questions:
    """Makes questions about a course's files, in any thread; `exercises` have a suite to run."""

    def __init__(self, course: Course, options: GradingOptions) -> None:
        self._course, self._options = course, options
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._stubs = {e.id: course.stub(e).source for e in course.exercises}
        self._ordinary = {e.id: ordinary_in(e, self._stubs[e.id]) for e in course.exercises}
        self.exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]

    def about(
        self, exercise: Exercise, file: ExerciseFile, waiting: WaitingFile | None = None
    ) -> Question:
        """Return a question about a file, without reading the suite or the gradebook.

        To save time, pass what an earlier question remembered of a `waiting` file.
        """
        return Question(self, exercise, file, waiting)

    def key_of(self, exercise: Exercise, file: ExerciseFile) -> VerdictKey:
        """Return the key of the verdict on a file."""
        return verdict_key(exercise, file, self._digests[exercise.id], self._options)

    def settled(self, exercise: Exercise, file: ExerciseFile) -> ExerciseResult | None:
        """Return the result of a file that needs no judge, else None."""
        return settle(self._course, exercise, file, self._options)

    def reasons_to_hold(self, exercise: Exercise, file: ExerciseFile) -> tuple[str, ...]:
        """Return the odd code in a file's source, as reasons to hold its points."""
        # Skip stubs, which most files are early in a course.
        if file.source is None or file.source == self._stubs[exercise.id]:
            return ()
        return reasons(file.source, self._ordinary[exercise.id])


class Kept(NamedTuple):
    """The result kept for a file, and entries about it; `is_known`: it is an equal file's verdict."""

    result: ExerciseResult
    attention: list[Attention]
    is_known: bool = False


class Verdicts:
    """The results of files, kept in a gradebook, for one grading or one server.

    Call the methods within a transaction if other writes belong to it.
    """

    def __init__(self, book: Gradebook, course: Course, options: GradingOptions) -> None:
        self._book, self._course, self._options = book, course, options
        self._here = environment_of("", ())
        self._torch = version_of("torch")

    def without_judge(
        self, attempt: Attempt, question: Question, judged_now: Container[str] = ()
    ) -> Kept | None:
        """Keep the result of a file if no judge is needed, and return it; None if a judge is needed.

        That is a final verdict with the same key, on any student's file, or the last one if its key is in
        `judged_now`; or else the result of a file that is settled without a judge.
        """
        if (own := self._own_final(attempt, question)) is not None:
            return _kept(attempt, question, own.result, is_known=True)
        if (known := self._known(question.key.key, judged_now)) is not None:
            return self._keep(attempt, question, known.result, known.environment, is_known=True)
        if question.settled is not None:
            result = question.answered_by(question.settled)
            return self._keep(attempt, question, result, self._here)
        return None

    def is_final(self, attempt: Attempt, question: Question) -> bool:
        """Whether the attempt has a final verdict with the key of the question: it is not judged again."""
        return self._own_final(attempt, question) is not None

    def _own_final(self, attempt: Attempt, question: Question) -> Verdict | None:
        """Return the attempt's verdict if it has the key of the question and is final, else None."""
        verdict = self._book.tables.verdict(attempt.id, question.exercise.id, question.key.key)
        return verdict if verdict is not None and _is_final(verdict) else None

    def _known(self, key: str, judged_now: Container[str]) -> Verdict | None:
        """Return the verdict with this key that another file gets, too; None if there is none."""
        verdicts = self._book.tables.verdicts
        final = next(filter(_is_final, verdicts(key)), None)
        if final is None and key in judged_now:
            # Of the timeouts, the one of this grading.
            return max(verdicts(key), key=lambda verdict: verdict.graded_at, default=None)
        return final

    def judged(self, attempt: Attempt, question: Question, judged: Judgment | JudgeFault) -> Kept:
        """Keep the verdict of a judge; after a fault, the file is unjudged until the next grading."""
        if isinstance(judged, Judgment):
            result, walls = judged.result, judged.walls
        else:
            fault = judged.message
            result, walls = unjudged(self._course, question.exercise, self._options, fault), ()
        here = environment_of(self._torch, walls)
        return self._keep(attempt, question, question.answered_by(result), here)

    def wait(self, attempt: Attempt, question: Question, not_yet: ExerciseResult) -> None:
        """Keep `not_yet` as the result while a judge works; an existing verdict stays."""
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
        """Keep a result for a file, and return it."""
        self._book.keep(attempt, question.key, self._options.seed, result, environment)
        return _kept(attempt, question, result, is_known=is_known)


def _kept(attempt: Attempt, question: Question, result: ExerciseResult, *, is_known: bool) -> Kept:
    """Return a result that the gradebook has, with the entries about it."""
    entries = attention(attempt.student, question.exercise, question.file, result)
    return Kept(result, entries, is_known)


def _is_final(verdict: Verdict) -> bool:
    """Whether equal files get this verdict. A timeout may be due to a busy machine, so it is tried again."""
    return all(test.outcome is not Outcome.TIMEOUT for test in verdict.result.tests)
