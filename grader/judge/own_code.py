"""The modules of this package that decide outcomes, messages and held points, and a digest of their code.

Verdicts, and what judges keep between runs, are stale once this code changes. Code that shows, exports or
stores results does not count, nor do the rules for points. For verdicts, comments, docstrings and layout do not
count either.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from grader.course.syntax import syntax_tree
from grader.judge import cache

_PACKAGE = Path(__file__).parents[1]
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
        "judge/cache.py",
        "judge/plain.py",
        "judge/pytest_report.py",
        "judge/warm.py",
        "sandbox/walls/survey.py",
    )
)


@functools.cache
def judging_code() -> str:
    """Return the digest of the code that decides, for verdicts, which are kept for long."""
    return digest_of(_sources())


@functools.cache
def judging_files() -> str:
    """Return the digest of the files that decide, for caches. A comment changes it; it takes milliseconds."""
    return hashlib.sha256(b"\0".join(_sources().values())).hexdigest()


def _sources() -> dict[str, bytes]:
    return {name: (_PACKAGE / name).read_bytes() for name in deciding()}


def deciding() -> list[str]:
    """Return the files of the modules that decide, relative to the package `grader`."""
    parts = [_PACKAGE / part for part in _DECIDING]
    files = [f for part in parts for f in (part.rglob("*.py") if part.is_dir() else [part])]
    return sorted({file.relative_to(_PACKAGE).as_posix() for file in files} - _NOT_DECIDING)


def digest_of(sources: Mapping[str, bytes]) -> str:
    """Return the digest of the code of modules, by file; cached on disk, since it takes half a second."""
    digests = (f"{name} {hashlib.sha256(source).hexdigest()}" for name, source in sources.items())
    kept = cache.file_of("code", *digests)
    with contextlib.suppress(OSError, UnicodeError):
        if re.fullmatch("[0-9a-f]{64}", known := kept.read_text("ascii")):
            return known
    digest = hashlib.sha256()
    for name, source in sources.items():
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
