"""Files and folders of strangers: regular files only, no links followed, bounded walks, and safe names."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from grader.text import clean

# A student's folder with a virtual environment and torch has about 30,000.
MAX_ENTRIES = 50_000

_JUNK = frozenset(("__macosx", "__pycache__", "thumbs.db", "desktop.ini"))
# Other names that are not the student's work: tools, and stubs that came with the course.
_IGNORED = _JUNK | {"venv", "env", "site-packages", "node_modules", "tests", "stubs"}
# Folders in which some students work by mistake; their libraries are below other names.
_PERHAPS_WORK = frozenset(("venv", ".venv", "env", "tests"))
_LIBRARIES = frozenset(("lib", "lib64", "include", "share", "library", "pkgs"))
# Code or archives with a dot in front; but `._glu.py` is from macOS, `.#glu.py` from an editor.
_HIDDEN_CODE = re.compile(r"\.[^._#~].*\.(py|pyw|ipynb|zip|tar|tgz|tar\.(gz|bz2|xz)|rar|7z)", re.I)


class Unreadable(Exception):
    """A submission cannot be read; the text is the sentence for the student."""


class Damaged(Unreadable):
    """An archive is cut off or damaged, so nobody can unpack it."""


class EntryKind(enum.Enum):
    """The kinds of entries of a folder or an archive, in the words of a message."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special file"


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is a system's and never a person's."""
    return name.startswith(".") or name.lower() in _JUNK


def is_ignored(name: str) -> bool:
    """Whether a file or folder of this name, with everything below it, is ignored in a submission."""
    return (name.startswith(".") and not is_hidden_code(name)) or name.lower() in _IGNORED


def is_set_aside(path: str) -> bool:
    """Whether a file is in an ignored folder in which a student may have worked by mistake.

    Such a file is never judged, but a person is told about it if nothing else has the work.
    """
    path = path.lower()
    # Most paths have no such folder, and some are very long.
    if not any(f"{folder}/" in path for folder in _PERHAPS_WORK):
        return False
    *folders, name = path.split("/")
    ignored = [folder for folder in folders if is_ignored(folder)]
    return (
        bool(ignored)
        and _PERHAPS_WORK.issuperset(ignored)
        and not is_in_library(path)
        and not is_ignored(name)
    )


def is_in_library(path: str) -> bool:
    """Whether a file is below a folder in which programs keep libraries, as in a virtual environment."""
    return not _LIBRARIES.isdisjoint(path.lower().split("/")[:-1])


def is_hidden_code(name: str) -> bool:
    """Whether a file of this name is work, hidden only by a dot in front."""
    return _HIDDEN_CODE.fullmatch(name) is not None


def kind_of_mode(mode: int) -> EntryKind:
    """Return the kind by the type bits of a Unix mode; no bits mean a plain file."""
    match stat.S_IFMT(mode):
        case 0 | stat.S_IFREG:
            return EntryKind.FILE
        case stat.S_IFDIR:
            return EntryKind.FOLDER
        case stat.S_IFLNK:
            return EntryKind.LINK
    return EntryKind.SPECIAL


def open_regular(path: Path, name: str) -> BinaryIO:
    """Open a regular file, but neither a link nor a pipe, which would never answer.

    The file is checked and read by one descriptor. Raises Unreadable, which calls the file `name`.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():
            raise Unreadable(f"{clean(name)} is a link; hand in the file itself.")
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise Unreadable(f"{clean(name)} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(f"{clean(name)} is not a regular file; hand in the file itself.")
    return os.fdopen(descriptor, "rb")


def walk(folder: Path, ignored: list[tuple[str, Path]] | None = None) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder, nearest first, as paths below it and places; links are not followed.

    They may be as deep as in an archive, since only the number of entries is limited. Folders that are passed
    over, although a student may have worked in them (`is_set_aside`), are appended to `ignored`.
    Raises Unreadable for too many files, and for a folder that cannot be listed.
    """
    level, count = [("", folder)], 0
    while level:
        below: list[tuple[str, Path]] = []
        for prefix, place in level:
            for entry in entries(place):
                count += 1
                if count > MAX_ENTRIES:
                    raise Unreadable(
                        f"{clean(folder.name)} holds more than {MAX_ENTRIES:,} files: "
                        "hand in only the files of the exercises."
                    )
                if is_ignored(entry.name):
                    if ignored is not None and entry.name.lower() in _PERHAPS_WORK:
                        ignored.append((f"{prefix}{entry.name}/", Path(entry.path)))
                    continue
                if entry_kind(entry) is EntryKind.FOLDER:
                    below.append((f"{prefix}{entry.name}/", Path(entry.path)))
                else:
                    yield prefix + entry.name, Path(entry.path)
        level = below


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder one by one, in any order: there may be a hundred million.

    Raises Unreadable.
    """
    try:
        with os.scandir(folder) as listed:
            yield from listed
    except OSError as error:
        raise Unreadable(f"{clean(folder.name)} cannot be listed ({error.strerror}).") from error


def entry_kind(entry: os.DirEntry[str]) -> EntryKind:
    """Return the kind of an entry of a folder; links are not followed."""
    if entry.is_symlink() or getattr(entry, "is_junction", bool)():
        return EntryKind.LINK
    with contextlib.suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            return EntryKind.FOLDER
        if entry.is_file(follow_symlinks=False):
            return EntryKind.FILE
    return EntryKind.SPECIAL


# --- the names of strangers -----------------------------------------------------------------------

LONGEST_ID = 500
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,98}[a-z0-9_@+-])?")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SLUG = re.compile(r"[^a-z0-9]+")


def normalized(text: str) -> str:
    """Return the text in a form for any file: composed (NFC), on one line, without invalid characters.

    The text is still untrusted: formulas, HTML and right-to-left marks stay. Code that shows or writes it has
    to escape it.
    """
    composed = unicodedata.normalize("NFC", text.strip())
    line = "".join(
        "\ufffd" if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in composed[: LONGEST_ID + 1]
    )
    if len(line) <= LONGEST_ID:
        return line
    # Two long names with the same beginning stay different.
    digest = hashlib.sha256(composed.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{line[: LONGEST_ID - 17]}~{digest[:16]}"


def safe_name(student_id: str) -> str:
    """Return a file name without a suffix for a student id, different for different ids.

    The name is valid on every system, even if capitals do not matter there, and in URLs. An id of small
    letters, digits and `. _ @ + -` is its own name:

    >>> safe_name("alice"), safe_name("Alice Doe")
    ('alice', 'alice-doe~b27a79f51bfff1ae0c4e1c19')
    """
    if _PLAIN.fullmatch(student_id) and not _RESERVED.fullmatch(student_id):
        return student_id
    ascii_text = unicodedata.normalize("NFKD", student_id).encode("ascii", "ignore").decode()
    slug = _SLUG.sub("-", ascii_text.lower())[:40].strip("-") or "student"
    # Plain ids have no tilde. The digest, not the slug, distinguishes other ids.
    digest = hashlib.sha256(student_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug}~{digest[:24]}"
