"""Write a release for students: stubs, public suites, the manifest, instructions; nothing hidden.

If a release has only public suites, other tests decide about marks elsewhere. For self-study, there is a
release with all suites, and with solutions that open once students no longer need them. It is not for secrets
or marks.

The released suites' observations of the course's wrong answers are included as data, so that students read
the sentence of a mistake without having any answer.

A release is built from a list of allowed files, never by leaving out forbidden ones. The manifest is written
anew from its keys, which students may see, and without an author's comments. The grader is included as
a wheel: its name is not registered on an index, where anyone could take it. The same installation and course
make the same bytes. `.release.json` lists the files, so that a later release replaces only these. The release
of an assignment has its own list, and can be written beside the releases of others.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from grader.authoring.gradescope_package import installed_versions, wheel
from grader.authoring.observations import observations
from grader.authoring.part import released_manifests
from grader.authoring.scaffold import fill
from grader.authoring.trial import try_out
from grader.course.digest import exercise_digest
from grader.course.manifest import (
    EVERY_EXERCISE,
    MANIFEST,
    Course,
    Exercise,
    load_course,
    probe_of,
    seal,
)
from grader.errors import CourseError, UsageError, not_written
from grader.results import EXTRA_CREDIT, Visibility
from grader.submissions.source import is_untouched

LISTING = ".release.json"
# A package, a wheel or an address that is safe between double quotes in a shell.
_REQUIREMENT = re.compile(r"[\w.@:/+=<>~!,\[\]#&?% -]+")
_ACTION = re.compile(r"[\w.-]+/[\w./-]+@[\w./-]+|\./[\w./-]+")


class Tier(enum.Enum):
    """The suites that students get."""

    PUBLIC = "public"
    ALL = "all"


class Released(msgspec.Struct, frozen=True):
    """The files of a release, and the number of removed files of an earlier one."""

    files: tuple[str, ...]
    removed: int


class _ReleaseListing(msgspec.Struct, frozen=True):
    """`.release.json`: the SHA-256 of each file of the release."""

    files: dict[str, str]


def release(
    course: Course,
    folder: Path,
    *,
    suites: Tier = Tier.PUBLIC,
    requirement: str = "",
    action: str = "",
    fail_under: float = 0,
    force: bool = False,
    judge: bool = False,
    jobs: int = 1,
    done: Callable[[str], object] = lambda text: None,
) -> Released:
    """Write a release to a folder that is new, empty, or contains only a `.git`.

    Args:
        course: each exercise needs a public suite, and a stub from markers in its solution or a copy in
            `tests/stubs`.
        folder: with `force`, it may hold an earlier release, of which only the files are replaced; for an
            assignment, also releases of others, whose exercises do not change.
        suites: only public ones, or all, with sealed solutions.
        requirement: the package that pip installs as the grader; by default a wheel of this one, which is
            included.
        action: the GitHub action that the workflow uses, as `owner/name@version`; by default the
            workflow installs the grader and runs it.
        fail_under: below this percentage of the points the workflow's check is red; with 0 it is green
            once everything was judged.
        force: replace an earlier release.
        judge: grade the stubs and the solutions by the release before it is written, and run the wrong
            answers in the released suites, whose observations it carries (see `observations`). Without
            them, students read no sentence of a mistake.
        jobs: the number of judges that run the wrong answers.
        done: called with each exercise's id as its wrong answers are run.

    Raises:
        CourseError: the course cannot be handed out, or its trial fails.
        GraderError: something is in the way in the folder.
    """
    contents = {} if requirement else dict([wheel()])
    requirement = requirement or f"./{next(iter(contents))}"
    contents |= _contents(course, suites, requirement, action, fail_under)
    listing_name = listing_of(course)
    before = _before(folder, listing_name, force=force)
    others = {
        name
        for path in _listings(folder)
        if path.name != listing_name
        for name in listed(path, folder)
    }
    ours = before.keys() | others
    with _laid_out(contents) as released:
        if judge:
            try_out(released, course)
            contents |= _observations(course, suites, released, jobs, done)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    listing = msgspec.json.format(msgspec.json.encode(_ReleaseListing(digests)), indent=1) + b"\n"
    contents[listing_name] = listing
    for name in contents:
        if os.path.lexists(folder / name) and name not in ours and name != listing_name:
            raise UsageError(
                f"{folder / name} is there and of no earlier release; move it, or choose another "
                "folder."
            )
    try:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # Files that another assignment also has stay.
        gone = before.keys() - contents.keys() - others
        removed = sum(_remove(folder, name, before[name]) for name in gone)
    except OSError as error:
        raise not_written(error.filename or folder, error) from error
    return Released(tuple(sorted(contents)), removed)


def _before(folder: Path, listing: str, *, force: bool) -> dict[str, str]:
    """Return the files of an earlier release of the same kind, if there may be one."""
    if not os.path.lexists(folder):
        return {}
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name a new or an empty one.")
    if {path.name for path in folder.iterdir()} <= {".git"}:
        return {}
    if not force:
        raise UsageError(
            f"{folder} is not empty. Name another folder; if it holds an earlier release, "
            "--force replaces that."
        )
    listings = _listings(folder)
    if listing != LISTING and folder / LISTING in listings:
        raise UsageError(
            f"{folder} holds a release of the whole course, of which the assignment is a part: name another "
            "folder."
        )
    if folder / listing not in listings and (listing == LISTING or not listings):
        raise UsageError(
            f"{folder} has no earlier release (its {listing} is missing), so there is nothing in it that "
            "--force may replace."
        )
    return listed(folder / listing, folder) if folder / listing in listings else {}


def listing_of(course: Course) -> str:
    """Return the name of the list of a release of the course, or of its assignment."""
    return LISTING if course.assignment is None else f".release-{course.assignment.id}.json"


def _listings(folder: Path) -> list[Path]:
    return sorted([*folder.glob(LISTING), *folder.glob(".release-*.json")])


def listed(listing: Path, folder: Path) -> dict[str, str]:
    """Return the files of an earlier release, each with its SHA-256; raises UsageError."""
    try:
        return msgspec.json.decode(listing.read_bytes(), type=_ReleaseListing).files
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{folder} has no earlier release (its {listing.name} is damaged), so there is nothing in it "
            "that --force may replace."
        ) from error


def _remove(folder: Path, name: str, digest: str) -> bool:
    """Remove a file of an earlier release that this one lacks, unless it was edited."""
    path = folder / name
    # Only the name is checked for "..": the folder itself may well be `../students`.
    if ".." in Path(name).parts or folder not in path.parents:
        return False
    if path.is_symlink() or not path.is_file():
        return False
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        return False
    path.unlink()
    for parent in path.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()
    return True


# --- contents ------------------------------------------------------------------------------------


def _contents(
    course: Course, tier: Tier, requirement: str, action: str, fail_under: float
) -> dict[str, bytes]:
    """Return the files of a release except the grader, the observations and the list, by name."""
    if not _REQUIREMENT.fullmatch(requirement):
        raise CourseError(f"{requirement!r} is not something that pip can install as the grader.")
    texts = {
        "README.md": _readme(course, tier, requirement, fail_under),
        ".gitignore": fill("gitignore"),
        "constraints.txt": _constraints(course),
        "pytest.ini": fill("pytest.ini"),
        ".github/workflows/grade.yml": _workflow(tier, requirement, action, fail_under),
        ".vscode/tasks.json": fill("tasks.json"),
        **released_manifests(course),
    }
    contents = {name: text.encode() for name, text in texts.items()}
    if (page := course.root / EVERY_EXERCISE).is_file():
        contents[EVERY_EXERCISE] = page.read_bytes()
    for exercise in course.exercises:
        stub = _handed_out(course, exercise)
        for name, file in {exercise.file: stub, **course.given(exercise)}.items():
            contents |= {f"exercises/{name}": file, f"tests/stubs/{name}": file}
        suite = course.suites(exercise).get(Visibility.PUBLIC)
        if suite is None:
            path = course.suite(exercise, Visibility.PUBLIC)
            raise CourseError(
                f"The exercise {exercise.id!r} has no public suite, so that students could not "
                f"judge it; write one to {path}."
            )
        paths = [suite, probe_of(suite), course.plot(exercise)]
        if tier is Tier.ALL:
            hidden = course.suite(exercise, Visibility.HIDDEN)
            paths += [hidden, probe_of(hidden)]
            if (source := course.solution_source(exercise)) is not None:
                sealed = course.sealed_solution(exercise)
                contents[course.name_of(sealed)] = seal(source, exercise)
        for path in paths:
            if path.is_file():
                contents[course.name_of(path)] = path.read_bytes()
    return contents


@contextlib.contextmanager
def _laid_out(contents: Mapping[str, bytes]) -> Iterator[Course]:
    """Yield the course of a release, from these files of it in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            if name.startswith(("exercises/", "tests/")):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        yield load_course(Path(folder, "exercises", MANIFEST))


