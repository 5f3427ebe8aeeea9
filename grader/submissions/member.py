"""Members of archives, whatever packed them: their paths, and their bytes, bounded."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from grader.submissions.folder import EntryKind, Unreadable
from grader.text import clean

MAX_PATH = 1000
DAMAGED = "is damaged in its archive: pack it again."
# The exceptions that the standard library raises for a damaged zip.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, KeyError, IndexError, OverflowError),
)


class Readable(Protocol):
    """An open file, or a member of an archive."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""


class Member(msgspec.Struct, frozen=True):
    """An entry of an archive; `problem` is the reason why it cannot be read, as the end of a sentence."""

    path: str
    kind: EntryKind
    size: int
    open: Callable[[], Readable] = io.BytesIO
    problem: str = ""


class AttemptFile(NamedTuple):
    """A file or folder of an attempt: its path for the student, and the place of its bytes."""

    path: str
    place: Path | Member


def member_path(raw: bytes, *, utf8: bool) -> str:
    """Return a member's name as a path with slashes, in a guessed encoding if none is stated.

    An absolute path, or one with `..`, stays so: see `check_path`.
    """
    raw = raw[: 4 * MAX_PATH + 4]
    # Neither composed nor replaced: names with different bytes may be two people's.
    text = raw.decode("utf-8", "surrogateescape")
    if not utf8 and not text.isprintable() and any("\udc80" <= char <= "\udcff" for char in text):
        text = raw.decode("cp437")
    path = text.replace("\\", "/")
    inside = "/".join(part for part in path.split("/") if part not in ("", "."))
    return "/" * path.startswith("/") + inside


def check_path(path: str) -> None:
    """Raise Unreadable for a path that leads out of the archive, or is too long.

    Nothing would be written there, but such paths are not packed by accident.
    """
    if path.startswith("/") or ".." in path.split("/") or path[1:3] == ":/":
        raise Unreadable(
            f"holds {clean(path, 80)}, which leads out of it: pack the folder itself, from within."
        )
    if len(path) > MAX_PATH:
        raise Unreadable(f"holds a name of more than {MAX_PATH:,} characters: use shorter ones.")


def read_member(member: Member, limit: int) -> bytes:
    """Return all bytes of a member; raises Unreadable, with its name, for damage or more than `limit` bytes."""
    name = clean(member.path)
    if member.kind is not EntryKind.FILE:
        raise Unreadable(f"{name} is a {member.kind.value}; hand in the file itself.")
    if member.problem:
        raise Unreadable(f"{name} {member.problem}")
    if member.size > limit:
        raise Unreadable(f"{name} is larger than {limit:,} bytes.")
    try:
        data = MemberReader(member).read(member.size + 1)
    except Unreadable as problem:
        raise Unreadable(f"{name} {problem}") from problem
    if len(data) != member.size:
        raise Unreadable(f"{name} {DAMAGED}")
    return data


class MemberReader:
    """A member, read from beginning to end; raises Unreadable, without its name."""

    def __init__(self, member: Member) -> None:
        if member.problem:
            raise Unreadable(member.problem)
        self._member = member
        self._file: Readable | None = None

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""
        try:
            self._file = self._file or self._member.open()
            return self._file.read(size)
        except DAMAGE as error:
            raise Unreadable(DAMAGED) from error
