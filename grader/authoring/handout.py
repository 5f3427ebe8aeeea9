"""A release as one zip, which a server offers to everybody, so it is checked again."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

from grader.authoring.release import LISTING, listed, listing_of
from grader.course.manifest import Course, load_course
from grader.errors import UsageError

_MAX_BYTES = 64 << 20
# The same release makes the same zip.
_TIME = (1980, 1, 1, 0, 0, 0)


class Handout(NamedTuple):
    """A release as a zip, and the ids of the exercises in it."""

    archive: bytes
    exercises: frozenset[str]


def zipped_release(folder: Path, course: Course) -> Handout:
    """Return the release of a course that `grade release` wrote to a folder, as a zip.

    It is a release of the whole course, or of the assignments that are in the folder so far.

    Raises UsageError if the folder has no release of this course, or one with hidden suites or solutions; if a
    file was changed since; and for more than 64 MiB.
    """
    names = [name for name in (listing_of(course), LISTING) if (folder / name).is_file()][:1]
    if not names and course.assignment is None:
        parts = (listing_of(course.assigned(part.id)) for part in course.assignments)
        names = [name for name in parts if (folder / name).is_file()]
    if not names:
        raise UsageError(f"{folder} has no release of this course: write one with `grade release`.")
    released = load_course(folder)
    if released.info().name != course.info().name:
        raise UsageError(
            f"{folder} is a release of another course, {released.info().name!r}: name that of "
            f"{course.info().name!r}."
        )
    has_solutions = any(released.solution_source(each) is not None for each in released.exercises)
    if has_solutions or not released.is_public:
        raise UsageError(
            f"{folder} holds hidden suites or solutions, which everybody could download. Write a release with "
            "public suites only."
        )
    # If several assignments have a file, it is as the last release wrote it.
    digests: dict[str, set[str]] = {}
    for listing in names:
        for name, digest in listed(folder / listing, folder).items():
            digests.setdefault(name, set()).add(digest)
    files, size = {}, 0
    for name, known in digests.items():
        path = folder / name
        # Only the name is checked for "..": the folder itself may well be `../students`.
        if ".." in Path(name).parts or folder not in path.parents or path.is_symlink():
            raise UsageError(f"{folder / names[0]} names a file outside: {name!r}.")
        data = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(data).hexdigest() not in known:
            raise UsageError(
                f"{path} was changed after the release. Write the release again: `grade release {folder} "
                "--force`."
            )
        files[name], size = data, size + len(data)
        if size > _MAX_BYTES:
            raise UsageError(f"The release in {folder} is larger than {_MAX_BYTES >> 20} MiB.")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _TIME), files[name], zipfile.ZIP_DEFLATED)
    return Handout(out.getvalue(), frozenset(exercise.id for exercise in released.exercises))