def _observations(
    course: Course,
    tier: Tier,
    released: Course,
    jobs: int,
    done: Callable[[str], object],
) -> dict[str, bytes]:
    """Return the released suites' observations of the course's wrong answers, which name mistakes."""
    digests = {e.id: exercise_digest(released, e) for e in released.exercises}
    return dict(
        observations(
            course,
            course.exercises,
            suites=tuple(Visibility) if tier is Tier.ALL else (Visibility.PUBLIC,),
            digest=lambda exercise: digests[exercise.id],
            jobs=jobs,
            done=done,
        )
    )


def _handed_out(course: Course, exercise: Exercise) -> bytes:
    """Return the stub to hand out, after all checks that need no judge."""
    stub, solution = course.stub(exercise), course.solution(exercise)
    if stub.working is not None:
        raise CourseError(
            f"The file {stub.working} may be a student's work. Mark the students' part in the solution of "
            f"{exercise.id!r}, or copy the stub to {course.kept_stub(exercise)}."
        )
    if not solution.is_file():
        return stub.source
    if is_untouched(solution.read_bytes(), stub.source):
        raise CourseError(
            f"The stub of {exercise.id!r} is the solution, and students would get it."
        )
    if course.derived_stub(exercise) not in (None, stub.source):
        raise CourseError(
            f"{course.kept_stub(exercise)} differs from the stub that the markers of {solution} make; "
            f"`grade stub {exercise.id}` writes it anew."
        )
    return stub.source


