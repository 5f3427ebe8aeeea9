"""Verdict keys: digests of everything that a verdict depends on.

These are the student's file, the exercise's part of the course, the grader and the seed. Two gradings with the
same key have the same result, so the second one is not needed.
"""

from __future__ import annotations

import functools
import hashlib
import sys

import msgspec

from grader.course.manifest import Exercise
from grader.judge.assignment import GradingOptions
from grader.judge.own_code import judging_code
from grader.submissions import ExerciseFile
from grader.submissions.source import code_digest


class VerdictKey(msgspec.Struct, frozen=True):
    """The digests behind a verdict, and the `key` made of them; `source` is empty without a file."""

    source: str
    course: str
    grader: str
    key: str


@functools.cache
def grader_digest() -> str:
    """Return the digest of the judging code and of the versions of torch and Python.

    Another release of the grader with the same judging code has the same digest.
    """
    # Imported here, since it takes 11 ms and is needed only to judge.
    from importlib import metadata

    versions = metadata.version("torch"), *map(str, sys.version_info[:2])
    return hashlib.sha256(" ".join((*versions, judging_code())).encode()).hexdigest()


def source_digest(file: ExerciseFile) -> str:
    """Return the digest of a submitted file, whatever its line ends; empty without a source."""
    return code_digest(file.source) if file.source is not None else ""


def verdict_key(
    exercise: Exercise, handed: ExerciseFile, course: str, options: GradingOptions
) -> VerdictKey:
    """Return the key of a verdict; `course` is the digest of the exercise's part of the course.

    An unreadable file has no digest, so the sentence about it is part of the key instead.
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
