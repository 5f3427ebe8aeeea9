"""One attempt in a download, and the exercise files in it.

The pieces of an attempt are a folder, files, archives, or members of one large archive. Every file with an
exercise's name, or nearly this name, is a candidate for the exercise, in any folder. The likeliest candidate
that somebody wrote in is judged; untouched stubs beside it do not matter. If two are equally likely and differ,
none is judged.

Files that the course gives beside a stub are never taken from an attempt; a note names a changed one.

Other files that seem to have work are mentioned to the student and listed for staff: code under another name,
recognized by words in the name or by its definitions, and archives that are not opened. Such files are read
only if an exercise has no work, or if the name of a file beside the work mentions the exercise.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import io
import itertools
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from grader.course.manifest import Course, Exercise
from grader.course.stub import Stub
from grader.errors import GraderError
from grader.results import StudentInfo
from grader.submissions.archive import (
    Candidate,
    Extras,
    list_archive,
    looks_like_code,
    looks_like_document,
    looks_packed,
    may_be_text,
)
from grader.submissions.folder import (
    Unreadable,
    is_in_library,
    is_set_aside,
    open_regular,
    walk,
)
from grader.submissions.member import AttemptFile, Member, read_member
from grader.submissions.names import Rank, is_exactly, is_named_after, is_test, rank, spoken_of
from grader.submissions.requests import message_of, requested
from grader.submissions.source import canonical, is_empty, is_untouched, quick_tree
from grader.submissions.submission import (
    MAX_FILE_BYTES,
    ExerciseFile,
    State,
    Submission,
)
from grader.text import clean

# An archive in a class's archive is unpacked into memory.
MAX_NESTED_BYTES = 32 << 20
_MAX_ARCHIVES = 3
_MAX_ALIKE = 8
_MAX_REQUESTS = 100
# Candidates of one exercise, or files with other names; each is at most 200 KB.
_MAX_READ = 40
# Files that are named after any exercise, all together.
_MAX_NAMED = 100
# Files that are listed in an ignored folder.
_MAX_IGNORED = 1000
_NAMES_SHOWN = 3
# Reasons why a file with a better name is not judged.
_REASONS = {
    State.UNTOUCHED: "is still the stub",
    State.EMPTY: "is empty",
    State.INVALID: "is not valid Python",
    State.UNREADABLE: "cannot be read",
}
# This also fits the JSON of a notebook, where a line may begin after `\n`.
_DEFINED = re.compile(rb"(?:def|class)[ \t]+([A-Za-z]\w*)")
# In a web page, which is how platforms keep text that was typed in.
_TYPED = re.compile(rb"(?:def|class)(?:[ \t]|&nbsp;|\xc2\xa0)+\w+[ \t]*[(:]")
_AT_TOP = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt in a download; the first fields are as in `results.Entry`.

    `path` is the student's folder or file, or the class's archive with the pieces. An attempt with a `problem`
    cannot be read, and every exercise shows the problem. `only`: in a teammate's attempt, the exercises that
    count for this student; None for all. With `of_team`, it is named after the team, so it belongs to no single
    member.
    """

    student: StudentInfo
    attempt: int = 1
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    path: Path
    members: tuple[AttemptFile, ...] = ()
    problem: str = ""
    only: frozenset[str] | None = None
    of_team: bool = False


def read_attempt(attempt: Attempt, course: Course) -> Submission:
    """Read the exercise files of an attempt, bounded in time and memory, without writing to the disk.

    Files that cannot be read do not raise, but have a `problem`. If `only` some files count, files without work
    and regrade requests are left out. If it is `of_team`, unreadable and misnamed files stay, since no other
    attempt has them for a person to see.
    """
    if attempt.problem:
        found = _refused(attempt, attempt.problem, course)
    else:
        try:
            found = gather(attempt.student.id, attempt.members, attempt.path, course)
        except GraderError:
            raise
        except Exception as error:  # noqa: BLE001  one submission must not end the batch
            found = _refused(attempt, _fault(error), course)
    if attempt.only is None:
        return found
    shared = {
        exercise.id: found.files[exercise.id]
        for exercise in course.exercises
        if exercise.id in attempt.only
        and _is_shared(found.files[exercise.id], attempt, course.stub(exercise))
    }
    return Submission(attempt.student.id, shared)


