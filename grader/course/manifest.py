"""A course: its manifest `course.toml`, and by convention the files of each exercise beside it.

A course is read from its folder, or from a pack (`grader.course.pack`), which stays unpacked while the
course is in use.

exercises/course.toml                          the manifest
exercises/assignments.toml                     exercises handed out together, with due times (see `assignments`)
exercises/assignments/<assignment>.toml        in a release, an assignment with the entries of its exercises
exercises/<chapter>/<exercise>.py              the stub that students get, and write into
exercises/<chapter>/<given>.py                 a given file beside it, which it imports
tests/stubs/<chapter>/<exercise>.py            in a release, the stub as it was handed out (see `Course.stub`),
                                               and given files beside it
solutions/<chapter>/<exercise>.py              the reference
solutions/<chapter>/<exercise>.sealed          the same, in a release with all suites
tests/public/<chapter>/test_<exercise>.py      the suite that students may see
tests/hidden/<chapter>/test_<exercise>.py      the suite that they may not see
tests/plots/<chapter>/plot_<exercise>.py       the experiment of `grade plot`
tests/right/<chapter>/<exercise>/*.py          other right answers, which must earn everything
tests/wrong/<chapter>/<exercise>.toml          wrong answers, each of which must be caught: right ones, changed
tests/wrong/<chapter>/<exercise>/*.py          wrong answers that are whole files
tests/wrong/<chapter>/<exercise>.caught.toml   the tests that catch each of them
tests/observed/<chapter>/<exercise>.json       in a package, observations instead of wrong answers
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import importlib.util
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from grader.course.assignments import FILE as ASSIGNMENTS
from grader.course.assignments import (
    FOLDER,
    Assignments,
    CourseAssignment,
    TermRules,
    read_assignments,
    resolved,
)
from grader.course.names import is_within, why_no_exercise, why_no_folder, why_not_given
from grader.course.stub import Stub, derived_stub
from grader.course.suite import is_compared
from grader.errors import CourseError
from grader.results import CourseInfo, Disclosure, Visibility
from grader.text import nearest
from grader.toml import Identifier, QualifiedName, Text, read_course_file

if TYPE_CHECKING:
    from grader.course.pack import Unpacked

FORMAT_VERSION = 1
MANIFEST = "course.toml"
# Rules for every exercise of a course: its stubs name this page, if the course has one.
EVERY_EXERCISE = "docs/every-exercise.md"
_NAMES_SHOWN = 3


class ForbiddenRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A ban: names and operators that the student may not use, and where.

    `names` are dotted names, resolved through the file's imports and searched in the bodies of the functions
    `inside` (qualified names, as `GatedLinearUnit.forward`); `operators` are names of the dispatcher, as
    `aten::glu`. Both raise while a test calls the entry points of `inside`.
    """

    inside: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    reason: Text
    names: tuple[Text, ...] = ()
    operators: tuple[Annotated[str, msgspec.Meta(pattern=r"^\w+::\w+$")], ...] = ()

    @property
    def sentence(self) -> str:
        """The ban as students read it: the first names, the places and the reason."""
        names = self.names or self.operators
        more = " and the like" if len(names) > _NAMES_SHOWN else ""
        shown = ", ".join(names[:_NAMES_SHOWN])
        return f"{shown}{more} in {', '.join(self.inside)}: {self.reason}"

    @property
    def entry_points(self) -> frozenset[str]:
        """The top-level functions and classes of `inside`, which are watched as they run."""
        return frozenset(name.partition(".")[0] for name in self.inside)


class PackageNeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Packages that the tests of a share need; `extra` is the extra of this grader that installs them."""

    packages: Annotated[tuple[Identifier, ...], msgspec.Meta(min_length=1)]
    share: QualifiedName
    extra: Identifier | None = None

    @property
    def is_met(self) -> bool:
        """Whether all of the packages are installed; none is imported."""
        return all(importlib.util.find_spec(name) is not None for name in self.packages)

    @property
    def remark(self) -> str:
        """A sentence on the tests that are left out, and on the package to install."""
        install = f"'lab-bench[{self.extra}]'" if self.extra else " ".join(self.packages)
        return (
            f"{self.share} is not judged here, and its points do not count: it needs "
            f"{' and '.join(self.packages)}. To have it judged: pip install {install}"
        )


_ModuleFile = Annotated[str, msgspec.Meta(pattern=r"^[a-z_][a-z0-9_]*\.py$", max_length=64)]


class Help(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that only help the student. They are released, and changing them makes no verdict stale."""

    difficulty: Annotated[int, msgspec.Meta(ge=1, le=3)]
    minutes: Annotated[int, msgspec.Meta(gt=0)]
    teaches: Text
    hints: Annotated[tuple[Text, ...], msgspec.Meta(min_length=3, max_length=3)]
    prerequisites: tuple[Identifier, ...] = ()
    reading: tuple[Text, ...] = ()


class ReleasedExercise(Help, frozen=True, kw_only=True):
    """Keys that judge, and that students may read.

    `shares` are the weights of the functions and classes that the student writes; without them the tests divide
    the points. `seconds` is the time of the tests of each share, or of all tests. `given` are files beside the
    stub that it imports: every submission is judged with the course's own copies. A function or class
    `builds_on` earlier functions: if some were found wrong, the solution replaces them in its tests.
    """

    id: Identifier
    chapter: Identifier
    title: Text
    points: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)]
    shares: dict[QualifiedName, Annotated[float, msgspec.Meta(gt=0, le=1e6)]] = {}
    memory_mb: Annotated[int, msgspec.Meta(ge=64)] = 2048
    needs: tuple[Literal["processes", "loopback"] | PackageNeed, ...] = ()
    preload: tuple[Text, ...] = ()
    forbidden: tuple[ForbiddenRule, ...] = ()
    given: tuple[_ModuleFile, ...] = ()
    builds_on: dict[
        QualifiedName, Annotated[tuple[QualifiedName, ...], msgspec.Meta(min_length=1)]
    ] = {}


