"""One attempt as it lies in a download, and the exercise files that are found in it.

What was handed in is a folder, files, archives, or members of one large archive: its pieces. In each
of them an exercise's file may stand flat, under its chapter, under `exercises/`, and below any other
folders; the nearest one counts. Where two are equally near and differ, neither is guessed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from grader.course.manifest import Course, Exercise
from grader.results import StudentInfo
from grader.submissions.archive import (
    MAX_CODE_NAMES,
    Candidate,
    Listing,
    list_archive,
    looks_like_code,
    looks_packed,
)
from grader.submissions.folder import Unreadable, open_regular, walk
from grader.submissions.source import is_untouched
from grader.submissions.submission import (
    MAX_FILE_BYTES,
    ExerciseFile,
    Submission,
    message_of,
    requested,
)
from grader.submissions.zip import Member, read_member
from grader.text import clean

# An archive within a class's archive is unpacked into memory.
MAX_NESTED_BYTES = 32 << 20
_MAX_ARCHIVES = 3
_MAX_ALIKE = 8
_MAX_REQUESTS = 100
# `glu-1.py` is Canvas's and `glu (1).py` a browser's name for a second `glu.py`.
_SCRIPT = re.compile(r"(?P<stem>.+?)(?P<copy>-\d{1,3}| ?\(\d{1,3}\))?\.py", re.IGNORECASE)
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class AttemptFile(msgspec.Struct, frozen=True):
    """A file or folder of an attempt: what the student called it, and where its bytes are."""

    path: str
    place: Path | Member


class ClassAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as it lies in a download; the first fields are as in `results.Entry`.

    `path` is the student's folder or file, or the archive of the class that holds the pieces. With a
    `problem` nothing of it can be read, and every exercise shows that line.
    """

    student: StudentInfo
    attempt: int = 1
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    path: Path
    members: tuple[AttemptFile, ...] = ()
    problem: str = ""


def read_attempt(attempt: ClassAttempt, course: Course) -> Submission:
    """Read the exercise files of an attempt, bounded in time and memory, with nothing on the disk.

    Never raises for what was handed in: what cannot be read has a `problem`.
    """
    if attempt.problem:
        refused = ExerciseFile(None, attempt.problem, attempt.path)
        files = {exercise.id: refused for exercise in course.exercises}
        return Submission(attempt.student.id, files)
    gathered = gather(attempt.members, attempt.path, course)
    return Submission(attempt.student.id, gathered.files, gathered.requests)


def is_named_after(course: Course, name: str) -> bool:
    """Whether a file has the name of an exercise, or nearly so."""
    return any(_likeness(exercise, name) is not None for exercise in course.exercises)


def nearest_below(folder: Path, exercise: Exercise) -> Path | None:
    """Where the file of an exercise stands in the folders below, if anywhere; for a message."""
    with contextlib.suppress(Unreadable):
        ranked = [
            (rank, str(file.place))
            for file in walk(folder)
            if (rank := _rank(exercise, file.path)) is not None
        ]
        return Path(min(ranked)[1]) if ranked else None
    return None


def _likeness(exercise: Exercise, name: str) -> int | None:
    """How nearly a file is named after an exercise: 0 for exactly so, None for not at all."""
    if name[-3:].lower() != ".py" or name[: len(exercise.id)].lower() != exercise.id:
        return None
    if name == f"{exercise.id}.py":
        return 0
    match = _SCRIPT.fullmatch(name)
    if match is None or match["stem"].lower() != exercise.id:
        return None
    return 1 if match["stem"] == exercise.id else 2


def speaks_of(exercise: Exercise, name: str) -> bool:
    """Whether the words of a file's name hold those of an exercise: `glu_solution.py`, `MyGlu2.py`."""
    if not looks_like_code(name):
        return False
    text = _CAPITAL.sub(" ", name.lstrip(".").partition(".")[0]).casefold()
    words = [word.rstrip("0123456789") for word in re.findall(r"[^\W_]+", text)]
    return f" {exercise.id.replace('_', ' ')} " in f" {' '.join(words)} " and words[0] != "test"


def beside_stub(course: Course, exercise: Exercise, source: bytes, names: Iterable[str]) -> str:
    """What to say of code that stands under another name beside an untouched stub; empty if none does."""
    near = [n for n in names if speaks_of(exercise, n) and not is_named_after(course, n)]
    if not near or not is_untouched(source, course.stub(exercise).source):
        return ""
    listed = ", ".join(clean(name, 40) for name in sorted(near)[:3])
    what = "which is no exercise's name" if len(near) == 1 else "which are no exercises' names"
    return (
        f"Handed in besides: {listed}, {what}. Only {exercise.id}.py is judged: put the code there."
    )


