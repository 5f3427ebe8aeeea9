"""Backups of a gradebook: each is a checked folder, named by its time; `restore` puts one back.

Theory of operation. A backup has the gradebook and the file of corrections, so it is a RESULTS folder itself,
which every command reads. It is written as a draft, in steps and within one read transaction, so a server can
write meanwhile. The draft is opened and checked, synced, and only then gets its name. A kill leaves a
draft, which `remove_unfinished` removes.

Backups of several gradebooks may be in one folder. A gradebook is recognized by its secret, and only its own
backups are deleted. Other files there do not change.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.errors import GraderError, SubmissionError, UsageError
from grader.files import replacing, sync_folder, write_whole
from grader.gradebook import invitations
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections_file import CORRECTIONS_FILE, CorrectionsError, writing
from grader.gradebook.database import (
    FILE,
    LOG_FILES,
    end_log,
    explaining_errors,
    only_writer,
    opened,
    opened_again,
)
from grader.gradebook.work import DamagedValueError

# In RESULTS: copies of gradebooks that `restore` replaced.
BEFORE_RESTORE = "before-restore"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")
_STAMP = "%Y-%m-%dT%H%M%SZ"
# The files of a backup, including those that `grade erase` adds.
_OWN = {FILE, *LOG_FILES, CORRECTIONS_FILE, "results", "batch.lock", "batch.lock-journal"}
# A backup leaves this much room for hand-ins on the same disk.
_ROOM_BYTES = 64 << 20


class Backup(NamedTuple):
    """A finished backup; `secret` is its gradebook's."""

    path: Path
    made_at: datetime.datetime
    secret: str


class Restored(NamedTuple):
    """The result of `restore`: the folder of the replaced gradebook, if any, and the number of students.

    With `keeps_corrections`, RESULTS has corrections from before, since the backup has no file for them.
    """

    before: Path | None
    students: int
    keeps_corrections: bool


# --- making ---------------------------------------------------------------------------------------