def _fault(error: Exception) -> str:
    """Return a problem for an error that is a mistake of ours, with its place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
    return (
        f"The submission could not be read ({where}). This is a fault of the grader, not yours: "
        "ask your instructor to report it."
    )


def _refused(attempt: Attempt, problem: str, course: Course) -> Submission:
    refused = ExerciseFile(None, problem, attempt.path)
    return Submission(attempt.student.id, {exercise.id: refused for exercise in course.exercises})


def _is_shared(file: ExerciseFile, attempt: Attempt, stub: Stub) -> bool:
    state = file.state(stub)
    needs_a_look = state is State.UNREADABLE or file.seems_misnamed
    return state.is_work or (attempt.of_team and needs_a_look)


def nearest_below(folder: Path, exercise: Exercise) -> Path | None:
    """Return the likeliest file of an exercise below a folder, None if there is none."""
    with contextlib.suppress(Unreadable):
        ranked = [
            (fits, str(place))
            for path, place in walk(folder)
            if (fits := rank(exercise, path)) is not None
        ]
        return Path(min(ranked)[1]) if ranked else None
    return None


def gather(name: str, pieces: Sequence[AttemptFile], path: Path, course: Course) -> Submission:
    """Find the exercises of the course in the pieces, and regrade requests."""
    with contextlib.ExitStack() as opened:
        gathering = _Gathering(path, course, opened)
        for piece in pieces:
            gathering.add(piece)
        gathering.unpack()
        return Submission(name, gathering.files(), gathering.requests())


def beside(
    pieces: Sequence[AttemptFile], course: Course, exercise: Exercise, own: ExerciseFile
) -> ExerciseFile:
    """Return the `own` file, with a sentence on work for the exercise in the pieces beside it."""
    with contextlib.ExitStack() as opened:
        gathering = _Gathering(Path(), course, opened)
        for piece in pieces:
            gathering.add(piece)
        return gathering.with_given(exercise, gathering.told(exercise, own))


class _Piece:
    """A file of the attempt, which is read at most once, when it is needed."""

    def __init__(self, candidate: Candidate, place: Path, course: Course, shown: str = "") -> None:
        self.path, self.place, self._read = candidate.path, place, candidate.read
        self.name = self.path.rpartition("/")[2]
        self.shown = shown or self.name
        self._course = course

    @functools.cached_property
    def file(self) -> ExerciseFile:
        """The file, or the reason why it cannot be read."""
        try:
            return ExerciseFile(self._read(), "", self.place)
        except Unreadable as problem:
            return ExerciseFile(None, str(problem), self.place)

    @functools.cached_property
    def owner(self) -> Exercise | None:
        """The exercise after which the file is exactly or nearly named."""
        exercises = self._course.exercises
        return is_exactly(exercises, self.name) or next(
            (exercise for exercise in exercises if rank(exercise, self.path) is not None), None
        )

    @functools.cached_property
    def spoken_of(self) -> list[Exercise]:
        """The exercises that its name mentions."""
        return spoken_of(self._course, self.name)

    @functools.cached_property
    def defined(self) -> frozenset[str]:
        """The functions and classes that it seems to define, even in a notebook or below an error."""
        return frozenset(
            name.decode("ascii", "replace") for name in _DEFINED.findall(self.file.source or b"")
        )

    @functools.cached_property
    def is_code(self) -> bool:
        """Whether a text is code, whatever its name: Python, or the web page of a text that was typed in."""
        source = self.file.source or b""
        if not self.defined:
            return False
        if self.name.lower().endswith((".html", ".htm")):
            return _TYPED.search(source) is not None
        return quick_tree(source) is not None


class _Choice(NamedTuple):
    """A file that may be an exercise's, with the rank of its name and its state."""

    rank: Rank
    piece: _Piece
    state: State

    @property
    def order(self) -> tuple[bool, Rank]:
        """The key that sorts likelier files first: code before invalid Python, then by name."""
        return self.state is State.INVALID, self.rank


