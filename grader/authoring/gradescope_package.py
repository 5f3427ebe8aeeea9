"""Packages for platforms that run a grader: one zip with the grader, the course and a start script.

The grader is a wheel of the installed one, with the versions of its requirements as constraints: the platform
judges with the grader that proved the course here. The course has no solutions. The same installation and
course make the same bytes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import shlex
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import msgspec

import grader
from grader.authoring.observations import observations
from grader.authoring.part import extra_credit_file, extracted, is_whole
from grader.authoring.trial import try_out
from grader.course.manifest import MANIFEST, Course, load_course
from grader.course.pack import write_pack, write_zip
from grader.errors import CourseError, GraderError, not_written
from grader.results import Visibility

_DISTRIBUTION = "lab-bench"
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PROGRAMS = ("setup.sh", "run_autograder")
_SCRIPTS = Path(__file__).with_name("gradescope")
# The catalogue of attacks is for `grade audit`; no submission is graded with it.
_LEFT_OUT = {"__pycache__", "attacks"}


class GradescopeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The required level of isolation, the seed of the tests' inputs, and options for pip."""

    require_isolation: str = "kernel"
    seed: int = 0
    pip_options: tuple[str, ...] = ()


def write_gradescope(
    path: Path,
    course: Course,
    options: GradescopeOptions,
    *,
    jobs: int = 1,
    done: Callable[[str], object] = lambda text: None,
) -> tuple[str, ...]:
    """Write a Gradescope autograder for the exercises of the course and return the names of its files.

    Wrong answers are judged for it (`observations`); `done` is called with each exercise as that begins. Stubs
    and solutions are graded by the package before it is written.

    Raises CourseError if that fails, or if the course has no hidden suite: a release for students is not a
    course to grade with.
    """
    if not any(Visibility.HIDDEN in course.suites(exercise) for exercise in course.exercises):
        raise CourseError(
            f"{course.title} has no hidden suite: a package of it would judge only with suites that "
            "students see. Make it from the course, not from its release."
        )
    observed = observations(course, course.exercises, seed=options.seed, jobs=jobs, done=done)
    contents = {
        "setup.sh": _script("setup.sh", PIP_OPTIONS=shlex.join(options.pip_options)),
        "run_autograder": _script(
            "run_autograder",
            REQUIRE_ISOLATION=shlex.quote(options.require_isolation),
            SEED=str(options.seed),
        ),
        "course.pack": _pack(course, dict(observed), options.seed),
        "constraints.txt": "".join(f"{line}\n" for line in installed_versions()).encode(),
        **dict([wheel()]),
    }
    try:
        write_zip(path, contents, compression=zipfile.ZIP_DEFLATED, programs=_PROGRAMS)
    except OSError as error:
        raise not_written(path, error) from error
    return tuple(contents)


def _script(name: str, **values: str) -> bytes:
    text = (_SCRIPTS / f"{name}.txt").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.encode()


def _pack(course: Course, observed: Mapping[str, bytes], seed: int) -> bytes:
    """Return a pack of the manifest, stubs, suites and compared solutions, after trying it out.

    Observations of wrong answers are included, to name mistakes.
    """
    files, extra = course.judged_files(), extra_credit_file(course)
    with contextlib.ExitStack() as stack:
        part = course
        if not is_whole(course):
            part = stack.enter_context(
                extracted(msgspec.structs.replace(course, assignments=()), files)
            )
            files = part.judged_files()
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pack = Path(folder) / "course.pack"
        manifest = part.name_of(part.folder / MANIFEST)
        write_pack(pack, part.info(), manifest, {**files, **extra, **observed})
        try_out(load_course(pack), course, seed=seed)
        return pack.read_bytes()


def wheel() -> tuple[str, bytes]:
    """Return the name and the bytes of a wheel of the running grader, however it was installed."""
    distribution = _distribution(_DISTRIBUTION)
    about = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    scripts = distribution.read_text("entry_points.txt") or ""
    stem = f"{_DISTRIBUTION.replace('-', '_')}-{distribution.version}"
    contents = dict(_modules())
    contents[f"{stem}.dist-info/METADATA"] = about.encode()
    contents[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: lab-bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    contents[f"{stem}.dist-info/entry_points.txt"] = scripts.encode()
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in contents.items()]
    contents[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "wheel"
        write_zip(file, contents, compression=zipfile.ZIP_DEFLATED)
        return f"{stem}-py3-none-any.whl", file.read_bytes()


def _modules() -> Iterator[tuple[str, bytes]]:
    package = Path(grader.__file__).parent
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package.parent)
        if path.is_file() and not _LEFT_OUT & set(name.parts) and not path.name.startswith("."):
            yield name.as_posix(), path.read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")


def installed_versions() -> list[str]:
    """Return `name==version` of every installed package that the grader needs, without local tags."""
    versions: dict[str, str] = {}
    names = [_DISTRIBUTION]
    while names:
        distribution = _installed(names.pop())
        if distribution is None or _canonical(distribution.name) in versions:
            continue
        versions[_canonical(distribution.name)] = distribution.version.partition("+")[0]
        names += _requirements(distribution)
    del versions[_DISTRIBUTION]
    return [f"{name}=={version}" for name, version in sorted(versions.items())]


def _requirements(distribution: metadata.Distribution) -> Iterator[str]:
    """Yield the names of its requirements, except requirements of extras.

    Other conditions are not evaluated: a package excluded by one is either not installed here, or harmless as a
    constraint.
    """
    for requirement in distribution.requires or ():
        name = _REQUIREMENT.match(requirement)
        if name and "extra ==" not in requirement:
            yield name[0]


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _distribution(name: str) -> metadata.Distribution:
    """Return an installed package; raises GraderError if it cannot be packed."""
    distribution = _installed(name)
    if distribution is None:
        raise GraderError(
            f"{name} is not installed here as a package, so it cannot be packed: install it with "
            "pip, as the README says."
        )
    return distribution


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
