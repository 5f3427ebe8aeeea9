"""The digests that a verdict depends on: the student's file, its part of the course, and the grader.

Two gradings with the same key end alike, so that the second one need not be done.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path

import msgspec

import grader
from grader.course.manifest import Exercise
from grader.judge.assignment import GradingOptions
from grader.submissions import ExerciseFile
from grader.submissions.source import code_digest

# What decides on an outcome; how a result is shown, exported or stored does not.
_JUDGING = (
    "judge",
    "sandbox",
    "course",
    "grading.py",
    "submissions/source.py",
    "submissions/submission.py",
    "results.py",
    "text.py",
    "toml.py",
)


class VerdictKey(msgspec.Struct, frozen=True):
    """The digests behind one verdict, and their sum `key`; `source` is empty where there is no file."""

    source: str
    course: str
    grader: str
    key: str


@functools.cache
def grader_digest() -> str:
    """The digest of the code that judges, and of the torch and the Python that it judges with."""
    # 11 ms that a `grade` which has nothing to judge need not wait for.
    from importlib import metadata

    versions = grader.__version__, metadata.version("torch"), *map(str, sys.version_info[:2])
    digest = hashlib.sha256(" ".join(versions).encode())
    package = Path(__file__).parents[1]
    for part in _JUDGING:
        path = package / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(package).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def source_digest(file: ExerciseFile) -> str:
    """The digest of a file that was handed in, the same for all line ends; empty where there is none."""
    return code_digest(file.source) if file.source is not None else ""


def verdict_key(
    exercise: Exercise, handed: ExerciseFile, course: str, options: GradingOptions
) -> VerdictKey:
    """The key of a verdict; `course` is the exercise's digest.

    A file that cannot be read has no digest: the sentence about it takes its place.
    """
    source = source_digest(handed)
    suites = ",".join(visibility.value for visibility in options.suites)
    parts = (
        exercise.id,
        source,
        handed.problem,
        course,
        grader_digest(),
        str(options.seed),
        suites,
    )
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return VerdictKey(source, course, grader_digest(), key)