class Exercise(
    ReleasedExercise, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One exercise of the manifest. Its own keys judge, and students never see them.

    `ordinary` are names that are odd in other students' files, but that answers of this exercise need.
    """

    ordinary: tuple[Text, ...] = ()

    @property
    def operators(self) -> frozenset[str]:
        """All operators that are forbidden anywhere in it."""
        return frozenset(name for rule in self.forbidden for name in rule.operators)

    @property
    def most_seconds(self) -> float:
        """The time of all of its tests; each share has a clock of its own."""
        return self.seconds * max(1, len(self.shares))

    @property
    def file(self) -> str:
        """The file that a student hands in, relative to the submission."""
        return f"{self.chapter}/{self.id}.py"

    @property
    def given_files(self) -> tuple[str, ...]:
        """The given files, in the form of `file`."""
        return tuple(f"{self.chapter}/{name}" for name in self.given)

    @property
    def unmet(self) -> list[PackageNeed]:
        """Needs whose packages are not installed: the tests of their shares are left out."""
        return [need for need in self.needs if isinstance(need, PackageNeed) and not need.is_met]

    @property
    def open_shares(self) -> dict[str, float]:
        """The shares that can be judged here."""
        closed = {need.share for need in self.unmet}
        return {name: weight for name, weight in self.shares.items() if name not in closed}

    def share_of(self, place: str) -> str:
        """Return the share of a test with this place: the longest share that equals or contains it."""
        holders = [name for name in self.shares if is_within(place, name)]
        return max(holders, key=len, default="")


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    title: Text
    name: Identifier
    version: Text
    exercise: tuple[Exercise, ...] = ()
    disclose: Disclosure = Disclosure.MISTAKE


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a release: an assignment with the entries of its exercises."""

    assignment: tuple[CourseAssignment, ...]
    exercise: tuple[Exercise, ...]
    timezone: str = ""


class Course(msgspec.Struct, frozen=True):
    """A course on disk: `root` has the folders `exercises`, `solutions` and `tests`.

    `unpacked` is the folder of a pack: its files exist as long as this is held. `assignment` is set if only its
    exercises are left, and `parts` are the files of a release with some of the exercises each.
    """

    root: Path
    folder: Path
    name: str
    title: str
    version: str
    exercises: tuple[Exercise, ...]
    unpacked: Unpacked | None = None
    disclose: Disclosure = Disclosure.MISTAKE
    assignments: tuple[CourseAssignment, ...] = ()
    assignment: CourseAssignment | None = None
    term: TermRules = TermRules()
    parts: tuple[Path, ...] = ()

    def exercise(self, exercise_id: str) -> Exercise:
        """Return the exercise with this id; raises CourseError with the nearest ids if there is none."""
        for exercise in self.exercises:
            if exercise.id == exercise_id:
                return exercise
        ids = [exercise.id for exercise in self.exercises]
        # People may write the file's name instead of the exercise's.
        meant = nearest(Path(exercise_id).stem, ids)
        raise CourseError(f"There is no exercise {exercise_id!r}. {meant}")

    def select(self, ids: Iterable[str]) -> tuple[Exercise, ...]:
        """Return the named exercises in the order of the course; all of them if none is named.

        Raises CourseError for an unknown id.
        """
        wanted = {self.exercise(exercise_id).id for exercise_id in ids}
        return tuple(e for e in self.exercises if not wanted or e.id in wanted)

    def only(self, exercises: Iterable[Exercise]) -> Course:
        """Return the course reduced to these exercises."""
        return msgspec.structs.replace(self, exercises=tuple(exercises))

    def assigned(self, assignment_id: str) -> Course:
        """Return the course reduced to the exercises of an assignment, with both titles.

        Raises CourseError with the nearest ids if there is no such assignment.
        """
        for assignment in self.assignments:
            if assignment.id == assignment_id:
                exercises = tuple(e for e in self.exercises if e.id in assignment.exercises)
                return msgspec.structs.replace(
                    self,
                    title=f"{self.title}: {assignment.title}",
                    exercises=exercises,
                    assignments=(assignment,),
                    assignment=assignment,
                )
        if not self.assignments:
            raise CourseError(
                f"{self.title} has no assignments: `grade new-assignment {assignment_id}` writes one."
            )
        ids = [a.id for a in self.assignments]
        raise CourseError(
            f"There is no assignment {assignment_id!r}. {nearest(assignment_id, ids)}"
        )

    @property
    def extra_credit(self) -> frozenset[str]:
        """The exercises that are extra credit in their assignment."""
        return frozenset(name for a in self.assignments for name in a.extra_credit)

    @property
    def not_proposed(self) -> frozenset[str]:
        """The exercises of exams, which no command proposes as the next one, unless there are no others.

        Students hand them in only on the page of a server.
        """
        exams = (assignment for assignment in self.assignments if assignment.exam is not None)
        names = frozenset(name for exam in exams for name in exam.exercises)
        return names if any(e.id not in names for e in self.exercises) else frozenset()

    @property
    def without_hints(self) -> frozenset[str]:
        """The exercises of exams without hints."""
        exams = (a for a in self.assignments if a.exam is not None and not a.exam.hints)
        return frozenset(name for a in exams for name in a.exercises)

    @property
    def assignment_of(self) -> dict[str, CourseAssignment]:
        """The assignment of each exercise that belongs to one, by the exercise's id."""
        return {name: a for a in self.assignments for name in a.exercises}

    def urgencies(self, now: datetime.datetime | None = None) -> dict[str, tuple[int, float]]:
        """Return sort keys for proposing exercises, the smallest first; all equal without assignments.

        Exercises that are due next come first, then exercises that are never due, overdue, and not open yet.
        """
        moment, owners = now or datetime.datetime.now(datetime.UTC), self.assignment_of
        return {e.id: _urgency(owners.get(e.id), moment) for e in self.exercises}

    def by_urgency(self, now: datetime.datetime | None = None) -> tuple[Exercise, ...]:
        """Return the exercises in the order in which they are proposed; without assignments, unchanged."""
        urgent = self.urgencies(now)
        return tuple(sorted(self.exercises, key=lambda e: urgent[e.id]))

    @property
    def chapter_of(self) -> dict[str, str]:
        """The chapter of each exercise, by its id."""
        return _chapters_of(self.exercises)

    @property
    def chapters(self) -> dict[str, list[Exercise]]:
        """The exercises by chapter, with chapters in the order of their first exercise."""
        chapters: dict[str, list[Exercise]] = {}
        for exercise in self.exercises:
            chapters.setdefault(exercise.chapter, []).append(exercise)
        return chapters

    def stub(self, exercise: Exercise) -> Stub:
        """Return the stub as it was handed out; raises CourseError if a solution's markers do not make one.

        A student may have written into the file in `exercises`. So the copy of a release counts, or else the
        stub that the solution's markers make. Without both, it is the file in `exercises`, and only submissions
        from elsewhere can be recognized as untouched.
        """
        if (copy := self.kept_stub(exercise)).is_file():
            return Stub(copy.read_bytes())
        if (derived := self.derived_stub(exercise)) is not None:
            return Stub(derived)
        working = self.folder / exercise.file
        return Stub(working.read_bytes(), working)

    def given(self, exercise: Exercise) -> dict[str, bytes]:
        """Return the files given with an exercise, by name below `exercises`.

        In a release, these are the copies: a student may have written into the files in `exercises`.
        """
        files = {}
        for name in exercise.given_files:
            kept = self.kept(name)
            files[name] = (kept if kept.is_file() else self.folder / name).read_bytes()
        return files

    def kept(self, name: str) -> Path:
        """Return where a release keeps a file of `exercises` as it was handed out; it may be missing."""
        return self.root / "tests" / "stubs" / name

    def kept_stub(self, exercise: Exercise) -> Path:
        """Return where a release keeps the stub as it was handed out; it may be missing."""
        return self.kept(exercise.file)

    def derived_stub(self, exercise: Exercise) -> bytes | None:
        """Return the stub made from the solution's markers, or None; CourseError if they are wrong."""
        solution = self.solution(exercise)
        if not solution.is_file():
            return None
        source = solution.read_text(encoding="utf-8", errors="replace")
        stub = derived_stub(source, self.name_of(solution))
        return None if stub is None else stub.encode()

    def solution(self, exercise: Exercise) -> Path:
        """Return the file of the reference (a release for students has none)."""
        return self.root / "solutions" / exercise.file

    def sealed_solution(self, exercise: Exercise) -> Path:
        """Return the file of the reference in a release with all suites, sealed against accidental reading."""
        return self.solution(exercise).with_suffix(".sealed")

    def solution_source(self, exercise: Exercise) -> bytes | None:
        """Return the source of the reference, sealed or not; None if the course has none."""
        path, sealed = self.solution(exercise), self.sealed_solution(exercise)
        if path.is_file():
            return path.read_bytes()
        return unseal(sealed.read_bytes()) if sealed.is_file() else None

    @property
    def is_public(self) -> bool:
        """Whether it has only public suites, as a release has: marks depend on tests elsewhere."""
        return all(Visibility.HIDDEN not in self.suites(e) for e in self.exercises)

    def name_of(self, path: Path) -> str:
        """Return the path of a course file from the course's root, as used in messages and packs."""
        return path.relative_to(self.root).as_posix()

    def suite(self, exercise: Exercise, visibility: Visibility) -> Path:
        """Return the file of the suite with this visibility; it may be missing."""
        folder = self.root / "tests" / visibility.value / exercise.chapter
        return folder / f"test_{exercise.id}.py"

    def suites(self, exercise: Exercise) -> dict[Visibility, Path]:
        """Return the existing suites, public first."""
        paths = {visibility: self.suite(exercise, visibility) for visibility in Visibility}
        return {visibility: path for visibility, path in paths.items() if path.is_file()}

    def plot(self, exercise: Exercise) -> Path:
        """Return the file of the experiment that `grade plot` draws; it may be missing."""
        return self.root / "tests" / "plots" / exercise.chapter / f"plot_{exercise.id}.py"

    def variants(self, exercise: Exercise, kind: Literal["right", "wrong", "forged"]) -> list[Path]:
        """Return the files of answers that prove the suites: right, wrong (see `mutants`) or forged."""
        folder = self.root / "tests" / kind / exercise.chapter / exercise.id
        return sorted(folder.glob("*.py"))

    def rights(self, exercise: Exercise) -> list[Path]:
        """Return the right answers, the reference first."""
        paths = [self.solution(exercise), *self.variants(exercise, "right")]
        return [path for path in paths if path.is_file()]

    def mutants(self, exercise: Exercise) -> Path:
        """Return the file of wrong answers that are changes of right ones; it may be missing."""
        return self.root / "tests" / "wrong" / exercise.chapter / f"{exercise.id}.toml"

    def caught(self, exercise: Exercise) -> Path:
        """Return the file with the tests that catch each wrong answer, written by `grade verify --write`."""
        return self.mutants(exercise).with_suffix(".caught.toml")

    def observed(self, exercise: Exercise) -> Path:
        """Return the file with observations of wrong answers, for a package; it may be missing."""
        return self.root / "tests" / "observed" / exercise.chapter / f"{exercise.id}.json"

    def info(self) -> CourseInfo:
        """Return name, version and digest; the digest covers the manifest, the stubs and the suites."""
        digest = hashlib.sha256()
        for name, content in self.judged_files().items():
            digest.update(name.encode() + b"\0")
            digest.update(hashlib.sha256(content).digest())
        return CourseInfo(self.name, self.version, digest.hexdigest(), self.disclose)

    def files(self) -> dict[str, bytes]:
        """Return all files that judge and prove the course, by name below the root; stubs as handed out."""
        files = self.judged_files()
        paths = [self.folder / ASSIGNMENTS]
        for exercise in self.exercises:
            paths += [self.kept_stub(exercise), *map(self.kept, exercise.given_files)]
            paths += [self.plot(exercise)]
            paths += [self.mutants(exercise), self.caught(exercise)]
            paths += [*self.rights(exercise), *self.variants(exercise, "wrong")]
            paths += self.variants(exercise, "forged")
        return files | self._read(path for path in paths if path.is_file())

    def judged_files(self) -> dict[str, bytes]:
        """Return all files that judge, by name below the root: manifest, stubs, given files, suites and probes.

        A solution is included if a suite compares with it, sealed: no student's code ever runs where it is
        opened, and nobody reads it by accident.
        """
        files = self._read((self.folder / MANIFEST, *self.parts))
        for exercise in self.exercises:
            files[self.name_of(self.folder / exercise.file)] = self.stub(exercise).source
            for name, source in self.given(exercise).items():
                files[self.name_of(self.folder / name)] = source
            for suite in self.suites(exercise).values():
                files |= self._read(path for path in (suite, probe_of(suite)) if path.is_file())
            solution = self.solution_source(exercise)
            if solution is not None and is_compared(self.suites(exercise)):
                files[self.name_of(self.sealed_solution(exercise))] = seal(solution, exercise)
        return files

    def _read(self, paths: Iterable[Path]) -> dict[str, bytes]:
        return {self.name_of(path): path.read_bytes() for path in paths}


_SEAL = b"# A solution. `grade solution %s` opens it once every test has passed.\n"


def seal(source: bytes, exercise: Exercise) -> bytes:
    """Encode a solution so that no student reads it by accident. This is not encryption."""
    return _SEAL % exercise.id.encode() + base64.encodebytes(zlib.compress(source, 9))


def unseal(sealed: bytes) -> bytes:
    """Decode a sealed solution; raises CourseError if it is damaged."""
    try:
        return zlib.decompress(base64.b64decode(sealed.partition(b"\n")[2]))
    except (zlib.error, ValueError) as error:
        raise CourseError(f"A sealed solution of this course is damaged: {error}.") from error


def probe_of(suite: Path) -> Path:
    """Return the probe module beside a suite: `probe_glu.py` beside `test_glu.py`."""
    return suite.with_name("probe_" + suite.name.removeprefix("test_"))


def find_course(start: Path) -> Path:
    """Return the manifest at or above `start`, in a folder or in its `exercises/`.

    Raises CourseError if `start` does not exist, or no folder there has a manifest.
    """
    start = start.resolve()
    if not start.exists():
        raise CourseError(f"There is no {start}: name the course's folder, its manifest or a pack.")
    for folder in (start, *start.parents):
        for manifest in (folder / MANIFEST, folder / "exercises" / MANIFEST):
            if manifest.is_file():
                return manifest
    raise CourseError(
        f"No course found: neither {start} nor a folder above it has an exercises/{MANIFEST}. "
        "Change into the course's folder, or name it with --course (in Python: course=FOLDER)."
    )


def is_pack(path: Path) -> bool:
    """Return whether `path` can only mean a pack: a file that is not a manifest."""
    return path.is_file() and path.name != MANIFEST


def load_course(path: Path | str = ".") -> Course:
    """Read and check the course at or above `path`, or in a pack.

        course = load_course("course")
        [exercise.id for exercise in course.exercises]

    Raises CourseError for mistakes of the author and for a damaged pack. The files of a pack are in a private
    folder, which is removed when the course is no longer held.
    """
    path = Path(path)
    return _load_pack(path) if is_pack(path) else _load(find_course(path))


def _load_pack(path: Path) -> Course:
    """Return the course of a pack, with messages that name the pack instead of its temporary folder."""
    # Imported here, so that only packs need zipfile.
    from grader.course.pack import unpack

    unpacked = unpack(path)
    try:
        course = _load(unpacked.manifest)
    except CourseError as error:
        raise CourseError(str(error).replace(str(unpacked.folder), str(path))) from error
    if course.info() != unpacked.course:
        raise CourseError(f"{path} does not contain the course that it names; make it anew.")
    return msgspec.structs.replace(course, unpacked=unpacked)


def _load(manifest: Path) -> Course:
    """Read the manifest and the files beside it, and check them together."""
    folder = manifest.parent
    read = read_course_file(manifest, _Manifest, "authoring.md")
    exercises, assignments = read.exercise, Assignments()
    parts = sorted((folder / FOLDER).glob("*.toml"))
    for path in parts:
        part = read_course_file(path, _Part, "authoring.md")
        exercises += part.exercise
        own = resolved(path, part.assignment, part.timezone, _chapters_of(part.exercise))
        assignments = Assignments((*assignments.assignments, *own))
    if (path := folder / ASSIGNMENTS).is_file():
        assignments = read_assignments(path, _chapters_of(exercises))
    course = Course(
        folder.parent,
        folder,
        read.name,
        read.title,
        read.version,
        exercises,
        disclose=read.disclose,
        assignments=assignments.assignments,
        term=assignments.term,
        parts=tuple(parts),
    )
    for complaint in (*_complaints(read.format_version, exercises), *_missing(course)):
        raise CourseError(f"{manifest}: {complaint}")
    return course


def _chapters_of(exercises: Iterable[Exercise]) -> dict[str, str]:
    return {exercise.id: exercise.chapter for exercise in exercises}


def _urgency(assignment: CourseAssignment | None, now: datetime.datetime) -> tuple[int, float]:
    """Return the class of an assignment (due, never due, overdue, not open), and the seconds to its time."""
    if assignment is None or (assignment.opens is None and assignment.due is None):
        return 1, 0.0
    if assignment.opens_at > now:
        return 3, (assignment.opens_at - now).total_seconds()
    if assignment.due is None:
        return 1, 0.0
    return (2 if assignment.due_at < now else 0), (assignment.due_at - now).total_seconds()


def _missing(course: Course) -> Iterator[str]:
    for exercise in course.exercises:
        for name in exercise.given_files:
            if not (course.folder / name).is_file() and not course.kept(name).is_file():
                yield (
                    f"the exercise {exercise.id!r} is given {name}, which is missing; "
                    f"write it to {course.folder / name}."
                )
        working, copy = course.folder / exercise.file, course.kept_stub(exercise)
        if working.is_file() or copy.is_file() or course.derived_stub(exercise) is not None:
            continue
        yield f"the exercise {exercise.id!r} has no stub; write it to {working}."


def _complaints(format_version: int, exercises: tuple[Exercise, ...]) -> Iterator[str]:
    """Yield problems beyond decoding: impossible ids, needs of unknown shares, later prerequisites."""
    if format_version != FORMAT_VERSION:
        yield (
            f"format_version is {format_version}, this grader reads {FORMAT_VERSION}; "
            "install the grader that the course was written for."
        )
    if not exercises:
        yield "the course has no exercises; write a table [[exercise]] for each."
    ids = Counter(exercise.id for exercise in exercises)
    for exercise_id, count in ids.items():
        if count > 1:
            yield f"the exercise id {exercise_id!r} is used {count} times; an id is unique."
        if why := why_no_exercise(exercise_id):
            yield f"the exercise id {exercise_id!r} cannot be used: {why}; choose another."
    for chapter in dict.fromkeys(exercise.chapter for exercise in exercises):
        if why := why_no_folder(chapter):
            yield f"the chapter {chapter!r} cannot have this name: {why}; choose another."
    seen: set[str] = set()
    for exercise in exercises:
        needed = {need.share for need in exercise.needs if isinstance(need, PackageNeed)}
        if unknown := needed - exercise.shares.keys():
            yield (
                f"{exercise.id!r} needs packages for {min(unknown)!r}, which is not one of its shares. "
                f"{nearest(min(unknown), exercise.shares)}"
            )
        elif needed and len(needed) == len(exercise.shares):
            yield f"{exercise.id!r} needs packages for all of its shares: leave one that needs none."
        for prerequisite in exercise.prerequisites:
            if prerequisite not in seen:
                yield (
                    f"{exercise.id!r} has the prerequisite {prerequisite!r}, which is not an earlier exercise; "
                    f"move or rename one of them. {nearest(prerequisite, ids.keys() - {exercise.id})}"
                )
        names = [name for pair in exercise.builds_on.items() for name in (pair[0], *pair[1])]
        for name in names:
            if exercise.shares and name not in exercise.shares:
                yield (
                    f"builds_on of {exercise.id!r} names {name!r}, which is not one of its shares. "
                    f"{nearest(name, exercise.shares)}"
                )
        seen.add(exercise.id)
        yield from _complaints_of_given(exercise, ids)


def _complaints_of_given(exercise: Exercise, ids: Collection[str]) -> Iterator[str]:
    """Yield problems with the names of given files."""
    for name, count in Counter(exercise.given).items():
        stem = name.removesuffix(".py")
        if count > 1:
            yield f"{exercise.id!r} is given {name!r} {count} times."
        if stem in ids:
            yield (
                f"{exercise.id!r} is given {name!r}, which is the file of an exercise; rename one of them."
            )
        elif why := why_not_given(stem):
            yield f"{exercise.id!r} cannot be given {name!r}: {why}; choose another name."