_WHAT_RUNS = {
    Tier.PUBLIC: """It runs
the tests in `tests/public`, which are small examples. Others, which you don't see, decide about marks.""",
    Tier.ALL: """All of
its tests are here, in `tests/public` and `tests/hidden`; the second ones give away more than you may want.
`grade solution` opens the solution of an exercise once all of its tests have passed.""",
}


_GREEN = "The check is green once everything was judged, with any number of points."


def _readme(course: Course, tier: Tier, requirement: str, fail_under: float) -> str:
    """Return the page with which students begin."""
    rows = [
        f"| `{e.file}` | {e.points:g}{_extra(course, e)} | {e.minutes} minutes | {_cell(e.title)} |"
        for e in course.exercises
    ]
    return fill(
        "student_readme.md",
        title=" ".join(course.title.split()),
        grader=requirement,
        tests=_WHAT_RUNS[tier],
        due=_due(course),
        page=_page(course),
        first=course.exercises[0].id,
        check=f"The check is red below {fail_under:g} % of the points." if fail_under else _GREEN,
        exercises="\n".join(rows),
    )


def _extra(course: Course, exercise: Exercise) -> str:
    """Return the mark of an exercise that full marks do not need."""
    return f", {EXTRA_CREDIT}" if exercise.id in course.extra_credit else ""


def _due(course: Course) -> str:
    assignment = course.assignment
    if assignment is None or assignment.due is None:
        return ""
    zone = f" ({assignment.timezone})" if assignment.due.tzinfo is None else ""
    return f"\nDue {assignment.due:%Y-%m-%d %H:%M}{zone}.\n"


def _page(course: Course) -> str:
    """Return a link to the rules for every exercise, if the course has a page of them."""
    if not (course.root / EVERY_EXERCISE).is_file():
        return ""
    return f"The rules for all exercises are on one page: [{EVERY_EXERCISE}]({EVERY_EXERCISE}).\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _constraints(course: Course) -> str:
    """Return the versions that students install: the course's own, else those installed here."""
    own = course.root / "constraints.txt"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    return "".join(f"{line}\n" for line in installed_versions())


def _workflow(tier: Tier, requirement: str, action: str, fail_under: float) -> str:
    """Return the GitHub workflow that grades each push, by the named action or by commands."""
    if action and not _ACTION.fullmatch(action):
        raise CourseError(f"{action!r} is not a GitHub action: write it as owner/name@version.")
    values = {"suite": tier.value, "fail_under": f"{fail_under:g}"}
    if action:
        steps = fill("workflow_action.yml", action=action, **values)
    else:
        steps = fill("workflow_commands.yml", grader=requirement, **values)
    return fill("workflow.yml", steps=steps.rstrip("\n"))
