"""A gradebook: students, attempts, files and verdicts of one RESULTS folder, and the results that count.

It is opened to read or to write. Many may read, even while one grading writes. Each verdict is on the disk
(WAL, synced) before the next one is taken, so a grading may be killed at any moment. Replaced verdicts are set
aside. `tables.py` reads and writes the rows. Which results count is in no table: `standing.py` computes it from
the rows each time.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader import submissions
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.files import remove_drafts, write_whole
from grader.gradebook.corrections import Correction, GivenExtension
from grader.gradebook.corrections_file import (
    CORRECTIONS_FILE,
    change_corrections,
    change_extensions,
    corrections_text,
    read_file,
    writing,
)
from grader.gradebook.database import FILE, no_gradebook, only_writer, opened, opened_again
from grader.gradebook.facts import AssignmentPart, Facts
from grader.gradebook.policy import NamedPolicy, Policy, Rules
from grader.gradebook.review import Attention, Reason, in_order
from grader.gradebook.standing import ClassRules, choices, entry_of, total_of
from grader.gradebook.tables import Tables
from grader.gradebook.times import submitted
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.gradebook.work import (
    SERVER,
    Attempt,
    Replaced,
    Request,
    Verdict,
    Work,
    packed,
    work_of,
)
from grader.results import Entry, Environment, ExerciseResult, Result, Status, StudentInfo, to_json
from grader.submissions import ExerciseFile, Submission, safe_name
from grader.submissions.source import code_digest
from grader.text import listed, nearest, utc

T = TypeVar("T")


class Gradebook:
    """The gradebook of one RESULTS folder; open it with `Gradebook.open` or `Gradebook.open_to_write`.

        with Gradebook.open(Path("results")) as book:
            points = {entry.student.id: entry.result.score for entry in book.entries()}

    With an assignment, it reads as if it had the exercises of that assignment only. Methods that compute the
    points that count raise CorrectionsError if the file of corrections is not in order. `tables` are for the
    modules of this room.
    """

    def __init__(self, folder: Path, tables: Tables, assignment: str = "") -> None:
        self.folder = folder
        self.tables = tables
        self._rules: tuple[Facts, str, ClassRules] | None = None
        self._part = self._part_of(assignment) if assignment else None

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, assignment: str | None = None) -> Iterator[Gradebook]:
        """Open the gradebook in a folder to read it.

        Raises SubmissionError if there is no gradebook, or it does not have this assignment; GraderError if it
        is damaged or a newer grader wrote it.
        """
        file = folder / FILE
        if not file.is_file():
            raise no_gradebook(folder)
        with opened(file, create=False) as tables:
            yield cls(folder, tables, assignment or "")

    @classmethod
    @contextlib.contextmanager
    def open_to_write(cls, folder: Path) -> Iterator[Gradebook]:
        """Open the gradebook in a folder to read and to write it; a new one is made if there is none.

        Raises GraderError if it is damaged, a newer grader wrote it, another grading writes to it, or nothing
        can be written there.
        """
        with writing(folder):
            # Readable only by the grader's user; an existing folder keeps its mode.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "results").mkdir(mode=0o700, exist_ok=True)
        with only_writer(folder), opened(folder / FILE, create=True) as tables:
            # Remove only our own drafts: exports may be written beside the gradebook meanwhile.
            remove_drafts(folder, CORRECTIONS_FILE)
            remove_drafts(folder / "results")
            yield cls(folder, tables)

    @classmethod
    @contextlib.contextmanager
    def open_beside_writer(cls, folder: Path, assignment: str = "") -> Iterator[Gradebook]:
        """Open the gradebook in a folder to read it beside a writer, which checked the file."""
        with opened_again(folder / FILE) as tables:
            yield cls(folder, tables, assignment)

    @classmethod
    @contextlib.contextmanager
    def open_to_change(
        cls, folder: Path, prepare: Callable[[Gradebook], None]
    ) -> Iterator[Gradebook]:
        """Open the gradebook in a folder to change tables that `prepare` makes, also while a server writes.

        Creates a missing gradebook. When the block ends, either all changes are on the disk or none.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opened(folder / FILE, create=True) as tables:
            book = cls(folder, tables)
            prepare(book)
            with book.transaction():
                yield book

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything that the block keeps to the disk together, or nothing of it.

        A transaction within another one is part of it.
        """
        with self.tables.transaction():
            yield

    def shown(self, value: T) -> T:
        """Return a value as it is; `AnonymousBook.shown` hides names in it."""
        return value

    def back_up(self, target: Path) -> None:
        """Copy the gradebook as of this moment to a new file, which only its owner can read.

        Raises FileExistsError, or another OSError.
        """
        self.tables.back_up(target)

    # --- facts ----------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """The facts about the whole gradebook at this moment."""
        return self.tables.facts

    def change(self, **fields: Any) -> None:
        """Change some of the facts."""
        with self.transaction():
            self.tables.put_facts(msgspec.structs.replace(self.facts, **fields))

    def _part_of(self, assignment: str) -> AssignmentPart | None:
        """Return an assignment's part of a course's gradebook; None if the gradebook is the assignment's."""
        own, parts = self.facts.assignment, self.facts.assignments
        if own == assignment:
            return None
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

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of the exercises that count, in the order of the course."""
        names, part = self.facts.exercises, self._part
        return names if part is None else tuple(n for n in names if n in part.exercises)

    @property
    def not_open(self) -> frozenset[str]:
        """The exercises whose assignment opens later, in the gradebook of a whole course."""
        parts, now = self.facts.parts.values(), datetime.datetime.now(datetime.UTC)
        late = [part for part in parts if (at := submitted(part.opens)) is not None and at > now]
        return frozenset(name for part in late for name in part.exercises)

    @property
    def of_teams(self) -> frozenset[str]:
        """The exercises that one member hands in for a team."""
        facts = self.facts
        if facts.teams:
            return frozenset(self.exercises)
        parts = (part for part in facts.assignments.values() if part.teams)
        return frozenset(name for part in parts for name in part.exercises)

    @property
    def title(self) -> str:
        """The title of the course, and of the assignment."""
        title = self.facts.title
        return title if self._part is None else f"{title}: {self._part.title}"

    @property
    def work_title(self) -> str:
        """The title of the assignment, else of the course: the name that students know."""
        part = self._part or self.facts.assignments.get(self.facts.assignment)
        return self.facts.title if part is None else part.title

    @property
    def unfinished(self) -> str:
        """A warning while a grading goes on or after it was interrupted, else empty.

        The warning about a download ends when a batch reads it to the end, or if it is gone, when any batch
        ends.
        """
        if unread := self.facts.unread:
            return (
                f"The grading of {listed(unread, 3)} into {self.folder} did not finish; students not reached "
                "yet have no score or are missing. Let it end, or run `grade batch` with the same path again; "
                "if it is gone, with another download of the class."
            )
        if not self.facts.is_unfinished:
            return ""
        return (
            f"The last grading of {self.folder} did not finish; students not reached yet have no score or are "
            "missing. Let it end, or run `grade batch` again."
        )

    # --- the grading ----------------------------------------------------------------------------

    def begin(
        self,
        course: Course,
        blank: Result | None = None,
        policy: Rules | None = None,
        reading: Iterable[str] = (),
    ) -> bool:
        """Begin a grading by this course; one that was interrupted goes on, with the verdicts it set aside.

        `blank` is the result of a student who handed in nothing; a `policy` replaces the one before. The
        downloads at the paths `reading` stay unread until `finish` names them.

        Returns whether any student's result may have changed, including students not regraded here. Raises
        CorrectionsError before anything is written.
        """
        before = self.facts
        if blank is not None and before.blank is not None:
            # Keep the old result if it differs only in its time.
            now = msgspec.structs.replace(before.blank, started_at=blank.started_at)
            blank = before.blank if blank == now else blank
        facts = msgspec.structs.replace(
            before,
            course=course.info(),
            title=course.title,
            corrections=self._digest_of_corrections(),
            exercises=tuple(exercise.id for exercise in course.exercises),
            stubs={e.id: code_digest(course.stub(e).source) for e in course.exercises},
            extra_credit=tuple(sorted(course.extra_credit)),
            without_hints=(
                tuple(sorted(course.without_hints)) if course.assignments else before.without_hints
            ),
            assignments={
                part.id: AssignmentPart(
                    part.title,
                    part.exercises,
                    "" if part.opens is None else utc(part.opens_at),
                    part.teams,
                    part.exam is not None,
                )
                for part in course.assignments
            }
            or before.assignments,
            blank=before.blank if blank is None else blank,
            policy=before.policy if policy is None else policy,
        )
        facts = msgspec.structs.replace(facts, totals_without=tuple(sorted(facts.practice)))
        if facts.totals_without != before.totals_without:
            # Totals now count other exercises: drop the old ones, or students would seem to have lost points.
            facts = msgspec.structs.replace(facts, totals={}, totals_before={})
        is_other = facts != before or before.is_unfinished or before.is_stale or bool(before.unread)
        facts = msgspec.structs.replace(facts, unread=tuple(sorted({*before.unread, *reading})))
        if is_other:
            # Until `mark_current`, even if a kill comes after the grading and before the last result.
            facts = msgspec.structs.replace(facts, is_stale=True)
        if not before.is_unfinished:
            facts = msgspec.structs.replace(
                facts,
                revision=before.revision + 1,
                totals_before=facts.totals,
                is_unfinished=True,
            )
        with self.transaction():
            self.tables.put_facts(facts)
        return is_other

    def assign(self, course: Course) -> None:
        """Grade only these exercises of the course from now on, as its assignment if it has one."""
        assignment = course.assignment
        self.change(
            assigned=tuple(exercise.id for exercise in course.exercises),
            assignment=assignment.id if assignment is not None else "",
            teams=assignment is not None and assignment.teams,
        )

    def finish(self, attention: tuple[Attention, ...], read: Collection[str] = ()) -> None:
        """End the grading, so that the next one is compared with this one; it has `read` these downloads."""
        rules = self.rules()
        totals = {s.id: total_of(self.work(s), rules) for s in self.students()}
        final = {student: points for student, points in totals.items() if points is not None}
        unread = tuple(
            path
            for path in self.facts.unread
            # A download may have been read as part of a folder. If it is gone, any other one ends the warning.
            if {path, *map(str, Path(path).parents)}.isdisjoint(read)
            and (not read or Path(path).exists())
        )
        self.change(totals=final, attention=attention, is_unfinished=False, unread=unread)

    def mark_current(self) -> None:
        """Note that the results on the disk are current."""
        self.change(is_stale=False)

    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the verdicts, the newest verdict's first."""
        return self.tables.seeds()

    # --- things for a person to look at ---------------------------------------------------------

    def attention(self) -> tuple[Attention, ...]:
        """Return the entries of the last grading that a person should look at."""
        part = self._part
        return self.unanswered(
            entry
            for entry in self.facts.attention
            if part is None or {*entry.exercises} & {*part.exercises}
        )

    def unanswered(self, entries: Iterable[Attention]) -> tuple[Attention, ...]:
        """Return the entries, without odd code in files that a person released or set the points for.

        Another file of the same student is listed again.
        """
        held: dict[str, set[str]] = {}
        answered = {
            (correction.student, correction.exercise)
            for correction in self.corrections()
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
            if entry.kind is not Reason.ODD_CODE
            or any(is_open(entry, exercise) for exercise in entry.exercises)
        )

    def replace_attention(self, student: str, exercise: str, entries: Iterable[Attention]) -> None:
        """Replace the entries on an exercise of a student by these; one on several keeps the others."""
        before = self.facts.attention
        kept = []
        for entry in before:
            if entry.student == student and exercise in entry.exercises:
                others = tuple(name for name in entry.exercises if name != exercise)
                entry = msgspec.structs.replace(entry, exercises=others)
            if entry.exercises:
                kept.append(entry)
        after = in_order((*kept, *entries))
        if after != before:
            self.change(attention=after)

    # --- rules ----------------------------------------------------------------------------------

    def rules(self) -> ClassRules:
        """Read the rules for every student at this moment; another process or a person may change them.

        Raises CorrectionsError if the file of corrections has a mistake.
        """
        facts, text = self.facts, corrections_text(self.folder)
        if self._rules is None or self._rules[0] is not facts or self._rules[1] != text:
            file = read_file(text, self.folder / CORRECTIONS_FILE)
            rules = ClassRules(
                course=facts.course,
                exercises=self.exercises,
                stubs=facts.stubs,
                blank=facts.blank,
                policy=file.policy(facts.policy, self.chapters),
                has_policy=facts.policy != Rules(),
                corrections=self._of_files(file.correction),
                extensions=file.extension,
                unfinished=facts.is_unfinished or bool(facts.unread),
                extra_credit=frozenset(facts.extra_credit),
                without_hints=frozenset(facts.without_hints),
                practice=facts.practice,
                of_teams=self.of_teams,
            )
            self._rules = facts, text, rules
        return self._rules[2]

    @property
    def policy(self) -> Policy:
        """The policy of the class, which may have no rules, with the extensions in the file of corrections.

        Raises CorrectionsError.
        """
        return self.rules().policy

    @property
    def chapters(self) -> dict[str, str]:
        """The chapter of each exercise that was graded."""
        blank = self.facts.blank
        exercises = blank.exercises if blank is not None else ()
        return {exercise.name: exercise.chapter for exercise in exercises}

    def set_policy(self, rules: Rules, named: NamedPolicy | None = None) -> None:
        """Count by these rules from now on, and write the result of every student anew. No judge is asked.

        They are the rules of the `named` policy, which replaces the course's own from now on. Without one, the
        course's own policy applies again.
        """
        self.change(
            policy=rules,
            named_policy=named,
            corrections=self._digest_of_corrections(),
            is_stale=True,
        )
        self._write_results()

    def corrections(self) -> tuple[Correction, ...]:
        """Return every correction, in the order of the file. Raises CorrectionsError."""
        return self.rules().corrections

    def correct(self, *added: Correction, replacing: Collection[int] = ()) -> None:
        """Append corrections to their file, replacing those at these places, and write the results.

        The file changes in one write. Results also include a person's edits of the file. After a kill in
        between, the next grading writes the results.

        Raises CorrectionsError or GraderError.
        """
        before = self.corrections()
        students = {c.student for c in (*added, *(before[place] for place in replacing))}
        with self._changing_corrections(students):
            change_corrections(self.folder, added, replacing)

    def extensions(self) -> tuple[GivenExtension, ...]:
        """Return every extension that a person gave, in the order of the file. Raises CorrectionsError."""
        return self.rules().extensions

    def extend(self, *added: GivenExtension, removing: Collection[int] = ()) -> None:
        """Append extensions to the file of corrections, remove those at these places, and write the results.

        As `correct` does. Raises CorrectionsError or GraderError.
        """
        before = self.extensions()
        students = {e.student for e in (*added, *(before[place] for place in removing))}
        with self._changing_corrections(students):
            change_extensions(self.folder, added, removing)

    @contextlib.contextmanager
    def _changing_corrections(self, students: Collection[str]) -> Iterator[None]:
        """Let the block change the file of corrections, then write the results of these students."""
        is_known = self._digest_of_corrections() == self.facts.corrections
        is_current = is_known and not self.facts.is_stale
        self.change(is_stale=True)
        yield
        self.change(corrections=self._digest_of_corrections())
        # A correction without a student is for all.
        is_for_all = "" in students or not is_current
        self._write_results(None if is_for_all else sorted(students))

    def _of_files(self, corrections: tuple[Correction, ...]) -> tuple[Correction, ...]:
        """Return the corrections; an earlier grader's may name a file by its bytes as they came."""
        if not any(correction.release or correction.marked for correction in corrections):
            return corrections
        now = self.tables.originals()
        return tuple(
            msgspec.structs.replace(
                correction,
                release=now.get(correction.release, correction.release),
                marked=now.get(correction.marked, correction.marked),
            )
            for correction in corrections
        )

    def _digest_of_corrections(self) -> str:
        """Return the digest of the file of corrections; empty if there are none. Raises CorrectionsError."""
        rules = self.rules()
        if not rules.corrections and not rules.extensions:
            return ""
        return hashlib.sha256(corrections_text(self.folder).encode()).hexdigest()

    # --- students -------------------------------------------------------------------------------

    def student(self, id_: str) -> StudentInfo | None:
        """Return the student with this id, if there is one."""
        return self.tables.student(id_)

    def students(self) -> list[StudentInfo]:
        """Return every student by id, including those who handed in nothing."""
        return self.tables.students()

    def names(self) -> dict[str, str]:
        """Map ids to names, omitting students whose name is empty or equals the id."""
        return {s.id: s.name for s in self.students() if s.name not in ("", s.id)}

    def absent(self) -> list[StudentInfo]:
        """Return the students of the roster who handed in nothing."""
        counts = self.attempt_counts()
        return [student for student in self.students() if student.id not in counts]

    def keep_student(self, student: StudentInfo, forget: Collection[str] = ()) -> None:
        """Keep a student. Facts from an earlier roster stay if this one lacks them, except ids to `forget`."""
        before = self.student(student.id)
        if before is not None:
            student = StudentInfo(
                id=student.id,
                name=student.name or before.name,
                email=student.email or before.email,
                ids={k: v for k, v in before.ids.items() if k not in forget} | student.ids,
            )
        if student != before:
            with self.transaction():
                self.tables.put_student(student)

    # --- attempts and files ---------------------------------------------------------------------

    def attempt_counts(self) -> dict[str, int]:
        """Return the number of attempts of each student who handed in something."""
        return self.tables.attempt_counts()

    def attempt(self, id_: int) -> Attempt:
        """Return the attempt with this id."""
        return self.tables.attempt(id_)

    def work(self, student: StudentInfo) -> Work:
        """Return all that a student handed in, oldest first, with every verdict."""
        tables, id_ = self.tables, student.id
        files, verdicts = tables.digests_of(id_), tables.verdicts_of(id_)
        return work_of(student, tables.attempts_of(id_), files, verdicts, tables.requests_of(id_))

    def files_of(self, attempt: int) -> dict[str, ExerciseFile]:
        """Return the files of an attempt, by exercise, as they came, or why there is none."""
        return self.tables.files_of(attempt)

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """Return the files that an entry was graded from, by exercise."""
        chosen = choices(self.work(entry.student), self.rules())
        files = {
            id_: self.files_of(id_) for id_ in {choice.attempt.id for choice in chosen.values()}
        }
        return {
            name: source
            for name, choice in chosen.items()
            if choice.source and (source := files[choice.attempt.id][name].source) is not None
        }

    def register(
        self, handed_in: submissions.Attempt, submission: Submission, *, whole: bool = True
    ) -> Attempt:
        """Keep an attempt and its files; return its row.

        If the same files were handed in at the same time before, this is the earlier attempt and gets no second
        verdict; its time is added if it was unknown. With `whole`, the submission has all files of its student,
        so an earlier attempt with more files is the same one, from before the course dropped exercises.
        """
        with self.transaction():
            return self._register(handed_in, submission, whole=whole)

    def _register(
        self, handed_in: submissions.Attempt, submission: Submission, *, whole: bool
    ) -> Attempt:
        student, time = handed_in.student.id, handed_in.submitted_at
        digest = submission.info().digest
        self.keep_student(handed_in.student)
        if whole:
            self._know_again(student, submission, digest)
        attempts = self.tables.attempts_of(student)
        same = [attempt for attempt in attempts if attempt.digest == digest]
        by_time = {a.submitted_at: a for a in sorted(same, key=lambda a: a.submitted_at)}
        before = by_time.get(time, by_time.get(""))
        if before is None and not time:
            before = next(reversed(by_time.values()), None)
        if before is not None and handed_in.origin == SERVER and before.number < len(attempts):
            # Another file came to the server within the same second; the newest one is this file again.
            while time in by_time:
                time = utc(datetime.datetime.fromisoformat(time) + datetime.timedelta(seconds=1))
            before = None
        attempt = Attempt(
            id=before.id if before is not None else 0,
            student=student,
            number=before.number if before is not None else len(attempts) + 1,
            submitted_at=time,
            late=handed_in.late,
            origin=handed_in.origin,
            digest=digest,
        )
        if before is None:
            attempt = self.tables.add_attempt(attempt)
        elif time or "" in by_time:
            self.tables.update_attempt(attempt)
        else:
            attempt = before
        for exercise, file in submission.files.items():
            self.tables.put_file(attempt.id, exercise, file, source_digest(file))
        return attempt

    def _know_again(self, student: str, submission: Submission, digest: str) -> None:
        """Update the digests of attempts that have these files, and others that the course has dropped since.

        A file for an exercise that is new in the course makes a new attempt.
        """
        attempts = self.tables.attempts_of(student)
        if any(attempt.digest == digest for attempt in attempts):
            return
        now = {exercise: source_digest(file) for exercise, file in submission.files.items()}
        before = self.tables.digests_of(student)
        for attempt in reversed(attempts):
            if all(before.get(name, {}).get(attempt.id, "") == d for name, d in now.items()):
                for same in attempts:
                    if same.digest == attempt.digest:
                        self.tables.update_attempt(msgspec.structs.replace(same, digest=digest))
                return

    def requests(self) -> list[Request]:
        """Return the regrade requests on the exercises that count, oldest first."""
        return [r for r in self.tables.requests() if r.exercise in self.exercises]

    # --- verdicts -------------------------------------------------------------------------------

    def keep(
        self,
        attempt: Attempt,
        key: VerdictKey,
        seed: int,
        result: ExerciseResult,
        environment: Environment,
        *,
        waited_for: bool = False,
    ) -> None:
        """Keep a verdict on a file of an attempt.

        With `waited_for`, the result says that there is no verdict yet, and readers see no total. An existing
        verdict stays until the new one replaces it.
        """
        verdict = Verdict(
            status=result.status,
            score=result.score,
            max_score=result.max_score,
            packed=packed(result),
            graded_at=utc(),
            seed=seed,
            environment=environment,
        )
        with self.transaction():
            if not waited_for:
                self.tables.set_aside(self.facts.revision, attempt.id, result.name)
            self.tables.put_verdict(attempt.id, result.name, key, verdict, replace=not waited_for)

    def reword(self, attempt: int, result: ExerciseResult) -> None:
        """Replace the words of a verdict; its outcomes and points stay."""
        with self.transaction():
            self.tables.reword(attempt, result)

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of each student, by id, including students who handed in nothing."""
        for student in self.students():
            if (entry := entry_of(self.work(student), self.rules())) is not None:
                yield entry

    def entry_of(self, student: str) -> Entry | None:
        """Return the entry of a student, None if there is no student with this id."""
        info = self.student(student)
        return None if info is None else entry_of(self.work(info), self.rules())

    def entry_before(self, student: str, replaced: Sequence[Replaced]) -> Entry | None:
        """Return the entry of a student before these verdicts were replaced, by the current rules."""
        info = self.student(student)
        if info is None:
            return None
        work = self.work(info)
        numbered = {attempt.number: attempt.id for attempt in work.attempts}
        verdicts = {exercise: dict(judged) for exercise, judged in work.verdicts.items()}
        for verdict in replaced:
            judged, attempt = verdicts[verdict.before.name], numbered[verdict.attempt]
            judged[attempt] = judged[attempt].with_result(verdict.before)
        return entry_of(work._replace(verdicts=verdicts), self.rules())

    def history(self, student: StudentInfo, least: int) -> dict[str, list[ExerciseResult]]:
        """Return the verdicts on a student's different files by exercise, oldest first.

        Exercises with fewer than `least` are left out.
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
        """Yield the verdicts of the present revision that differ from the ones before, by student."""
        return self.tables.replaced(self.facts.revision)

    def totals_before(self) -> dict[str, float]:
        """Return the final points of the grading before the last one, by student."""
        # The kept totals are of all exercises, and an earlier grader may have counted practice in them.
        is_other = self._part is not None or {*self.facts.totals_without} != self.facts.practice
        return {} if is_other else self.facts.totals_before

    def dropped(self) -> dict[str, int]:
        """Return the number of verdicts on each exercise that the course of the last grading no longer has.

        They are kept, and count in no total.
        """
        counts = self.tables.verdict_counts()
        return {name: count for name, count in counts.items() if name not in self.exercises}

    # --- results as files -----------------------------------------------------------------------

    def write_result(self, student: str) -> None:
        """Write the result that counts for a student as JSON, whole or not at all."""
        if (entry := self.entry_of(student)) is None:
            return
        path = self.folder / "results" / f"{safe_name(student)}.json"
        text = to_json(entry.result)
        if path.is_file() and path.read_bytes() == text:
            return
        with writing(path):
            # Two syncs per student would slow a batch down. After a power failure, `grade regrade` writes it.
            write_whole(path, text, synced=False)

    @contextlib.contextmanager
    def changing_results(self, students: Iterable[str]) -> Iterator[None]:
        """Open a transaction, after which the results of these students are written.

        After a kill in between, the next grading writes them.
        """
        is_current = not self.facts.is_stale
        with self.transaction():
            self.change(is_stale=True)
            yield
        self._write_results(dict.fromkeys(students) if is_current else None)

    def _write_results(self, students: Iterable[str] | None = None) -> None:
        """Write the results of these students, by default of the class; then all results are current."""
        names = [s.id for s in self.students()] if students is None else students
        for student in names:
            self.write_result(student)
        self.mark_current()
