"""`grade restore` asks only before it replaces a gradebook, and says what to do next."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from grader.cli import restore as command
from grader.gradebook.backup import Restored
from tests.grader.command import invoke


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> list[Restored]:
    """The results of restores that are not carried out. Each is popped from the end."""
    given: list[Restored] = []

    def restore(backup: Path, results: Path, now: datetime.datetime) -> Restored:
        assert now.tzinfo is datetime.UTC
        return given.pop()

    monkeypatch.setattr(command, "restore_backup", restore)
    monkeypatch.setattr(command, "backup_file", lambda *_: None)
    return given


RESTORED = Restored(before=None, students=2, keeps_corrections=False)


@pytest.mark.parametrize(
    ("file", "words", "code"),
    [
        ("", (), 0),
        ("notes.txt", (), 0),
        ("gradebook.sqlite", (), 1),
        ("gradebook.sqlite-wal", (), 1),
        ("gradebook.sqlite", ("--yes",), 0),
    ],
)
def test_it_asks_before_a_gradebook_is_replaced(
    tmp_path: Path, restored: list[Restored], file: str, words: tuple[str, ...], code: int
) -> None:
    backup, results = tmp_path / "backup", tmp_path / "results"
    backup.mkdir()
    results.mkdir()
    if file:
        (results / file).touch()
    restored.append(RESTORED)
    # The question gets no answer, as at the end of a pipe.
    done = invoke("restore", backup, "-o", results, *words, cwd=tmp_path)
    assert done.exit_code == code
    assert (restored == []) == (code == 0)
    assert ("Restored 2 students" in done.stdout) == (code == 0)


@pytest.mark.parametrize("keeps_corrections", [True, False])
@pytest.mark.parametrize("has_copy", [True, False])
def test_kept_corrections_and_the_copy_are_reported(
    tmp_path: Path, restored: list[Restored], keeps_corrections: bool, has_copy: bool
) -> None:
    before = Path("before") if has_copy else None
    restored.append(Restored(before, 1, keeps_corrections))
    said = invoke("restore", tmp_path, "-o", tmp_path / "new", cwd=tmp_path).stdout
    assert said.startswith("Restored 1 student: ")
    assert ("`grade adjust" in said) == keeps_corrections
    assert ("A copy of the replaced gradebook: before" in said) == has_copy
    assert "erase again" in said


def test_a_folder_without_a_backup_is_refused_before_any_question(tmp_path: Path) -> None:
    done = invoke("restore", tmp_path, "-o", tmp_path / "new", cwd=tmp_path)
    assert done.exit_code == 2 and "Replace" not in done.output
    assert not (tmp_path / "new").exists()
