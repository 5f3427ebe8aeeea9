"""Realistic downloads, built from plain dictionaries of paths and contents."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.submissions import Attempt, read_attempt

ROOT = Path(__file__).resolve().parents[3]

Files = Mapping[str, bytes]
Pack = Callable[..., bytes]


@pytest.fixture(scope="session")
def course() -> Course:
    return load_course(ROOT)


def _zip(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _tar(files: Files, mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]  # any mode
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _lay(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def zipped() -> Pack:
    """Return a function that packs files into the bytes of a zip."""
    return _zip


@pytest.fixture(scope="session")
def tarred() -> Pack:
    """Return a function that packs files into the bytes of a tar, with a `mode` as in tarfile."""
    return _tar


@pytest.fixture
def lay() -> Callable[[Path, Files], Path]:
    """Return a function that writes files below a folder."""
    return _lay


Sources = Callable[[Attempt], dict[str, bytes | str]]


@pytest.fixture
def sources(course: Course) -> Sources:
    """Return a function that reads an attempt: for each exercise the source, or why there is none."""

    def read(found: Attempt) -> dict[str, bytes | str]:
        files = read_attempt(found, course).files
        return {
            name: handed.source if handed.source is not None else handed.problem
            for name, handed in files.items()
            if handed.source is not None or "is missing: hand it in" not in handed.problem
        }

    return read
