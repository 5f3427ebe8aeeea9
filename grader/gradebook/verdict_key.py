"""Verdict keys: digests of everything that a verdict depends on.

These are the student's file, the exercise's part of the course, the grader and the seed. Two gradings with the
same key have the same result, so the second one is not needed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

import grader
from grader.course.manifest import Exercise
from grader.course.syntax import syntax_tree
from grader.judge import cache
from grader.judge.assignment import GradingOptions
from grader.submissions import ExerciseFile
from grader.submissions.source import code_digest

# Code that determines outcomes, their messages, and reasons to hold points. Code that shows, exports or stores
# results is not part of this, and rules for points are not either.
_DECIDING = (
    "judge",
    "sandbox",
    "course",
    "grading.py",
    "submissions/not_python.py",
    "submissions/odd_code.py",
    "submissions/source.py",
    "submissions/submission.py",
    "findings.py",
    "results.py",
    "text.py",
    "toml.py",
)
_NOT_DECIDING = frozenset(
    (
        "course/assignments.py",
        "course/pack.py",
        "judge/plain.py",
        "judge/pytest_report.py",
        "judge/warm.py",
        "sandbox/walls/survey.py",
    )
)


class VerdictKey(msgspec.Struct, frozen=True):
    """The digests behind a verdict, and the `key` made of them; `source` is empty without a file."""

    source: str
    course: str
    grader: str
    key: str


@functools.cache
def grader_digest() -> str:
    """Return the digest of the judging code and of the versions of torch and Python."""
    # Imported here, since it takes 11 ms and is needed only to judge.
    from importlib import metadata

    versions = grader.__version__, metadata.version("torch"), *map(str, sys.version_info[:2])
    package = Path(__file__).parents[1]
    files = {file.relative_to(package).as_posix(): file.read_bytes() for file in deciding(package)}
    digest = hashlib.sha256(" ".join((*versions, _digest_of_code(files))).encode())
    return digest.hexdigest()


def deciding(package: Path) -> list[Path]:
    """Return the modules of a grader whose code determines verdicts."""
    parts = [package / part for part in _DECIDING]
    files = [f for part in parts for f in (part.rglob("*.py") if part.is_dir() else [part])]
    return sorted(f for f in files if f.relative_to(package).as_posix() not in _NOT_DECIDING)


def _digest_of_code(files: Mapping[str, bytes]) -> str:
    """Return the digest of the code of these modules; cached on disk, since it takes half a second."""
    digests = (f"{name} {hashlib.sha256(source).hexdigest()}" for name, source in files.items())
    kept = cache.file_of("code", *digests)
    with contextlib.suppress(OSError, UnicodeError):
        if re.fullmatch("[0-9a-f]{64}", known := kept.read_text("ascii")):
            return known
    digest = hashlib.sha256()
    for name, source in files.items():
        digest.update(f"{name}\0{meaning_of(source)}\0".encode())
    cache.keep(kept, digest.hexdigest().encode())
    return digest.hexdigest()


def meaning_of(source: bytes) -> str:
    """Return the code of a module as text that ignores comments, docstrings and layout."""
    tree = syntax_tree(source)
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
            ):
                del node.body[0]
    return ast.dump(tree)


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
