"""The memory of a student's own course folder: passed exercises, hints seen, and backups.

`.grade/state.json` beside `exercises/` belongs to the student. It is plain text that no other program reads; it
is never sent anywhere, is ignored by git (the folder ignores itself), and means nothing to a grader. It ties
each verdict, of local tests and of the server's, to the digests of the file and the tests: an exercise is done
while both are unchanged. So an edited file is not done, and a restored one is done again.
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
# Far more than a course of a thousand exercises needs.
_MAX_BYTES = 2_000_000


class Standing(enum.Enum):
    """The state of an exercise, in the words of a list."""

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
        """Whether the local tests pass, or the server's do."""
        return self in (Standing.DONE, Standing.FULL_MARKS)

    @property
    def has_work(self) -> bool:
        """Whether the file holds work of the student's, done or not."""
        return self not in (Standing.OPEN, Standing.MISSING)


def standing_words(standing: Standing, course: Course) -> str:
    """Return a standing in words. With only public tests, nothing is done, since other tests decide marks."""
    if standing is Standing.DONE and course.is_public:
        return "public tests passed"
    return standing.value


class Completion(NamedTuple):
    """A student's progress: `done` of `whole` exercises, and the same in words."""

    done: int
    whole: int
    words: str


def progress_of(
    standings: Collection[Standing], course: Course, *, by_all_tests: bool = False
) -> Completion:
    """Count the exercises that are done: `3 of 6 done`.

    With only public tests, exercises with full marks from the server are counted instead, once there is one or
    while a verdict of the server is shown.
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


def first_open(course: Course, standings: Mapping[str, Standing]) -> str | None:
    """Return the exercise to continue with; None if all outside of exams are done.

    Among the exercises that are due next and not done, it is the first one that was begun, else the first one.
    """
    exams, urgent = course.not_proposed, course.urgencies()
    names = [e for e, standing in standings.items() if not standing.is_done and e not in exams]
    return min(names, key=lambda e: (urgent[e], not standings[e].has_work), default=None)


def next_open(
    course: Course,
    done: Container[str],
    after: str,
    *,
    begun: Container[str] = (),
    in_turn: bool = False,
) -> Exercise | None:
    """Return the exercise to continue with after this one: in the order of the course, then from its beginning.

    Exercises of the assignment that is due next come first, among them those that were `begun`, then those
    whose prerequisites are all done; `in_turn`, for a key that visits all of them, takes each in order.
    Exercises of exams are left out.
    """
    place = course.exercises.index(course.exercise(after))
    around = (*course.exercises[place + 1 :], *course.exercises[:place])
    exams = course.not_proposed
    candidates = [e for e in around if e.id not in done and e.id not in exams]
    if not in_turn:
        urgent = course.urgencies()
        # Stable: ready exercises keep their order, and so do the others.
        candidates.sort(
            key=lambda e: (
                urgent[e.id],
                e.id not in begun,
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
    """Points, and the digests of the file and the tests that they belong to."""

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

    Problems with reading or writing the file never end a command; they become notices.
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
        """Return the notices for the student, each only once."""
        taken, self._notices = self._notices, []
        return taken

    # --- reading --------------------------------------------------------------------------------

    def page(self, exercise: Exercise) -> Page:
        """Return the page of an exercise; an empty one if nothing was recorded yet."""
        return self._book.exercises.get(exercise.id, Page())

    def standing(self, exercise: Exercise, handed: ExerciseFile) -> Standing:
        """Return the standing of an exercise, for the current content of its file."""
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
        """Return a kept score if it belongs to the current file and tests."""
        if kept is None or kept.file != digest_of(handed.source):
            return None
        return kept if kept.tests == self._tests(exercise) else None

    def _by_file(self, exercise: Exercise, handed: ExerciseFile) -> Standing:
        """Return the standing by the file only, cached: `grade watch` asks for every exercise at every save."""
        key = handed.source, handed.problem
        standing = self._looked.get(exercise.id)
        if standing is None or standing[0] != key:
            standing = key, _FROM_FILE[handed.state(self._course.stub(exercise))]
            self._looked[exercise.id] = standing
        return standing[1]

    def standings(self, files: Mapping[str, ExerciseFile]) -> dict[str, Standing]:
        """Return the standing of every exercise of the course, in the order in which they are proposed."""
        return {e.id: self.standing(e, files[e.id]) for e in self._course.by_urgency()}

    def first_open(self, files: Mapping[str, ExerciseFile]) -> Exercise | None:
        """Return the exercise to continue with; None if all outside of exams are done."""
        name = first_open(self._course, self.standings(files))
        return None if name is None else self._course.exercise(name)

    @property
    def is_served(self) -> bool:
        """Whether a server has judged a file of this folder."""
        return any(page.served is not None for page in self._book.exercises.values())

    def score(self, exercise: Exercise, handed: ExerciseFile) -> KeptScore | None:
        """Return the points of the current file; None if it was not judged.

        The server's come first: they count. With only public tests, there are no others.
        """
        page = self.page(exercise)
        served = self._current(page.served, exercise, handed)
        if served is not None or self._course.is_public:
            return served
        return self._current(page.judged, exercise, handed)

    def unseen_hints(self, exercise: Exercise) -> list[int]:
        """Return the numbers of hints that were not seen yet."""
        seen = self.page(exercise).hints
        return [number for number in range(1, len(exercise.hints) + 1) if number not in seen]

    def next_hint(self, exercise: Exercise) -> int:
        """Return the number of the next hint: the first one not seen; after all of them, the next in turn."""
        if unseen := self.unseen_hints(exercise):
            return unseen[0]
        return self.page(exercise).hints[-1] % len(exercise.hints) + 1

    # --- writing --------------------------------------------------------------------------------

    def record(self, exercise: Exercise, source: bytes | None, result: ExerciseResult) -> None:
        """Remember the verdict of all of an exercise's tests on this source.

        A missing file, an untouched one and a fault of the grader are not verdicts.
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
        """Remember that a hint was shown last."""

        def seen(page: Page) -> Page:
            others = (hint for hint in page.hints if hint != number)
            return msgspec.structs.replace(page, hints=(*others, number))

        if self.page(exercise).hints[-1:] != (number,):
            self._change(exercise, seen)

    def _change(self, exercise: Exercise, change: Callable[[Page], Page]) -> None:
        """Change a page of the book, and write the book completely or not at all."""
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
        """Return the digest of everything that judges the exercise."""
        if exercise.id not in self._digests:
            # Imported only when there is a digest to compare, so not in a fresh clone.
            from grader.course.digest import exercise_digest

            self._digests[exercise.id] = exercise_digest(self._course, exercise)
        return self._digests[exercise.id]

    def _read(self) -> _Book:
        """Return the book on the disk; an empty one if it cannot be read."""
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
        """Begin a new book, and keep the unreadable one, which a person may mend."""
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
                "Run `grade --all` to see again what passes."
            )
        return _Book()

    def _tell(self, notice: str) -> None:
        if notice not in self._notices:
            self._notices.append(notice)


def make_folder(folder: Path) -> None:
    """Make `.grade` with its own .gitignore, so that it is never committed."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")


def digest_of(source: bytes | None) -> str:
    """Return the digest that ties a verdict to a file; empty if there is no file."""
    return "" if source is None else code_digest(source)


def stamp() -> str:
    """Return the current time, as used in names of kept files."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")


def unused(path: Path) -> Path:
    """Return the path, or one beside it with a number, so that nothing is overwritten."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