def make_backup(
    results: Path,
    folder: Path,
    now: datetime.datetime,
    pause: Callable[[], None] = lambda: None,
) -> Backup:
    """Write a checked backup of the gradebook in RESULTS to a folder; return it.

    A server may write meanwhile. `pause` is called after every 4 MiB; an exception from it ends the backup.
    If anything fails, no new backup is left, and earlier ones stay.

    Raises GraderError.
    """
    with _writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with explaining_errors(results / FILE), opened_again(results / FILE) as tables:
        secret = tables.facts.secret
        draft = folder / f"{_draft_name(secret)}{now:{_STAMP}}.part"
        try:
            with _writing(folder):
                _refuse_without_room(results / FILE, folder)
                draft.mkdir(mode=0o700)
                with tables.reading(), explaining_errors(draft / FILE):
                    sizes = tables.sizes()
                    # Corrections change in the file first, then in the gradebook.
                    _copy_corrections(results, draft)
                    tables.back_up(draft / FILE, pause)
                _check(draft, secret, sizes)
                sync_folder(draft)
                backup = _named(draft, folder, now)
                sync_folder(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return Backup(backup, _moment(backup.name), secret)


def _copy_corrections(folder: Path, draft: Path) -> None:
    """Copy the file of corrections, if there is one, even with mistakes."""
    with contextlib.suppress(FileNotFoundError):
        content = (folder / CORRECTIONS_FILE).read_bytes()
        write_whole(draft / CORRECTIONS_FILE, content, private=True)


def _refuse_without_room(file: Path, folder: Path) -> None:
    bytes_now = sum(path.stat().st_size for path in file.parent.glob(f"{FILE}*"))
    if shutil.disk_usage(folder).free < bytes_now + _ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check(draft: Path, secret: str, sizes: tuple[int, ...]) -> None:
    """Open a draft as a gradebook; raises GraderError if it is incomplete."""
    try:
        with opened(draft / FILE, create=False) as tables:
            is_whole = tables.sizes() == sizes and tables.facts.secret == secret
            problem = "" if is_whole else f"it has {tables.sizes()} rows of {sizes}"
    except GraderError as error:
        problem = str(error.__cause__ or error)
    if problem:
        raise GraderError(
            f"The copy is incomplete ({problem}), so it was not kept. Earlier backups stay. Check the disks "
            "with the gradebook and the backups."
        )


def _named(draft: Path, folder: Path, now: datetime.datetime) -> Path:
    """Give a draft its name; if another backup has it, the name of the next second."""
    while True:
        backup = folder / f"{now:{_STAMP}}"
        if not backup.exists():
            return draft.rename(backup)
        now += datetime.timedelta(seconds=1)


def remove_unfinished(results: Path, folder: Path) -> None:
    """Remove the drafts that killed processes left of this gradebook; none may be written now."""
    with opened_again(results / FILE) as tables:
        name = _draft_name(tables.facts.secret)
    for draft in folder.glob(f"{name}*.part"):
        shutil.rmtree(draft, ignore_errors=True)


def _draft_name(secret: str) -> str:
    """Return the beginning of a gradebook's names of drafts."""
    return f".{hashlib.sha256(secret.encode()).hexdigest()[:8]}-"


# --- existing backups -----------------------------------------------------------------------------


def backups_in(folder: Path) -> list[Backup]:
    """Return the finished backups in a folder that can be opened, the oldest first."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _NAME.fullmatch(path.name) and (path / FILE).is_file() and not path.is_symlink():
            with (
                contextlib.suppress(sqlite3.Error, DamagedValueError, TypeError, ValueError),
                opened_again(path / FILE) as tables,
            ):
                found.append(Backup(path, _moment(path.name), tables.facts.secret))
    return found


def delete_older(folder: Path, secret: str, keep: int) -> list[Path]:
    """Delete all but the newest backups of the gradebook with this secret; return the deleted ones.

    A backup with files that are not its own stays. Raises OSError.
    """
    own = [backup for backup in backups_in(folder) if backup.secret == secret]
    deleted = []
    for backup in own[:-keep]:
        if {path.name for path in backup.path.iterdir()} <= _OWN:
            # A kill in between leaves a draft.
            draft = folder / f"{_draft_name(secret)}{backup.path.name}.part"
            shutil.rmtree(backup.path.rename(draft))
            deleted.append(backup.path)
    return deleted


def _moment(name: str) -> datetime.datetime:
    return datetime.datetime.strptime(name, _STAMP).replace(tzinfo=datetime.UTC)


# --- restoring ------------------------------------------------------------------------------------


def backup_file(backup: Path, results: Path) -> Path:
    """Return the gradebook in a backup for RESULTS.

    Raises SubmissionError if there is no backup, and UsageError if it is the gradebook in RESULTS.
    """
    source = backup / FILE if backup.is_dir() else backup
    if not source.is_file():
        inside = backups_in(backup)
        one = (
            f"one of the folders there, the newest is {inside[-1].path.name}"
            if inside
            else "its folder, or its file"
        )
        raise SubmissionError(f"There is no backup at {backup}: name {one}.")
    if source.resolve() == (results / FILE).resolve():
        raise UsageError(f"{backup} is the gradebook of {results} itself: name a backup.")
    return source


def restore(backup: Path, results: Path, now: datetime.datetime) -> Restored:
    """Replace the gradebook in RESULTS by a backup, or by a file of `grade serve --backup`.

    The backup is copied and checked first; a copy of the replaced gradebook stays in RESULTS. After a kill, the
    gradebook is either the old one or the backup; call it again.

    Raises SubmissionError if there is no backup, UsageError if others read RESULTS, and GraderError if the
    backup cannot be used, a newer grader wrote it, or a server or a grading runs. Errors leave RESULTS
    unchanged.
    """
    source = backup_file(backup, results)
    with writing(results):
        results.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = results / ".restore.part"
    with only_writer(results):
        try:
            with _writing(results):
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(mode=0o700)
                if backup.is_dir():
                    _copy_corrections(backup, draft)
                students = _copied(source, draft)
                before = _set_aside(results, now)
                (draft / FILE).replace(results / FILE)
                sync_folder(results)
                # A migration makes the file of the corrections in the gradebook.
                has_corrections = backup.is_dir() or (draft / CORRECTIONS_FILE).is_file()
                if has_corrections:
                    _replace_corrections(draft, results)
                keeps_corrections = not has_corrections and (results / CORRECTIONS_FILE).is_file()
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        _write_results(results)
    return Restored(before, students, keeps_corrections)


def _copied(source: Path, draft: Path) -> int:
    """Copy a backup to a draft, and bring it up to date there; return the number of its students."""
    file = draft / FILE
    try:
        with explaining_errors(source), opened_again(source) as tables:
            tables.back_up(file)
        # Opening checks it, and migrates a format of an earlier grader.
        with opened(file, create=True) as tables:
            # The gradebook is stale until its results are written.
            with tables.transaction():
                tables.put_facts(msgspec.structs.replace(tables.facts, is_stale=True))
                invitations.end_all(Gradebook(draft, tables))
            students = len(tables.students())
    except GraderError as error:
        # Quote only the cause from SQLite, since its message has advice for a gradebook; others name the draft.
        if isinstance(cause := error.__cause__, (sqlite3.Error, DamagedValueError)):
            reason = f"{source} cannot be read ({cause}). Use another one."
        else:
            reason = str(error).replace(str(file), str(source))
        raise GraderError(
            f"The backup cannot be restored, and nothing was changed: {reason}"
        ) from error
    return students


def _set_aside(results: Path, now: datetime.datetime) -> Path | None:
    """Keep a copy of the gradebook in RESULTS, whole or damaged, and end its log; returns its folder."""
    names = [name for name in (FILE, *LOG_FILES, CORRECTIONS_FILE) if (results / name).exists()]
    if not names:
        return None
    folder = results / BEFORE_RESTORE
    try:
        kept = make_backup(results, folder, now).path
    except GraderError:
        # Damaged, or of another format: keep it unchanged.
        kept = folder / f"{now:{_STAMP}}"
        kept.mkdir(mode=0o700, parents=True)
        for name in names:
            with (results / name).open("rb") as there, replacing(kept / name, private=True) as out:
                shutil.copyfileobj(there, out)
    end_log(results / FILE)
    return kept


def _replace_corrections(draft: Path, results: Path) -> None:
    if (draft / CORRECTIONS_FILE).is_file():
        (draft / CORRECTIONS_FILE).replace(results / CORRECTIONS_FILE)
    else:
        (results / CORRECTIONS_FILE).unlink(missing_ok=True)
    sync_folder(results)


def _write_results(results: Path) -> None:
    """Write the results of the students in a restored gradebook, and of no others."""
    for path in (results / "results").glob("*.json"):
        path.unlink()
    (results / "results").mkdir(mode=0o700, exist_ok=True)
    with (
        # The next command reports mistakes in corrections.
        contextlib.suppress(CorrectionsError),
        opened(results / FILE, create=True) as tables,
        Gradebook(results, tables).changing_results(()),
    ):
        pass


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Within the block, turn an OSError into a GraderError that names the folder."""
    try:
        yield
    except OSError as error:
        raise GraderError(
            f"Nothing can be written to {folder}: {error.strerror}. Make room there, or check your permissions."
        ) from error