class _Gathering:
    """The pieces of one attempt: files that are named after an exercise, other ones, and archives."""

    def __init__(self, path: Path, course: Course, opened: contextlib.ExitStack) -> None:
        self._path, self._course, self._opened = path, course, opened
        self._named: list[_Piece] = []
        self._extras: list[_Piece] = []
        # Files with the names of exercises in ignored folders; they are never judged.
        self._set_aside: list[_Piece] = []
        # Files with the names of given files of the course.
        self._given: list[_Piece] = []
        self._given_names = {name for exercise in course.exercises for name in exercise.given}
        self._kept = Extras(self._is_kin)
        self._packed: list[AttemptFile] = []
        self._asked: list[Candidate] = []
        self._problems: list[tuple[str, Path]] = []
        # The exercises with work, or with a note for a person.
        self._seen: set[str] = set()

    def add(self, piece: AttemptFile) -> None:
        """Add a file, an archive, or the files of a folder."""
        if isinstance(piece.place, Path) and not piece.path:
            ignored: list[tuple[str, Path]] = []
            try:
                # All or nothing: in a folder with too many files, their order is arbitrary.
                for path, place in list(walk(piece.place, ignored)):
                    self._add_file(AttemptFile(path, place))
            except Unreadable as problem:
                self._problems.append((str(problem), piece.place))
            for prefix, folder in ignored:
                with contextlib.suppress(Unreadable):
                    for path, place in itertools.islice(walk(folder), _MAX_IGNORED):
                        if is_set_aside(prefix + path):
                            self._add_file(AttemptFile(prefix + path, place))
        else:
            self._add_file(piece)

    def _add_file(self, piece: AttemptFile) -> None:
        """Sort one file by its name: a request, an exercise's file, an archive, or another file."""
        name = piece.path.rpartition("/")[2]
        candidate = Candidate(piece.path, functools.partial(self._read, piece))
        if is_set_aside(piece.path):
            if is_named_after(self._course, name):
                self._set_aside.append(self._shown_whole(candidate, self._path_of(piece)))
        elif requested(self._course, name):
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
        """List the files in the archives; keep the problems of archives that cannot be read."""
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
                for each in listing.extras:
                    if is_set_aside(each.path):
                        self._set_aside.append(self._shown_whole(each, place))
                    else:
                        self._extras.append(_Piece(each, place, self._course))

    def _shown_whole(self, candidate: Candidate, place: Path) -> _Piece:
        return _Piece(candidate, place, self._course, candidate.path)

    # --- the file of an exercise ------------------------------------------------------------------

    def files(self) -> dict[str, ExerciseFile]:
        """Return the file of each exercise, or the reason why there is none, with notes for a person."""
        files = {exercise.id: self._handed(exercise) for exercise in self._course.exercises}
        idle = [e.id for e in self._course.exercises if e.id not in self._seen]
        if idle and (self._named or self._seen):
            # One note is enough: no exercise is nearer to these leftovers than another.
            stubs = [name for name in idle if files[name].source is not None]
            packed = [piece.path.rpartition("/")[2].lower() for piece in self._packed]
            spoken_of = [name for name in idle if any(name in other for other in packed)]
            first = (spoken_of or stubs or idle)[0]
            is_idle = len(idle) == len(files)
            files[first] = self._with_leftovers(files[first], is_idle=is_idle)
        return {e.id: self.with_given(e, files[e.id]) for e in self._course.exercises}

    def _handed(self, exercise: Exercise) -> ExerciseFile:
        """Return the file of one exercise, or the reason why there is none."""
        ranked = self._ranked(exercise)
        if not ranked:
            return self._missing(exercise)
        first = ranked[0][1]
        if len(ranked) == 1 and not self._has_leftovers and not self._is_elsewhere(exercise):
            return first.file
        choices = self._choices(exercise, ranked)
        written = sorted((c for c in choices if c.state.is_work), key=lambda choice: choice.order)
        if not written:
            return self.told(exercise, first.file) if choices else self._missing(exercise)
        self._seen.add(exercise.id)
        chosen = written[0]
        equal = [c.piece for c in written if c.order == chosen.order]
        contents = {canonical(piece.file.source or b""): piece.path for piece in equal}
        if len(contents) > 1:
            problem = f"There are {len(contents)} files named {exercise.id}.py"
            if len(contents) <= _MAX_ALIKE:
                paths = ", ".join(sorted({clean(path, 60) for path in contents.values()}))
                problem += f", and they differ ({paths}): hand in one of them."
            else:
                problem += ": hand in one."
            return ExerciseFile(None, problem, chosen.piece.place)
        # The second sentence need not repeat a file of the first.
        judged = self._judged(exercise, chosen, choices[0])
        rest = [c for c in written if c is not chosen and not (judged and c is choices[0])]
        sentences = judged, self._not_judged(exercise, chosen.piece, rest)
        return chosen.piece.file.with_note(*filter(None, sentences))

    def _ranked(self, exercise: Exercise) -> list[tuple[Rank, _Piece]]:
        """Return the files that are exactly or nearly named after the exercise, the likeliest first."""
        ranked = []
        for piece in (*self._named, *self._extras):
            if piece.owner is exercise and (fits := rank(exercise, piece.path)) is not None:
                ranked.append((fits, piece))
        return sorted(ranked, key=lambda pair: pair[0])

    def _choices(self, exercise: Exercise, ranked: list[tuple[Rank, _Piece]]) -> list[_Choice]:
        """Return these files with their states, the likeliest name first."""
        stub = self._course.stub(exercise)
        choices: list[_Choice] = []
        for fits, piece in ranked[:_MAX_READ]:
            state = piece.file.state(stub)
            if fits.is_text and not (state is State.EDITED and self._holds(exercise, piece)):
                continue
            if choices and state.is_work and self._is_given(piece):
                state = State.UNTOUCHED
            choices.append(_Choice(fits, piece, state))
        return choices

    def told(self, exercise: Exercise, own: ExerciseFile) -> ExerciseFile:
        """Return a file without work, with a sentence on other files that seem to be the work."""
        if own.state(self._course.stub(exercise)).is_work:
            return own
        near = [piece for piece in self._near(exercise) if piece.file != own]
        if not near:
            return own
        self._seen.add(exercise.id)
        remark = ""
        if not any(is_named_after(self._course, piece.name) for piece in near):
            is_one = len(near) == 1
            remark = (
                ", which is not an exercise's name"
                if is_one
                else ", which are not exercises' names"
            )
        name = f"{exercise.id}.py"
        problem = f"Also handed in: {_listed(near, name)}{remark}."
        if any(piece.name != name for piece in near):
            problem += f" Only {name} is judged: put the code there."
        problem += self._on_ignored(near)
        return own.with_note(problem)

    def with_given(self, exercise: Exercise, own: ExerciseFile) -> ExerciseFile:
        """Return a file, with a sentence on each changed copy of a given file beside it."""
        if not self._given or own.source is None:
            return own
        chapters = {e.chapter for e in self._course.exercises if e.chapter != exercise.chapter}
        changed = {
            piece.name
            for file, source in self._course.given(exercise).items()
            for piece in self._given[:_MAX_READ]
            if piece.name == Path(file).name
            and piece.path.rpartition("/")[0].rpartition("/")[2] not in chapters
            and not is_untouched(piece.file.source or b"", source)
        }
        return own.with_note(
            *(f"{name} is given: your changes in it are not used." for name in sorted(changed))
        )

    def _missing(self, exercise: Exercise) -> ExerciseFile:
        """Return the reason why an exercise has no file: other names, or unreadable files."""
        problem = f"{exercise.file} is missing: hand it in under this name."
        if self._problems and not self._named:
            return ExerciseFile(None, *self._problems[0])
        # A wrong name is the student's slip. A person should see it; we do not guess.
        near = self._near(exercise)
        if near:
            self._seen.add(exercise.id)
        if self._problems:
            problem += f" And {self._problems[0][0]}"
        elif not self._named:
            others = (*self._extras, *self._given, *self._set_aside)
            by_name = sorted(others, key=lambda piece: (piece not in near, piece.shown))
            names = _listed(by_name[:_NAMES_SHOWN])
            problem += f" Handed in instead: {names}." if names else " Nothing was handed in."
            problem += on_notebooks([piece.name for piece in others], f"{exercise.id}.py")
            if any(looks_packed(piece.name) for piece in self._extras):
                problem += " An archive in an archive is not opened."
        elif names := _listed(near or self._code):
            problem += f" Also handed in: {names}."
            problem += on_notebooks([piece.name for piece in near], f"{exercise.id}.py")
        return ExerciseFile(None, problem + self._on_ignored(near), seems_misnamed=bool(near))

    def _on_ignored(self, near: list[_Piece]) -> str:
        """Return a sentence, after a space, on the folders that are ignored, if a file is in one."""
        is_ignored = any(piece in self._set_aside for piece in near)
        return " Nothing in a folder named env, venv or tests is judged." if is_ignored else ""

    # --- files that are not judged ----------------------------------------------------------------

    def _judged(self, exercise: Exercise, chosen: _Choice, best: _Choice) -> str:
        """Return a sentence on the judged file if its name is not the best one."""
        path = clean(chosen.piece.path, 60)
        if chosen.rank[:2] != best.rank[:2]:
            return f"Judged: {path}, since {clean(best.piece.path, 60)} {_REASONS[best.state]}."
        return f"Judged: {path}. Hand it in as {exercise.id}.py." if chosen.rank.is_text else ""

    def _not_judged(self, exercise: Exercise, judged: _Piece, rest: list[_Choice]) -> str:
        """Return a sentence on other files with work for the exercise, except equal code."""
        left = [choice.piece for choice in rest]
        # Beside the work, files with other names matter only if the name mentions the exercise.
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
        """Return the files that seem to have work for the exercise under another name."""
        stub = self._course.stub(exercise).source
        # Candidates come first, then other code, then files of other exercises.
        ranked = [piece for _, piece in self._ranked(exercise)[:_MAX_READ]]
        ranked += [piece for piece in self._set_aside if piece.owner is exercise][:_MAX_READ]
        others = [piece for piece in self._named[:_MAX_NAMED] if piece not in ranked]
        near = [
            piece
            for piece in (*ranked, *self._code, *self._texts, *others)
            if (
                piece in ranked
                or exercise in piece.spoken_of
                or self._holds(exercise, piece, of_test=True)
            )
            and (piece not in self._texts or piece.is_code)
            and not (piece.file.source is not None and is_empty(piece.file.source))
            and not is_untouched(piece.file.source or b"", stub)
            and not self._is_given(piece)
        ]
        return list(dict.fromkeys(near))

    def _with_leftovers(self, first: ExerciseFile, *, is_idle: bool) -> ExerciseFile:
        """Return the file of an exercise without work, with notes on the whole attempt for a person."""
        sentences = [problem for problem, _ in self._problems[:1]]
        if is_idle and (code := [piece for piece in self._code if self._is_own_code(piece)]):
            remark = "is not an exercise's name" if len(code) == 1 else "are not exercises' names"
            sentences.append(f"Also handed in: {_listed(code)}, which {remark}.")
        elif is_idle and (documents := [p for p in self._documents if not self._is_given(p)]):
            sentences.append(f"Also handed in: {_listed(documents)}.")
        is_told = bool(sentences)
        if first.source is None and first.path is None:
            sentences = []  # the reason why it is missing has them
        if packed := [piece for piece in self._extras if looks_packed(piece.name)]:
            remark = "An archive in an archive is not opened."
            sentences.append(f"Also handed in: {_listed(packed)}. {remark}")
        if self._are_too_many:
            sentences.append(f"Not all of the other files were looked at, only {_MAX_READ}.")
        if not (sentences or is_told):
            return first
        return msgspec.structs.replace(first.with_note(*sentences), seems_misnamed=True)

    @functools.cached_property
    def _documents(self) -> list[_Piece]:
        """Files that may show an answer, and links."""
        return [p for p in self._extras if looks_like_document(p.name) or p.shown != p.name]

    @functools.cached_property
    def _has_leftovers(self) -> bool:
        """Whether there is something to note if an exercise has no work."""
        packed = any(looks_packed(piece.name) for piece in self._extras)
        others = (self._code, self._texts, self._documents, self._problems, self._set_aside)
        return any(others) or packed

    @functools.cached_property
    def _are_too_many(self) -> bool:
        """Whether there is more of the student's code than is read to find work under other names."""
        code = [p for p in self._extras if looks_like_code(p.name) and not is_in_library(p.path)]
        # Looking into the course is slow, and there may be thousands.
        own = (piece for piece in code if len(code) > _MAX_READ and not self._in_course(piece))
        return next(itertools.islice(own, _MAX_READ, None), None) is not None

    def _is_elsewhere(self, exercise: Exercise) -> bool:
        """Whether the file of another exercise seems to have the work for this one, too."""
        others = (p for p in self._named[:_MAX_NAMED] if p.owner is not exercise)
        return any(self._holds(exercise, piece) for piece in others)

    @functools.cached_property
    def _code(self) -> list[_Piece]:
        """Other files that may have work; names that mention an exercise come first, then near files."""
        code = [p for p in self._extras if p.spoken_of or looks_like_code(p.name)]
        code.sort(key=lambda piece: (not piece.spoken_of, piece.path.count("/"), piece.name))
        return code[:_MAX_READ]

    @functools.cached_property
    def _texts(self) -> list[_Piece]:
        """Files that may be texts, and so code without a name of code, the nearest first."""
        texts = [p for p in self._extras if p not in self._code and may_be_text(p.name)]
        texts.sort(key=lambda piece: (piece.path.count("/"), piece.name))
        return texts[: _MAX_READ - len(self._code)]

    def _holds(self, exercise: Exercise, piece: _Piece, *, of_test: bool = False) -> bool:
        """Whether a file has the exercise's definitions: some of them, or all if it is another exercise's.

        A file named like a test has them only with `of_test`.
        """
        own = self._own_names[exercise.id]
        wanted = own or self._names[exercise.id]
        if not wanted & piece.defined or (is_test(piece.name) and not of_test):
            return False
        stub = b"" if piece.owner is exercise else self._stub_of(piece)
        if own and not stub:
            return True
        return wanted <= piece.defined - _defined_in(stub)

    def _stub_of(self, piece: _Piece) -> bytes:
        """Return the stub with the name of a file, even of an exercise that is not graded; empty if none."""
        if piece.owner is not None:
            return self._course.stub(piece.owner).source
        for path in self._in_course(piece):
            with contextlib.suppress(OSError):
                # For an author who works in the course's folder, it may be this very file.
                if not path.samefile(piece.place):
                    return path.read_bytes()
        return b""

    def _in_course(self, piece: _Piece) -> list[Path]:
        """Return the files of this name among the exercises of the course."""
        folder, name = self._course.folder, glob.escape(piece.name)
        # In an archive, a name may be longer than a file system allows.
        with contextlib.suppress(OSError, ValueError):
            paths = (*folder.glob(name), *folder.glob(f"*/{name}"))
            return [path for path in paths if path.is_file()]
        return []

    @functools.cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        """The definitions in the stub of each exercise."""
        return {e.id: _defined_in(self._course.stub(e).source) for e in self._course.exercises}

    @functools.cached_property
    def _own_names(self) -> dict[str, frozenset[str]]:
        """The definitions in the stub of each exercise that no other stub has."""
        count = Counter(itertools.chain.from_iterable(self._names.values()))
        return {
            id_: frozenset(name for name in names if count[name] == 1)
            for id_, names in self._names.items()
        }

    def _is_own_code(self, piece: _Piece) -> bool:
        """Whether somebody wrote a file, which did not come with the course."""
        source = piece.file.source
        if is_test(piece.name) or (source is not None and is_empty(source)):
            return False
        return not self._in_course(piece) and not self._is_given(piece)

    def _is_given(self, piece: _Piece) -> bool:
        """Whether a file came with the course, which has the same file at this place."""
        folders = piece.path.split("/")
        for parts in (folders, folders[1:], folders[2:]):
            for root in (self._course.root, self._course.folder) if parts else ():
                place = root.joinpath(*parts)
                with contextlib.suppress(OSError):
                    is_same = place.is_file() and place.read_bytes() == piece.file.source
                    # For an author who works in the course's folder, the file is work.
                    is_work = place.is_relative_to(self._course.folder)
                    if is_same and not (is_work and place.samefile(piece.place)):
                        return True
        return False

    # --- reading ----------------------------------------------------------------------------------

    def requests(self) -> dict[str, str]:
        """Return the messages of regrade requests; an unreadable one becomes a message that says so."""
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
        """Whether a file of this name in an archive is an exercise's file, a given file, or a request."""
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


def on_notebooks(names: Iterable[str], file: str) -> str:
    """Return a sentence, after a space, on how to hand in a notebook; empty if no name is a notebook's."""
    if not any(name.lower().endswith(".ipynb") for name in names):
        return ""
    return f" A notebook is not judged: copy the code out of its cells into {file}."


def _listed(pieces: Sequence[_Piece], beside: str = "") -> str:
    """Return the first three names for a message; a file with the name `beside` is shown with its folders."""
    names = dict.fromkeys(
        clean(piece.path, 60) if piece.name == beside else clean(piece.shown, 40)
        for piece in pieces
    )
    more = len(names) - _NAMES_SHOWN
    return ", ".join([*names][:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


@functools.lru_cache(maxsize=1000)
def _defined_in(stub: bytes) -> frozenset[str]:
    """Return the public functions and classes at the top level of a stub."""
    names = (name.decode("ascii", "replace") for name in _AT_TOP.findall(stub))
    return frozenset(name for name in names if not name.startswith("_"))
