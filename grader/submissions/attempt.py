"""One attempt as it lies in a download, and the exercise files that are found in it.

What was handed in is a folder, files, archives, or members of one large archive: its pieces. Every file
whose name is an exercise's, or nearly so, is a candidate for it, wherever it lies. The likeliest one that
somebody wrote in is judged; of an untouched stub beside it nothing counts. Where two are equally likely and
differ, neither is guessed.

Files that the course gives beside a stub are never taken from an attempt; one that was changed is told.

Whatever else seems to hold work is named to the student and to a person: code under another name, by the
words of that name or by what it defines, and archives that are not opened. Files are read for that only where
an exercise has no work, or where the name of one beside it speaks of the exercise.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from grader.course.manifest import Course, Exercise
from grader.results import StudentInfo
from grader.submissions.archive import (
    Candidate,
    Extras,
    list_archive,
    looks_like_code,
    looks_packed,
)
from grader.submissions.folder import AttemptFile, Unreadable, open_regular, walk
from grader.submissions.names import Rank, is_exactly, is_named_after, is_test, rank, spoken_of
from grader.submissions.source import canonical, is_empty, is_untouched
from grader.submissions.submission import (
    MAX_FILE_BYTES,
    ExerciseFile,
    State,
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
# Of the files that may be one exercise's, and of those with other names: 200 KB each at most.
_MOST_READ = 40
# Of those that are named after some exercise.
_MOST_NAMED = 100
_NAMES_SHOWN = 3
_WORK = (State.EDITED, State.INVALID)
# Why a file of a better name than the one that is judged is not.
_REASONS = {
    State.UNTOUCHED: "is still the stub",
    State.EMPTY: "is empty",
    State.INVALID: "is not valid Python",
    State.UNREADABLE: "cannot be read",
}
# Also in the JSON of a notebook, where a line may begin behind `\n`.
_DEFINED = re.compile(rb"(?:def|class)[ \t]+([A-Za-z]\w*)")
_AT_TOP = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as it lies in a download; the first fields are as in `results.Entry`.

    `path` is the student's folder or file, or the archive of the class that holds the pieces. An attempt with a
    `problem` cannot be read, and every exercise shows that line.
    """

    student: StudentInfo
    attempt: int = 1
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    path: Path
    members: tuple[AttemptFile, ...] = ()
    problem: str = ""


def read_attempt(attempt: Attempt, course: Course) -> Submission:
    """Read the exercise files of an attempt, bounded in time and memory, with nothing on the disk.

    Never raises for what was handed in: what cannot be read has a `problem`.
    """
    if attempt.problem:
        refused = ExerciseFile(None, attempt.problem, attempt.path)
        files = {exercise.id: refused for exercise in course.exercises}
        return Submission(attempt.student.id, files)
    return gather(attempt.student.id, attempt.members, attempt.path, course)


def nearest_below(folder: Path, exercise: Exercise) -> Path | None:
    """The file of an exercise in the folders below, for a message; None if there is none."""
    with contextlib.suppress(Unreadable):
        ranked = [
            (fits, str(file.place))
            for file in walk(folder)
            if (fits := rank(exercise, file.path)) is not None
        ]
        return Path(min(ranked)[1]) if ranked else None
    return None


def gather(name: str, pieces: Sequence[AttemptFile], path: Path, course: Course) -> Submission:
    """Find the exercises of the course in the pieces, and requests to look at one again."""
    with contextlib.ExitStack() as opened:
        gathering = _Gathering(path, course, opened)
        for piece in pieces:
            gathering.add(piece)
        gathering.unpack()
        return Submission(name, gathering.files(), gathering.requests())


def beside(
    pieces: Sequence[AttemptFile], course: Course, exercise: Exercise, own: ExerciseFile
) -> ExerciseFile:
    """The `own` file, with a sentence on work for the exercise in the pieces around it."""
    with contextlib.ExitStack() as opened:
        gathering = _Gathering(Path(), course, opened)
        for piece in pieces:
            gathering.add(piece)
        return gathering.with_given(exercise, gathering.told(exercise, own))


