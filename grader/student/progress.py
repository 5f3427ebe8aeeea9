"""The memory of a student's own course folder: passed exercises, hints seen, and backups.

`.grade/state.json` beside `exercises/` belongs to the student: plain text, read by no other program and never
sent anywhere, left alone by git (the folder ignores itself), and worth nothing to a grader. It ties each
verdict, of the tests that are here and of the server's, to the digests of the file and of the tests: an
exercise is done while both are what they were, so that an edited file is not, and one that is put back is
done again.
"""

from __future__ import annotations

import datetime
import enum
import os
from collections.abc import Callable, Collection, Container, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course, Exercise
from grader.files import write_whole
from grader.results import ExerciseResult, Status
from grader.submissions import ExerciseFile, State
from grader.submissions.source import code_digest
from grader.text import counted, utc

FOLDER = ".grade"
FILE = "state.json"
FORMAT_VERSION = 1
# A course of a thousand exercises stays far below.
_MAX_BYTES = 2_000_000


class Standing(enum.Enum):
    """How far an exercise is, in the words of a list."""

    FULL_MARKS = "full marks"
    DONE = "done"
    EDITED_SINCE = "edited since"
    TESTS_CHANGED = "tests changed"
    BEGUN = "begun"
    OPEN = "open"
    INVALID = "not valid Python"
    MISSING = "missing"
    UNREADABLE = "unreadable"

    @property
    def is_done(self) -> bool:
        """Whether the tests that are here pass, or the server's do."""
        return self in (Standing.DONE, Standing.FULL_MARKS)


def standing_words(standing: Standing, course: Course) -> str:
    """A standing in words: with public tests alone nothing is done, for others decide about marks."""
    if standing is Standing.DONE and course.is_public:
        return "public tests passed"
    return standing.value


class Completion(NamedTuple):
    """How far a student is: `done` of `whole`, in exercises, and that in words."""

    done: int
    whole: int
    words: str


def progress_of(
    standings: Collection[Standing], course: Course, *, by_all_tests: bool = False
) -> Completion:
    """How many of these exercises are done: `3 of 6 done`.

    With public tests alone, those with full marks from the server are counted once there is one, or where
    a verdict of the server is shown.
    """
    count, done = len(standings), sum(standing.is_done for standing in standings)
    if not course.is_public:
        return Completion(done, count, f"{done} of {count} done")
    full = list(standings).count(Standing.FULL_MARKS)
    if not full and not by_all_tests:
        return Completion(done, count, f"Exercises that pass all public tests: {done} of {count}")
    words = f"Full marks: {full} of {counted(count, 'exercise')}"
    if more := done - full:
        words += (
            f", {more}{' more' * bool(full)} {'passes' if more == 1 else 'pass'} the public tests"
        )
    return Completion(full, count, words)


def next_open(
    course: Course, done: Container[str], after: str, *, in_turn: bool = False
) -> Exercise | None:
    """The exercise to go on with after this one: in the order of the course, then from its beginning.

    Those of the assignment that is due next come first, and among them one whose prerequisites are all done;
    `in_turn`, for a key that walks through all of them, takes each as it comes.
    """
    place = course.exercises.index(course.exercise(after))
    around = (*course.exercises[place + 1 :], *course.exercises[:place])
    candidates = [e for e in around if e.id not in done]
    if not in_turn:
        urgent = course.urgencies()
        # Stable: of those that are ready, and of those that are not, the order stays.
        candidates.sort(
            key=lambda e: (
                urgent[e.id],
                any(p not in done for p in e.prerequisites),
            )
        )
    return candidates[0] if candidates else None


_FROM_FILE = {
    State.MISSING: Standing.MISSING,
    State.UNREADABLE: Standing.UNREADABLE,
    State.EMPTY: Standing.OPEN,
    State.UNTOUCHED: Standing.OPEN,
    State.INVALID: Standing.INVALID,
    State.EDITED: Standing.BEGUN,
}


class KeptScore(msgspec.Struct, frozen=True):
    """Points, and the digests of the file and of the tests that they are about."""

    file: str
    tests: str
    score: float
    max_score: float
    at: str


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """One exercise: the last verdict, the last full one, the server's last one, and the hints seen in order."""

    judged: KeptScore | None = None
    passed: KeptScore | None = None
    served: KeptScore | None = None
    hints: tuple[int, ...] = ()