def _squeezed(name: str) -> str:
    """A name without what is mistaken most easily in it: capitals and signs."""
    return re.sub(r"[\W_]", "", name.casefold())


def _rank(exercise: Exercise, path: str) -> tuple[int, int] | None:
    """How well a path fits an exercise, the smaller the better: by its name, and by how deep it lies."""
    *folders, name = path.split("/")
    likeness = _likeness(exercise, name)
    if likeness is None:
        return None
    for own in (exercise.chapter, "exercises"):
        if folders and folders[-1].lower() == own:
            folders.pop()
    return likeness, len(folders)


class Gathered(NamedTuple):
    """The file of every exercise of the course, and the requests to look at one again, by exercise id."""

    files: dict[str, ExerciseFile]
    requests: dict[str, str]


def gather(pieces: Sequence[AttemptFile], path: Path, course: Course) -> Gathered:
    """What is found of the course in the pieces."""
    with contextlib.ExitStack() as opened:
        gathering = _Gathering(path, course, opened)
        for piece in pieces:
            gathering.add(piece)
        gathering.unpack()
        files = {exercise.id: gathering.handed(exercise) for exercise in course.exercises}
        return Gathered(files, gathering.requests())


class _Gathering:
    """The pieces of one attempt as lists of candidates: one for what lies open, one an archive."""

    def __init__(self, path: Path, course: Course, opened: contextlib.ExitStack) -> None:
        self._path, self._course, self._opened = path, course, opened
        self._open: list[tuple[Candidate, Path]] = []
        self._packed: list[AttemptFile] = []
        self._listings: list[tuple[Listing, Path]] = []
        self._asked: list[Candidate] = []
        self._others: list[str] = []
        self._problems: list[tuple[str, Path]] = []

    def add(self, piece: AttemptFile) -> None:
        """Sort a file to what lies open or to the archives; look into a folder."""
        if isinstance(piece.place, Path) and not piece.path:
            try:
                # All or nothing: in a folder of too many, which ones come first is chance.
                for file in list(walk(piece.place)):
                    self._add_file(AttemptFile(file.path, file.place))
            except Unreadable as problem:
                self._problems.append((str(problem), piece.place))
        else:
            self._add_file(piece)

    def _add_file(self, piece: AttemptFile) -> None:
        name = piece.path.rpartition("/")[2]
        candidate = Candidate(piece.path, functools.partial(self._read, piece))
        if requested(self._course, name):
            self._asked.append(candidate)
        elif is_named_after(self._course, name):
            self._open.append((candidate, self._path_of(piece)))
        elif looks_packed(name):
            self._packed.append(piece)
        elif len(self._others) < (MAX_CODE_NAMES if looks_like_code(name) else 3):
            is_link = isinstance(piece.place, Path) and piece.place.is_symlink()
            self._others.append(f"{name} (a link)" if is_link else name)

    def unpack(self) -> None:
        """List the archives; one that cannot be read is a problem of what is in no other piece."""
        if len(self._packed) > _MAX_ARCHIVES:
            problem = f"There are {len(self._packed)} archives: hand in one."
            self._problems.append((problem, self._path))
            return
        for piece in sorted(self._packed, key=lambda packed: packed.path):
            try:
                file = self._opened.enter_context(self._archive(piece))
                listing = list_archive(file, piece.path, self._is_listed)
            except Unreadable as problem:
                self._problems.append((str(problem), self._path_of(piece)))
            else:
                work = [file for file in listing.candidates if not self._asks(file)]
                self._asked += filter(self._asks, listing.candidates)
                self._listings.append((Listing(work, listing.others), self._path_of(piece)))
                self._others += listing.others

    def handed(self, exercise: Exercise) -> ExerciseFile:
        """The file of one exercise, or why there is none."""
        nearest = list(self._nearest(exercise))
        if not nearest:
            return self._missing(exercise)
        path = nearest[0][1]
        try:
            source = self._only(exercise, [file for file, _ in nearest])
        except Unreadable as problem:
            return ExerciseFile(None, str(problem), path)
        beside = beside_stub(self._course, exercise, source, self._others)
        return ExerciseFile(source, beside, path, seems_misnamed=bool(beside))

    def requests(self) -> dict[str, str]:
        """The messages of the requests; one that cannot be read says so to the person who answers it."""
        texts: dict[str, dict[str, None]] = {}
        for candidate in sorted(self._asked, key=lambda request: request.path)[:_MAX_REQUESTS]:
            try:
                text = candidate.read().decode("utf-8-sig", "replace")
            except Unreadable as problem:
                text = f"(The request cannot be read: {problem})"
            exercise = self._asks(candidate)
            if exercise and (message := message_of(text)):
                texts.setdefault(exercise, {})[message] = None
        return {exercise: message_of(" ".join(own)) for exercise, own in texts.items()}

    def _asks(self, candidate: Candidate) -> str | None:
        return requested(self._course, candidate.path.rpartition("/")[2])

    def _nearest(self, exercise: Exercise) -> Iterator[tuple[Candidate, Path]]:
        """The best named and nearest files, of the folders and of each archive."""
        sources = [
            [(candidate, path) for candidate in listing.candidates]
            for listing, path in self._listings
        ]
        for source in (self._open, *sources):
            ranked = [
                (rank, (candidate, path))
                for candidate, path in source
                if (rank := _rank(exercise, candidate.path)) is not None
            ]
            best = min((rank for rank, _ in ranked), default=None)
            yield from (candidate for rank, candidate in ranked if rank == best)

    def _only(self, exercise: Exercise, candidates: list[Candidate]) -> bytes:
        """The one file that is meant: several must be equal, except for a stub beside the work."""
        if len(candidates) > _MAX_ALIKE:
            raise Unreadable(f"{exercise.id}.py is there {len(candidates)} times: hand in one.")
        contents = {candidate.read(): candidate.path for candidate in candidates}
        if len(contents) > 1:
            stub = self._course.stub(exercise).source
            contents = {
                source: path for source, path in contents.items() if not is_untouched(source, stub)
            } or dict([contents.popitem()])
        if len(contents) > 1:
            paths = ", ".join(sorted({clean(path, 60) for path in contents.values()}))
            raise Unreadable(
                f"{exercise.id}.py is there {len(contents)} times, and they differ ({paths}): "
                "hand in one of them."
            )
        return next(iter(contents))

    def _missing(self, exercise: Exercise) -> ExerciseFile:
        problem = f"{exercise.file} is missing: hand it in under this name."
        has_work = self._open or any(listing.candidates for listing, _ in self._listings)
        if self._problems and not has_work:
            return ExerciseFile(None, *self._problems[0])
        if self._problems:
            return ExerciseFile(None, f"{problem} And {self._problems[0][0]}")
        # A wrong name is the student's slip, and a person should see it: it is not for us to guess.
        code = [name for name in self._others if looks_like_code(name)]
        near = [name for name in code if _squeezed(exercise.id) in _squeezed(name)]
        if not has_work:
            names = ", ".join(
                clean(name, 40)
                for name in sorted(self._others, key=lambda n: (n not in near, n))[:3]
            )
            problem += f" What was handed in is {names}." if names else " Nothing was handed in."
            if any(looks_packed(name) for name in self._others[:3]):
                problem += " An archive in an archive is not opened."
        elif names := ", ".join(clean(name, 40) for name in sorted(near or code)[:3]):
            problem += f" Handed in besides: {names}."
        return ExerciseFile(None, problem, seems_misnamed=bool(near))

    def _is_listed(self, name: str) -> bool:
        """Whether a file of this name in an archive is an exercise's, or a request."""
        return is_named_after(self._course, name) or requested(self._course, name) is not None

    def _path_of(self, piece: AttemptFile) -> Path:
        return piece.place if isinstance(piece.place, Path) else self._path

    def _read(self, piece: AttemptFile) -> bytes:
        if isinstance(piece.place, Member):
            return read_member(piece.place, MAX_FILE_BYTES)
        with open_regular(piece.place, piece.path) as file:
            source = file.read(MAX_FILE_BYTES + 1)
        if len(source) > MAX_FILE_BYTES:
            raise Unreadable(f"{clean(piece.path)} is larger than {MAX_FILE_BYTES:,} bytes.")
        return source

    def _archive(self, piece: AttemptFile) -> BinaryIO:
        if isinstance(piece.place, Path):
            return open_regular(piece.place, piece.path)
        if piece.place.size > MAX_NESTED_BYTES:
            raise Unreadable(
                f"{clean(piece.path)} is larger than {MAX_NESTED_BYTES >> 20} MiB within the "
                "download: unpack the download, and grade its folder."
            )
        return io.BytesIO(read_member(piece.place, MAX_NESTED_BYTES))