class _Piece:
    """A file of the attempt, which is read once, and only where something depends on it."""

    def __init__(self, candidate: Candidate, place: Path, course: Course, shown: str = "") -> None:
        self.path, self.place, self._read = candidate.path, place, candidate.read
        self.name = self.path.rpartition("/")[2]
        self.shown = shown or self.name
        self._course = course

    @functools.cached_property
    def file(self) -> ExerciseFile:
        """The file, or why it cannot be read."""
        try:
            return ExerciseFile(self._read(), "", self.place)
        except Unreadable as problem:
            return ExerciseFile(None, str(problem), self.place)

    @functools.cached_property
    def owner(self) -> Exercise | None:
        """The exercise whose name it has, or nearly has."""
        exercises = self._course.exercises
        return is_exactly(exercises, self.name) or next(
            (exercise for exercise in exercises if rank(exercise, self.path) is not None), None
        )

    @functools.cached_property
    def spoken_of(self) -> list[Exercise]:
        """The exercises whose words its name holds."""
        return spoken_of(self._course, self.name)

    @functools.cached_property
    def defined(self) -> frozenset[str]:
        """The functions and classes that seem to be defined in it, also in a notebook or below an error."""
        return frozenset(
            name.decode("ascii", "replace") for name in _DEFINED.findall(self.file.source or b"")
        )


class _Choice(NamedTuple):
    """A file that may be an exercise's: how well its name fits, and how far it came."""

    rank: Rank
    piece: _Piece
    state: State

    @property
    def order(self) -> tuple[bool, Rank]:
        """What is likelier comes first: code before what is not Python, then by the name."""
        return self.state is State.INVALID, self.rank

    @property
    def is_work(self) -> bool:
        """Whether something was written in it."""
        return self.state in _WORK


