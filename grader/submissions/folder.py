"""Files and folders of strangers: regular files only, no links followed, bounded walks, and safe names."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from grader.text import clean

if TYPE_CHECKING:
    from grader.submissions.zip import Member

# A student's folder with a virtual environment of torch in it has some 30,000.
MAX_ENTRIES = 50_000
MAX_DEPTH = 8

_JUNK = frozenset(("__macosx", "__pycache__", "thumbs.db", "desktop.ini"))
# What else is no work of the student's: tools, and the stubs that came with the course.
_IGNORED = _JUNK | {"venv", "env", "site-packages", "node_modules", "tests", "stubs"}
# Somebody's code or archive that a system hides; `._glu.py` is macOS's, `.#glu.py` an editor's.
_HIDDEN_CODE = re.compile(r"\.[^._#~].*\.(py|pyw|ipynb|zip|tar|tgz|tar\.(gz|bz2|xz)|rar|7z)", re.I)


class Unreadable(Exception):
    """A submission cannot be read; the text is the sentence for the student."""


class EntryKind(enum.Enum):
    """The kinds of entries of a folder or an archive, in the words of a message."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special file"


class AttemptFile(NamedTuple):
    """A file or folder of an attempt: what the student called it, and where its bytes are."""

    path: str
    place: Path | Member


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is a system's and never a person's."""
    return name.startswith(".") or name.lower() in _JUNK


def is_ignored(name: str) -> bool:
    """Whether a file or folder of this name, and all below it, is ignored in a submission."""
    return (name.startswith(".") and not is_hidden_code(name)) or name.lower() in _IGNORED


def is_hidden_code(name: str) -> bool:
    """Whether a file of this name is work that only its dot in front hides."""
    return _HIDDEN_CODE.fullmatch(name) is not None


def kind_of_mode(mode: int) -> EntryKind:
    """The kind by the type bits of a Unix mode; no bits at all mean a plain file."""
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
        raise Unreadable(f"{clean(name)} is no regular file; hand in the file itself.")
    return os.fdopen(descriptor, "rb")


def walk(folder: Path) -> Iterator[AttemptFile]:
    """Yield the files below a folder, nearest first, with their paths below it; follow no link.

    Raises Unreadable for too many files, and for a folder that cannot be listed.
    """
    level, count = [("", folder)], 0
    for _ in range(MAX_DEPTH):
        below: list[tuple[str, Path]] = []
        for prefix, place in level:
            for entry in entries(place):
                count += 1
                if count > MAX_ENTRIES:
                    raise Unreadable(
                        f"{clean(folder.name)} holds more than {MAX_ENTRIES:,} files: "
                        "hand in only those of the exercises."
                    )
                if is_ignored(entry.name):
                    continue
                if entry_kind(entry) is EntryKind.FOLDER:
                    below.append((f"{prefix}{entry.name}/", Path(entry.path)))
                else:
                    yield AttemptFile(prefix + entry.name, Path(entry.path))
        level = below


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder in any order, one by one: there may be a hundred million."""
    try:
        with os.scandir(folder) as listed:
            yield from listed
    except OSError as error:
        raise Unreadable(f"{clean(folder.name)} cannot be listed ({error.strerror}).") from error


def entry_kind(entry: os.DirEntry[str]) -> EntryKind:
    """The kind of an entry of a folder; a link is a link, wherever it points."""
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


def written(text: str) -> str:
    """The text made fit for any file: composed (NFC), on one line, without invalid characters.

    The text is still the person's name: formulas, HTML and right-to-left marks stay, and code that shows or
    writes the text has to treat it as a stranger's.
    """
    composed = unicodedata.normalize("NFC", text.strip())
    line = "".join(
        "\ufffd" if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in composed[: LONGEST_ID + 1]
    )
    if len(line) <= LONGEST_ID:
        return line
    # Two long names that begin alike are still two.
    digest = hashlib.sha256(composed.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{line[: LONGEST_ID - 17]}~{digest[:16]}"


def listed_names(names: Sequence[str]) -> str:
    """The first five of some names, and how many more there are, for a message."""
    first = ", ".join(clean(name, 60) for name in names[:5])
    return first if len(names) <= 5 else f"{first} and {len(names) - 5} more"


def safe_name(student_id: str) -> str:
    """A file name without a suffix for a student id; two ids never have the same one.

    Every system can write the name, also one that takes capitals and small letters for the same, and a URL can
    hold it. An id of small letters, digits and `. _ @ + -` stays itself:

    >>> safe_name("alice"), safe_name("Alice Doe")
    ('alice', 'alice-doe~b27a79f51bfff1ae0c4e1c19')
    """
    if _PLAIN.fullmatch(student_id) and not _RESERVED.fullmatch(student_id):
        return student_id
    ascii_text = unicodedata.normalize("NFKD", student_id).encode("ascii", "ignore").decode()
    slug = _SLUG.sub("-", ascii_text.lower())[:40].strip("-") or "student"
    # No plain id has a tilde. The digest, not the slug, tells two others apart.
    digest = hashlib.sha256(student_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug}~{digest[:24]}"