class _Book(msgspec.Struct, frozen=True):
    about: str = "Your own progress, kept by `grade`. Delete it and you start afresh."
    format_version: int = FORMAT_VERSION
    exercises: dict[str, Page] = {}


class Logbook:
    """The student's progress in the folder of a course.

    Nothing here ends a command: that the file could not be read, or could not be written, is told as
    a notice.
    """

    def __init__(self, course: Course) -> None:
        self._notices: list[str] = []
        self._course = course
        self._file = course.root / FOLDER / FILE
        self._digests: dict[str, str] = {}
        self._looked: dict[str, tuple[tuple[bytes | None, str], Standing]] = {}
        self._writable = True
        self._book = self._read()

    def take_notices(self) -> list[str]:
        """The sentences that the student has to be told, each of them once."""
        taken, self._notices = self._notices, []
        return taken

    # --- reading --------------------------------------------------------------------------------

    def page(self, exercise: Exercise) -> Page:
        """The page of an exercise; an empty one where nothing was noted yet."""
        return self._book.exercises.get(exercise.id, Page())

    def standing(self, exercise: Exercise, handed: ExerciseFile) -> Standing:
        """How far the exercise is, as its file is now."""
        page = self.page(exercise)
        served = self._current(page.served, exercise, handed)
        if served is not None and served.score >= served.max_score:
            return Standing.FULL_MARKS
        if self._current(page.passed, exercise, handed) is not None:
            return Standing.DONE
        standing = self._by_file(exercise, handed)
        if standing is Standing.BEGUN and page.passed is not None:
            same = page.passed.file == digest_of(handed.source)
            return Standing.TESTS_CHANGED if same else Standing.EDITED_SINCE
        return standing

    def _current(
        self, kept: KeptScore | None, exercise: Exercise, handed: ExerciseFile
    ) -> KeptScore | None:
        """A kept score, if it is about the file and the tests as they are now."""
        if kept is None or kept.file != digest_of(handed.source):
            return None
        return kept if kept.tests == self._tests(exercise) else None

    def _by_file(self, exercise: Exercise, handed: ExerciseFile) -> Standing:
        """The standing by the file alone, kept: `grade watch` asks at every save, of every exercise."""
        key = handed.source, handed.problem
        standing = self._looked.get(exercise.id)
        if standing is None or standing[0] != key:
            standing = key, _FROM_FILE[handed.state(self._course.stub(exercise))]
            self._looked[exercise.id] = standing
        return standing[1]

    def standings(self, files: Mapping[str, ExerciseFile]) -> dict[str, Standing]:
        """The standing of every exercise of the course, in the order in which they are proposed."""
        return {e.id: self.standing(e, files[e.id]) for e in self._course.by_urgency()}

    def first_open(self, files: Mapping[str, ExerciseFile]) -> Exercise | None:
        """The first exercise that is not done, of those that are proposed; None if every one is done."""
        proposed = self._course.by_urgency()
        return next((e for e in proposed if not self.standing(e, files[e.id]).is_done), None)

    @property
    def is_served(self) -> bool:
        """Whether a server has judged a file of this folder."""
        return any(page.served is not None for page in self._book.exercises.values())

    def score(self, exercise: Exercise, handed: ExerciseFile) -> KeptScore | None:
        """The points of the file as it is now; None if it was not judged like this.

        With public tests alone they are those of the server.
        """
        page = self.page(exercise)
        score = page.served if self._course.is_public else page.judged
        return self._current(score, exercise, handed)

    def unseen_hints(self, exercise: Exercise) -> list[int]:
        """The numbers of the hints that were not seen yet."""
        seen = self.page(exercise).hints
        return [number for number in range(1, len(exercise.hints) + 1) if number not in seen]

    def next_hint(self, exercise: Exercise) -> int:
        """The number of the hint to show: the first one not seen; after all of them, round again."""
        if unseen := self.unseen_hints(exercise):
            return unseen[0]
        return self.page(exercise).hints[-1] % len(exercise.hints) + 1

    # --- writing --------------------------------------------------------------------------------

    def record(self, exercise: Exercise, source: bytes | None, result: ExerciseResult) -> None:
        """Remember the verdict of all of an exercise's tests on this source.

        A missing file, one in which nothing is written yet and a fault of the grader are no verdicts.
        """
        if source is not None:
            self._record(exercise, digest_of(source), result, "judged")

    def record_served(self, exercise: Exercise, digest: str, result: ExerciseResult) -> None:
        """Remember the server's verdict, of all tests, on the file with this SHA-256."""
        self._record(exercise, digest, result, "served")

    def _record(self, exercise: Exercise, digest: str, result: ExerciseResult, field: str) -> None:
        if result.status in (Status.NOT_ATTEMPTED, Status.UNJUDGED):
            return
        verdict = KeptScore(digest, self._tests(exercise), result.score, result.max_score, utc())
        fields = {field: verdict}
        if result.status is Status.PASSED:
            fields["passed"] = verdict
        self._change(exercise, lambda page: msgspec.structs.replace(page, **fields))

    def see_hint(self, exercise: Exercise, number: int) -> None:
        """Remember that a hint was shown, and that it was the last one."""

        def seen(page: Page) -> Page:
            others = (hint for hint in page.hints if hint != number)
            return msgspec.structs.replace(page, hints=(*others, number))

        if self.page(exercise).hints[-1:] != (number,):
            self._change(exercise, seen)

    def _change(self, exercise: Exercise, change: Callable[[Page], Page]) -> None:
        """Change a page of the book, and write the book whole or not at all."""
        # Read again: a `grade watch` in another window may have written meanwhile.
        if self._writable:
            self._book = self._read()
        pages = {**self._book.exercises, exercise.id: change(self.page(exercise))}
        self._book = msgspec.structs.replace(self._book, exercises=pages)
        if not self._writable:
            return
        try:
            make_folder(self._file.parent)
            write_whole(self._file, msgspec.json.format(msgspec.json.encode(self._book), indent=2))
        except OSError as error:
            self._tell(
                f"Your progress cannot be kept in {self._file}: {error.strerror}. What passes now is "
                "forgotten: make that folder writable."
            )

    def _tests(self, exercise: Exercise) -> str:
        """The digest of what judges the exercise."""
        if exercise.id not in self._digests:
            # Imported when there is something to compare with: not in a fresh clone.
            from grader.course.digest import exercise_digest

            self._digests[exercise.id] = exercise_digest(self._course, exercise)
        return self._digests[exercise.id]

    def _read(self) -> _Book:
        """The book as it is on the disk; an empty one where it cannot be read."""
        try:
            with self._file.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return _Book()
        except OSError as error:
            self._writable = False
            self._tell(
                f"Your progress in {self._file} cannot be read: {error.strerror}. Nothing is kept "
                "until it can be, or is moved away."
            )
            return _Book()
        try:
            book = msgspec.json.decode(content, type=_Book)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._set_aside("is damaged")
        if book.format_version != FORMAT_VERSION:
            return self._set_aside(f"is of format {book.format_version}, not {FORMAT_VERSION}")
        return book

    def _set_aside(self, why: str) -> _Book:
        """Start afresh, and lose nothing: what cannot be read may be mended by hand."""
        aside = unused(self._file.with_name(f"state.{stamp()}.broken.json"))
        try:
            self._file.rename(aside)
        except OSError:
            self._writable = False
            self._tell(
                f"Your progress file {self._file} {why}; nothing is written over it, and nothing is "
                "kept until it is moved away."
            )
        else:
            self._tell(
                f"Your progress file {why}: it is kept as {aside}, and a new one is begun. "
                "`grade --all` finds out again what passes."
            )
        return _Book()

    def _tell(self, notice: str) -> None:
        if notice not in self._notices:
            self._notices.append(notice)


def make_folder(folder: Path) -> None:
    """Make `.grade` with a .gitignore of its own, so that it is never committed."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")


def digest_of(source: bytes | None) -> str:
    """The digest of a file, by which a verdict is of it; empty where there is none."""
    return "" if source is None else code_digest(source)


def stamp() -> str:
    """The current time, as the names of kept files have it."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")


def unused(path: Path) -> Path:
    """The path, or one beside it with a number: nothing is written over."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