class _Gathering:
    """The pieces of one attempt: files that are named after an exercise, other ones, and archives."""

    def __init__(self, path: Path, course: Course, opened: contextlib.ExitStack) -> None:
        self._path, self._course, self._opened = path, course, opened
        self._named: list[_Piece] = []
        self._extras: list[_Piece] = []
        # Under the names of files that the course gives with an exercise.
        self._given: list[_Piece] = []
        self._given_names = {name for exercise in course.exercises for name in exercise.given}
        self._kept = Extras(self._is_kin)
        self._packed: list[AttemptFile] = []
        self._asked: list[Candidate] = []
        self._problems: list[tuple[str, Path]] = []
        # The exercises that somebody wrote something for, or that are told to a person.
        self._seen: set[str] = set()

    def add(self, piece: AttemptFile) -> None:
        """Sort a file to what lies open or to the archives; look into a folder."""
        if isinstance(piece.place, Path) and not piece.path:
            try:
                # All or nothing: in a folder of too many, which ones come first is chance.
                for file in list(walk(piece.place)):
                    self._add_file(file)
            except Unreadable as problem:
                self._problems.append((str(problem), piece.place))
        else:
            self._add_file(piece)

    def _add_file(self, piece: AttemptFile) -> None:
        """Sort one file by its name: a request, an exercise's, an archive, or another one."""
        name = piece.path.rpartition("/")[2]
        candidate = Candidate(piece.path, functools.partial(self._read, piece))
        if requested(self._course, name):
            self._asked.append(candidate)
        elif is_named_after(self._course, name):
            self._named.append(_Piece(candidate, self._path_of(piece), self._course))
        elif name in self._given_names:
            self._given.append(_Piece(candidate, self._path_of(piece), self._course))
        elif looks_packed(name):
            self._packed.append(piece)
        elif self._kept.keep(piece.path):
            is_link = isinstance(piece.place, Path) and piece.place.is_symlink()
            shown = f"{name} (a link)" if is_link else name
            self._extras.append(_Piece(candidate, self._path_of(piece), self._course, shown))

    def unpack(self) -> None:
        """List the archives; if one cannot be read, exercises that no other piece has get its problem."""
        if len(self._packed) > _MAX_ARCHIVES:
            problem = f"There are {len(self._packed)} archives: hand in one."
            self._problems.append((problem, self._path))
            return
        for piece in sorted(self._packed, key=lambda packed: packed.path):
            place = self._path_of(piece)
            try:
                file = self._opened.enter_context(self._archive(piece))
                listing = list_archive(file, piece.path, self._is_listed, Extras(self._is_kin))
            except Unreadable as problem:
                self._problems.append((str(problem), place))
            else:
                self._asked += filter(self._asks, listing.candidates)
                for each in listing.candidates:
                    if not self._asks(each):
                        found = _Piece(each, place, self._course)
                        is_given = found.name in self._given_names
                        (self._given if is_given else self._named).append(found)
                self._extras += (_Piece(each, place, self._course) for each in listing.extras)

    # --- the file of an exercise ------------------------------------------------------------------

    def files(self) -> dict[str, ExerciseFile]:
        """The file of each exercise, or why there is none, and what a person has to be told of it."""
        files = {exercise.id: self._handed(exercise) for exercise in self._course.exercises}
        idle = [e.id for e in self._course.exercises if e.id not in self._seen]
        if idle and self._named:
            # Once is enough: it belongs to no exercise more than to another one that is there.
            first = next((name for name in idle if files[name].source is not None), idle[0])
            is_idle = len(idle) == len(files)
            files[first] = self._with_leftovers(files[first], is_idle=is_idle)
        return {e.id: self.with_given(e, files[e.id]) for e in self._course.exercises}

    def _handed(self, exercise: Exercise) -> ExerciseFile:
        """The file of one exercise, or why there is none."""
        ranked = self._ranked(exercise)
        if not ranked:
            return self._missing(exercise)
        first = ranked[0][1]
        if len(ranked) == 1 and not self._has_leftovers and not self._is_elsewhere(exercise):
            return first.file
        choices = self._choices(exercise, ranked)
        written = sorted((c for c in choices if c.is_work), key=lambda choice: choice.order)
        if not written:
            return self.told(exercise, first.file) if choices else self._missing(exercise)
        self._seen.add(exercise.id)
        chosen = written[0]
        equal = [c.piece for c in written if c.order == chosen.order]
        contents = {canonical(piece.file.source or b""): piece.path for piece in equal}
        if len(contents) > 1:
            problem = f"{exercise.id}.py is there {len(contents)} times"
            if len(contents) <= _MAX_ALIKE:
                paths = ", ".join(sorted({clean(path, 60) for path in contents.values()}))
                problem += f", and they differ ({paths}): hand in one of them."
            else:
                problem += ": hand in one."
            return ExerciseFile(None, problem, chosen.piece.place)
        # What the first sentence names the second one need not.
        judged = self._judged(exercise, chosen, choices[0])
        rest = [c for c in written if c is not chosen and not (judged and c is choices[0])]
        sentences = judged, self._not_judged(exercise, chosen.piece, rest)
        return chosen.piece.file.with_note(*filter(None, sentences))

    def _ranked(self, exercise: Exercise) -> list[tuple[Rank, _Piece]]:
        """The files whose names are nearly the exercise's, the likeliest first."""
        found = []
        for piece in (*self._named, *self._extras):
            if piece.owner is exercise and (fits := rank(exercise, piece.path)) is not None:
                found.append((fits, piece))
        return sorted(found, key=lambda pair: pair[0])

    def _choices(self, exercise: Exercise, ranked: list[tuple[Rank, _Piece]]) -> list[_Choice]:
        """How far the files of these names came, the likeliest name first."""
        stub = self._course.stub(exercise)
        choices: list[_Choice] = []
        for fits, piece in ranked[:_MOST_READ]:
            state = piece.file.state(stub)
            if fits.is_text and not (state is State.EDITED and self._holds(exercise, piece)):
                continue
            if choices and state in _WORK and self._is_given(piece):
                state = State.UNTOUCHED
            choices.append(_Choice(fits, piece, state))
        return choices

    def told(self, exercise: Exercise, own: ExerciseFile) -> ExerciseFile:
        """A file that nobody wrote in, with a sentence on what seems to be the work instead."""
        if own.state(self._course.stub(exercise)) in _WORK:
            return own
        near = [piece for piece in self._near(exercise) if piece.file != own]
        if not near:
            return own
        self._seen.add(exercise.id)
        what = ""
        if not any(is_named_after(self._course, piece.name) for piece in near):
            is_one = len(near) == 1
            what = (
                f", which {'is' if is_one else 'are'} no {'exercise' if is_one else 'exercises'}'"
            )
            what += "s name" if is_one else " names"
        name = f"{exercise.id}.py"
        problem = f"Handed in besides: {_listed(near, name)}{what}."
        if any(piece.name != name for piece in near):
            problem += f" Only {name} is judged: put the code there."
        return own.with_note(problem)

    def with_given(self, exercise: Exercise, own: ExerciseFile) -> ExerciseFile:
        """A file that is there, with a sentence on each given file beside it that was changed."""
        if not self._given or own.source is None:
            return own
        chapters = {e.chapter for e in self._course.exercises if e.chapter != exercise.chapter}
        changed = {
            piece.name
            for file, source in self._course.given(exercise).items()
            for piece in self._given[:_MOST_READ]
            if piece.name == Path(file).name
            and piece.path.rpartition("/")[0].rpartition("/")[2] not in chapters
            and not is_untouched(piece.file.source or b"", source)
        }
        return own.with_note(
            *(f"{name} is given: your changes in it are not used." for name in sorted(changed))
        )

    def _missing(self, exercise: Exercise) -> ExerciseFile:
        """Why there is no file of an exercise: what was handed in instead, or what could not be read."""
        problem = f"{exercise.file} is missing: hand it in under this name."
        if self._problems and not self._named:
            return ExerciseFile(None, *self._problems[0])
        # A wrong name is the student's slip, and a person should see it: it is not for us to guess.
        near = self._near(exercise)
        if near:
            self._seen.add(exercise.id)
        if self._problems:
            problem += f" And {self._problems[0][0]}"
        elif not self._named:
            others = (*self._extras, *self._given)
            by_name = sorted(others, key=lambda piece: (piece not in near, piece.shown))
            names = _listed(by_name[:_NAMES_SHOWN])
            problem += f" What was handed in is {names}." if names else " Nothing was handed in."
            if any(looks_packed(piece.name) for piece in self._extras):
                problem += " An archive in an archive is not opened."
        elif names := _listed(near or self._code):
            problem += f" Handed in besides: {names}."
        return ExerciseFile(None, problem, seems_misnamed=bool(near))

    # --- what is not judged -----------------------------------------------------------------------

    def _judged(self, exercise: Exercise, chosen: _Choice, best: _Choice) -> str:
        """Which file is judged, where it is not the one that has the best name."""
        path = clean(chosen.piece.path, 60)
        if chosen.rank[:2] != best.rank[:2]:
            return f"Judged is {path}: {clean(best.piece.path, 60)} {_REASONS[best.state]}."
        return f"Judged is {path}: hand it in as {exercise.id}.py." if chosen.rank.is_text else ""

    def _not_judged(self, exercise: Exercise, judged: _Piece, rest: list[_Choice]) -> str:
        """Which other files hold work for the exercise; code that says the same is none."""
        left = [choice.piece for choice in rest]
        # Of what has another name only what speaks of the exercise is looked at beside its work.
        left += [
            piece
            for piece in self._code
            if exercise in piece.spoken_of
            and piece.owner is not exercise
            and self._holds(exercise, piece)
        ]
        if not left:
            return ""
        known = (judged.file.source or b"", self._course.stub(exercise).source)
        pieces = [
            piece
            for piece in left
            if not any(is_untouched(piece.file.source or b"", source) for source in known)
            and not self._is_given(piece)
        ]
        return f"Not judged: {_listed(pieces, judged.name)}." if pieces else ""

    def _near(self, exercise: Exercise) -> list[_Piece]:
        """The files that seem to hold work for the exercise under another name than its own."""
        stub = self._course.stub(exercise).source
        # A file of a better name was judged, or it is none of these.
        ranked = [piece for _, piece in self._ranked(exercise)[:_MOST_READ]]
        others = [piece for piece in self._named[:_MOST_NAMED] if piece not in ranked]
        near = [
            piece
            for piece in (*ranked, *self._code, *others)
            if (piece in ranked or exercise in piece.spoken_of or self._holds(exercise, piece))
            and not (piece.file.source is not None and is_empty(piece.file.source))
            and not is_untouched(piece.file.source or b"", stub)
            and not self._is_given(piece)
        ]
        return list(dict.fromkeys(near))

    def _with_leftovers(self, first: ExerciseFile, *, is_idle: bool) -> ExerciseFile:
        """The file of an exercise without work, and what a person has to be told of the whole attempt."""
        sentences = [problem for problem, _ in self._problems[:1]]
        if is_idle and (code := [piece for piece in self._code if self._is_own_code(piece)]):
            what = "is no exercise's name" if len(code) == 1 else "are no exercises' names"
            sentences.append(f"Handed in besides: {_listed(code)}, which {what}.")
        is_told = bool(sentences)
        if first.source is None and first.path is None:
            sentences = []  # why it is missing says so
        if packed := [piece for piece in self._extras if looks_packed(piece.name)]:
            what = "An archive in an archive is not opened."
            sentences.append(f"Handed in besides: {_listed(packed)}. {what}")
        return first.with_note(*sentences) if sentences or is_told else first

    @functools.cached_property
    def _has_leftovers(self) -> bool:
        """Whether something has to be told if an exercise has no work."""
        packed = any(looks_packed(piece.name) for piece in self._extras)
        return bool(self._code or self._problems) or packed

    def _is_elsewhere(self, exercise: Exercise) -> bool:
        """Whether the file of another exercise seems to hold the work for this one, too."""
        others = (p for p in self._named[:_MOST_NAMED] if p.owner is not exercise)
        return any(self._holds(exercise, piece) for piece in others)

    @functools.cached_property
    def _code(self) -> list[_Piece]:
        """The other files that may hold work, the nearest ones and those that speak of an exercise first."""
        code = [p for p in self._extras if p.spoken_of or looks_like_code(p.name)]
        code.sort(key=lambda piece: (not piece.spoken_of, piece.path.count("/"), piece.name))
        return code[:_MOST_READ]

    def _holds(self, exercise: Exercise, piece: _Piece) -> bool:
        """Whether a file defines what the exercise asks for: some of it, or all in a file of another one."""
        names = self._names
        others = frozenset[str]().union(*(names[id_] for id_ in names if id_ != exercise.id))
        wanted = names[exercise.id]
        own = wanted - others
        if not (own or wanted) & piece.defined or is_test(piece.name):
            return False
        stub = b"" if piece.owner is exercise else self._stub_of(piece)
        if own and not stub:
            return True
        return (own or wanted) <= piece.defined - _defined_in(stub)

    def _stub_of(self, piece: _Piece) -> bytes:
        """The stub under the name of a file; the course may have more exercises than those that are graded."""
        if piece.owner is not None:
            return self._course.stub(piece.owner).source
        for path in self._in_course(piece):
            with contextlib.suppress(OSError):
                # In the folder of who works in the course itself, it may be this very file.
                if not path.samefile(piece.place):
                    return path.read_bytes()
        return b""

    def _in_course(self, piece: _Piece) -> list[Path]:
        """The files of this name among the exercises of the course."""
        folder, name = self._course.folder, glob.escape(piece.name)
        return [path for path in (*folder.glob(name), *folder.glob(f"*/{name}")) if path.is_file()]

    @functools.cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        """What the stub of each exercise defines."""
        return {e.id: _defined_in(self._course.stub(e).source) for e in self._course.exercises}

    def _is_own_code(self, piece: _Piece) -> bool:
        """Whether somebody wrote a file who was not given it with the course."""
        source = piece.file.source
        if is_test(piece.name) or (source is not None and is_empty(source)):
            return False
        return not self._in_course(piece) and not self._is_given(piece)

    def _is_given(self, piece: _Piece) -> bool:
        """Whether the course has this very file at this place, so that it came with it."""
        folders = piece.path.split("/")
        for parts in (folders, folders[1:], folders[2:]):
            for root in (self._course.root, self._course.folder) if parts else ():
                place = root.joinpath(*parts)
                with contextlib.suppress(OSError):
                    is_same = place.is_file() and place.read_bytes() == piece.file.source
                    # In the folder of who works in the course itself, it is the student's.
                    is_work = place.is_relative_to(self._course.folder)
                    if is_same and not (is_work and place.samefile(piece.place)):
                        return True
        return False

    # --- reading ----------------------------------------------------------------------------------

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

    def _is_listed(self, name: str) -> bool:
        """Whether a file of this name in an archive is an exercise's, or a request."""
        if is_named_after(self._course, name) or name in self._given_names:
            return True
        return requested(self._course, name) is not None

    def _is_kin(self, name: str) -> bool:
        return bool(spoken_of(self._course, name))

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


def _listed(pieces: Sequence[_Piece], beside: str = "") -> str:
    """The first three names for a message, with the folders of what is called as the file `beside` it."""
    names = dict.fromkeys(
        clean(piece.path, 60) if piece.name == beside else clean(piece.shown, 40)
        for piece in pieces
    )
    more = len(names) - _NAMES_SHOWN
    return ", ".join([*names][:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


@functools.lru_cache(maxsize=1000)
def _defined_in(stub: bytes) -> frozenset[str]:
    """The functions and classes that a stub has at its top, without those that are private."""
    names = (name.decode("ascii", "replace") for name in _AT_TOP.findall(stub))
    return frozenset(name for name in names if not name.startswith("_"))
