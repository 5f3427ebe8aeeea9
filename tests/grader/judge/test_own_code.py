"""Verdicts are outdated if any code that decides them changed. Comments and docstrings do not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import grader
from grader.judge import own_code
from grader.judge.own_code import deciding, digest_of, meaning_of
from tests.grader.test_imports import imported_modules

PACKAGE = Path(grader.__file__).parent
CHANGED = (
    "judge/scoring.py",
    "submissions/not_python.py",
    "submissions/odd_code.py",
    "submissions/submission.py",
)
NAMES = deciding()


@pytest.fixture
def changed_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[dict[str, bytes]], str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def digest(changes: dict[str, bytes]) -> str:
        files = {name: changes.get(name, (PACKAGE / name).read_bytes()) for name in CHANGED}
        return digest_of(files)

    return digest


@pytest.mark.parametrize("name", NAMES)
def test_each_deciding_module_counts_by_its_code_without_comments(name: str) -> None:
    source = (PACKAGE / name).read_bytes()
    same = b"# A comment.\n\n" + source + b"\n\n# Another one.\n"
    assert meaning_of(same) == meaning_of(source)
    assert meaning_of(source + b"\nmore = 1\n") != meaning_of(source)


def test_docstrings_do_not_count_and_other_texts_do() -> None:
    first, second = (
        f'"""Says {word}."""\ndef f():\n    """Does {word}."""\n    return 1\n'.encode()
        for word in ("this", "that")
    )
    assert meaning_of(first) == meaning_of(second)
    assert meaning_of(b'def f():\n    return "this"') != meaning_of(b'def f():\n    return "that"')


def test_the_digest_depends_only_on_the_code(
    changed_digest: Callable[[dict[str, bytes]], str],
) -> None:
    usual = changed_digest({})
    for name in CHANGED:
        source = (PACKAGE / name).read_bytes()
        assert changed_digest({name: source + b"# A comment.\n"}) == usual == changed_digest({})
        assert changed_digest({name: source + b"more = 1\n"}) != usual


def test_deciding_modules_exclude_points_policies_and_exports() -> None:
    assert {*CHANGED, "findings.py", "grading.py", "sandbox/inside/worker.py"} <= set(NAMES)
    rooms = {name.partition("/")[0] for name in NAMES}
    assert not rooms & {"gradebook", "exports", "serve", "cli", "student", "authoring", "notebook"}
    assert not {"course/assignments.py", "judge/warm.py", "judge/plain.py", "__init__.py"} & {
        *NAMES
    }


def test_every_module_that_judging_imports_decides_or_is_listed_here() -> None:
    waiting, reached = ["judge.process", "sandbox.inside.worker"], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += imported_modules(module)
    files = {f"{name.replace('.', '/')}.py" for name in reached}
    known = {*NAMES, *(f"{name.removesuffix('/__init__.py')}.py" for name in NAMES)}
    # Packing of courses, and writing of files.
    others = {"course/assignments.py", "course/pack.py", "errors.py", "files.py", "judge/cache.py"}
    assert files - known == others


def test_the_cache_is_used_unless_it_is_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    usual = digest_of({"one.py": b"one = 1"})
    (kept,) = tmp_path.rglob("*.json")
    kept.write_bytes(b"0" * 64)
    assert digest_of({"one.py": b"one = 1"}) == "0" * 64
    kept.write_bytes(b"\xff nonsense")
    assert digest_of({"one.py": b"one = 1"}) == usual


def test_a_changed_module_changes_both_digests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sources = {"results.py": b"one = 1\n", "text.py": b"two = 2\n"}

    def digests(changes: dict[str, bytes]) -> tuple[str, str]:
        monkeypatch.setattr(own_code, "_sources", lambda: sources | changes)
        return own_code.judging_code.__wrapped__(), own_code.judging_files.__wrapped__()

    code, files = digests({})
    assert digests({}) == (code, files)
    assert not {code, files} & {*digests({"text.py": b"two = 3\n"})}
    again, other = digests({"text.py": b"# A comment.\ntwo = 2\n"})
    assert (again == code, other == files) == (True, False)
