"""Writing to a gradebook, which one grading may do at a time.

What is written is on the disk (WAL, synced) before the next verdict is taken, so that a grading may be
killed at any moment. A verdict that is replaced is set aside.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader import submissions
from grader.course.manifest import Course
from grader.gradebook.book import AssignmentPart, Gradebook
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import (
    change_corrections,
    corrections_text,
    writing,
)
from grader.gradebook.policy_file import NamedPolicy, read_policy
from grader.gradebook.review import Attention, Reason
from grader.gradebook.standing import total_of
from grader.gradebook.store import FILE, Store, as_text, only_writer, opened
from grader.gradebook.times import now
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.gradebook.work import Attempt, Verdict, packed
from grader.results import Environment, ExerciseResult, Result, StudentInfo, to_json
from grader.submissions import Submission, safe_name
from grader.submissions.source import code_digest


class Keeper:
    """The gradebook of one RESULTS folder while a grading writes to it; open it with `Keeper.open`.

    `book` reads what is there.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.book = Gradebook(folder, store)
        self._folder, self._store = folder, store

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[Keeper]:
        """Open the gradebook in a folder to read and to write it; made where there is none.

        Raises GraderError if it is damaged, was written by a newer grader, another grading writes to
        it, or nothing can be written there.
        """
        with writing(folder):
            # Only for whoever grades; a folder that is there keeps its mode.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "results").mkdir(mode=0o700, exist_ok=True)
        with only_writer(folder), opened(folder / FILE, create=True) as store:
            yield cls(folder, store)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is kept within is on the disk together when this ends, or nothing of it."""
        with self._store.transaction():
            yield

    # --- the grading ----------------------------------------------------------------------------

    def begin(self, course: Course, blank: Result | None = None, policy: str | None = None) -> bool:
        """Begin a grading by this course; one that was interrupted goes on, with what it replaced.

        `blank` is the result of a student who handed in nothing; a `policy` takes the place of the one there
        was. Returns whether the results of all students may be others now, those whom this grading does not
        come to included. Raises CorrectionsError, before anything is written.
        """
        book = self.book
        facts: dict[str, Any] = {
            "course": course.info(),
            "title": course.title,
            "corrections": self._digest_of_corrections(),
            "exercises": ",".join(exercise.id for exercise in course.exercises),
            "stubs": {e.id: code_digest(course.stub(e).source) for e in course.exercises},
            "extra credit": ",".join(sorted(course.extra_credit)),
        }
        if course.assignments:
            facts["assignments"] = {
                part.id: AssignmentPart(part.title, part.exercises) for part in course.assignments
            }
        before = book.blank
        # Equal but for its time it is the one that is there.
        if blank is not None and (
            before is None or blank != msgspec.structs.replace(before, started_at=blank.started_at)
        ):
            facts["blank"] = blank
        if policy is not None:
            facts["policy"] = policy
        is_other = any(book.fact(name) != as_text(value) for name, value in facts.items())
        is_other |= book.fact("finished") != "yes" or bool(book.fact("stale"))
        if is_other:
            # Until `settled`, also where a kill comes between the end of a grading and the last result.
            facts["stale"] = "yes"
        if not book.unfinished:
            facts |= {
                "revision": str(book.revision + 1),
                "totals before": book.fact("totals") or "{}",
                "finished": "no",
            }
        self.set_facts(**facts)
        return is_other

    def assign(self, course: Course) -> None:
        """Grade these exercises of the course from now on, and no others, as its assignment if it has one."""
        given = course.assignment
        self.set_facts(
            assigned=",".join(exercise.id for exercise in course.exercises),
            assignment=given.id if given is not None else "",
            teams="yes" if given is not None and given.teams else "",
        )

    def finish(self, attention: tuple[Attention, ...]) -> None:
        """The grading is at its end: what the next one replaces is compared with this one."""
        book = self.book
        totals = {s.id: total_of(book.work(s), book.rules) for s in book.students()}
        final = {student: points for student, points in totals.items() if points is not None}
        self.set_facts(totals=final, attention=attention, finished="yes")

    def set_facts(self, **facts: Any) -> None:
        """Keep facts about the whole gradebook, all of them or none; what is no text is kept as JSON."""
        with self.transaction():
            self._store.set_facts(facts)

    # --- rules ----------------------------------------------------------------------------------

    def set_policy(self, text: str, named: NamedPolicy | None = None) -> None:
        """Count by this policy from now on, a TOML text; an empty one has no rules. No judge is asked.

        It comes of the `named` policy, which holds in the place of the course's from now on; without one, that
        of the course holds again. The result of every student is written anew. Raises what `read_policy`
        raises, before anything is written.
        """
        read_policy(text)
        facts = {
            "policy": text,
            "policy_file": "" if named is None else named.file,
            "named policy": "" if named is None else msgspec.json.encode(named.text).decode(),
            "corrections": self._digest_of_corrections(),
            "stale": "yes",
        }
        self.set_facts(**facts)
        self._write_results()

    def correct(self, *added: Correction, replacing: Collection[int] = ()) -> None:
        """Append corrections to their file, in the place of those at these places, and write the results.

        The file changes at once. What a person changed in it since the last time is written, too. Killed in
        between, the next grading writes the results. Raises CorrectionsError or GraderError.
        """
        before = self.book.corrections()
        students = {c.student for c in (*added, *(before[place] for place in replacing))}
        is_known = self._digest_of_corrections() == self.book.fact("corrections")
        is_settled = is_known and not self.book.fact("stale")
        self.set_facts(stale="yes")
        change_corrections(self._folder, added, replacing)
        self.set_facts(corrections=self._digest_of_corrections())
        # A correction without a student is for all.
        is_for_all = "" in students or not is_settled
        self._write_results(None if is_for_all else sorted(students))

    @contextlib.contextmanager
    def changing_results(self, students: Iterable[str]) -> Iterator[Store]:
        """A transaction, after which the results of these students are written.

        Killed in between, the next grading writes them.
        """
        is_settled = not self.book.fact("stale")
        with self.transaction():
            self._store.set_facts({"stale": "yes"})
            yield self._store
        self._write_results(dict.fromkeys(students) if is_settled else None)

    def _digest_of_corrections(self) -> str:
        """The digest of the file of corrections; empty where there are none. Raises CorrectionsError."""
        if not self.book.corrections():
            return ""
        return hashlib.sha256(corrections_text(self._folder).encode()).hexdigest()

    def _write_results(self, students: Iterable[str] | None = None) -> None:
        """Write what counts of these students, None for the class, after which all results are settled."""
        names = [s.id for s in self.book.students()] if students is None else students
        for student in names:
            self.write_result(student)
        self.settled()

    def settled(self) -> None:
        """The results on the disk are what counts."""
        self.set_facts(stale="")

    # --- students and attempts ------------------------------------------------------------------

    def keep_student(self, student: StudentInfo) -> None:
        """Know a student, also one who handed in nothing; within a transaction.

        What a roster said before stays where nothing is said now.
        """
        before = self._store.student(student.id)
        if before is not None:
            student = StudentInfo(
                id=student.id,
                name=student.name or before.name,
                email=student.email or before.email,
                ids={**before.ids, **student.ids},
            )
        if student != before:
            self._store.put_student(student)

    def register(
        self, handed_in: submissions.Attempt, submission: Submission, *, whole: bool = True
    ) -> Attempt:
        """The row of an attempt, which is the one that the same files of that time had before.

        Found again it is no other attempt, and gets no second verdict; a time that was not known is kept.
        `whole` says that the submission has all files of its student, so that an earlier attempt that
        has more is of a course that dropped exercises, and not another one. Within a transaction.
        """
        student, time = handed_in.student.id, handed_in.submitted_at
        digest = submission.info().digest
        self.keep_student(handed_in.student)
        if whole:
            self._know_again(student, submission, digest)
        attempts = self._store.attempts_of(student)
        same = [attempt for attempt in attempts if attempt.digest == digest]
        by_time = {a.submitted_at: a for a in sorted(same, key=lambda a: a.submitted_at)}
        before = by_time.get(time, by_time.get(""))
        if before is None and not time:
            before = next(reversed(by_time.values()), None)
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
            attempt = self._store.add_attempt(attempt)
        elif time or "" in by_time:
            self._store.update_attempt(attempt)
        else:
            attempt = before
        for exercise, file in submission.files.items():
            self._store.put_file(attempt.id, exercise, file, source_digest(file))
        return attempt

    def _know_again(self, student: str, submission: Submission, digest: str) -> None:
        """Give attempts their digest of today, if they are of these files and the course dropped exercises.

        A file for an exercise that is new in the course makes an attempt of its own.
        """
        attempts = self._store.attempts_of(student)
        if any(attempt.digest == digest for attempt in attempts):
            return
        now = {exercise: source_digest(file) for exercise, file in submission.files.items()}
        before = self._store.digests_of(student)
        for attempt in reversed(attempts):
            if all(before.get(name, {}).get(attempt.id, "") == d for name, d in now.items()):
                for same in attempts:
                    if same.digest == attempt.digest:
                        self._store.update_attempt(msgspec.structs.replace(same, digest=digest))
                return

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
        """Keep a verdict on a file of an attempt; within a transaction.

        `waited_for`: the result says that there is no verdict yet. A reader sees until then that it is not
        judged, and no total without it. A verdict that is there stays until the new one takes its place.
        """
        if not waited_for:
            self._store.set_aside(self.book.revision, attempt.id, result.name)
        verdict = Verdict(
            status=result.status,
            score=result.score,
            max_score=result.max_score,
            packed=packed(result),
            graded_at=now(),
            seed=seed,
            environment=environment,
        )
        self._store.put_verdict(attempt.id, result.name, key, verdict, replace=not waited_for)

    def look_at(self, student: str, exercise: str, entries: Iterable[Attention]) -> None:
        """Let these entries take the place of those on an exercise of a student; within a transaction."""
        before = self.book.attention()
        kept = [entry for entry in before if (entry.student, entry.exercise) != (student, exercise)]
        order = list(Reason)
        after = sorted((*kept, *entries), key=lambda e: (order.index(e.kind), e.student))
        if tuple(after) != before:
            self._store.set_facts({"attention": after})

    def write_result(self, student: str) -> None:
        """Write the result that counts of a student as JSON, whole or not at all."""
        if (entry := self.book.entry_of(student)) is None:
            return
        path = self._folder / "results" / f"{safe_name(student)}.json"
        text = to_json(entry.result)
        if path.is_file() and path.read_bytes() == text:
            return
        draft = path.with_suffix(".part")
        with writing(path):
            draft.write_bytes(text)
            draft.replace(path)
