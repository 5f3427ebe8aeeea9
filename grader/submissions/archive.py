"""Archives: a list of the files that matter, and functions that read them.

Members are read one by one in place; nothing is extracted. The numbers of entries, unpacked bytes and kept
bytes are bounded, so no archive costs more than a second or two and some tens of megabytes.
"""

from __future__ import annotations

import enum
import functools
import io
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from grader.submissions.folder import (
    MAX_ENTRIES,
    EntryKind,
    Unreadable,
    is_ignored,
    is_set_aside,
    open_regular,
)
from grader.submissions.member import Member, Readable, check_path, read_member
from grader.submissions.submission import MAX_FILE_BYTES
from grader.submissions.tar import BLOCK, Decompressed, FilePart, Plain, is_tar, tar_members
from grader.submissions.zip import ZipArchive
from grader.text import clean

_MAX_TABLE_BYTES = 16 << 20
_MAX_CANDIDATES = 100
_NAMES_SHOWN = 3
# For each depth, so that a library which was handed in with the work does not hide files above it. One more
# than an attempt reads, to notice that there are more.
_MAX_EXTRA_CODE = 41

# Files in which a student may have written or shown an answer, and files whose content is surely no code.
_DOCUMENT = re.compile(
    r".+\.(png|jpe?g|gif|bmp|webp|heic|pdf|docx?|odt|pages|rtf|xlsx?|pptx?|html?|url|webloc)", re.I
)
_DATA = re.compile(
    r".+\.(svg|csv|tsv|json|npy|npz|pt|pth|pkl|pickle|h5|hdf5|bin|mp[34]|mov|wav|exe|pyc|so|dll)",
    re.I,
)
_PAGE = re.compile(r".+\.html?", re.I)
_PACKED = re.compile(r".+\.(zip|tar|tgz|tbz2?|txz|(tar|py|ipynb)\.(gz|bz2|xz|zst)|rar|7z)", re.I)


class Format(enum.Enum):
    """The format of a file by its first bytes, not by its name."""

    ZIP = "zip"
    TAR = "tar"
    GZ = "gz"
    BZ2 = "bz2"
    XZ = "xz"


class Candidate(NamedTuple):
    """A file that may be an exercise's, by its path; `read` raises Unreadable if it cannot be read."""

    path: str
    read: Callable[[], bytes]


class Listing(NamedTuple):
    """The contents of an archive or a folder: the candidates, and some of the other files."""

    candidates: list[Candidate]
    extras: list[Candidate]


class Extras:
    """A choice of the files to keep among those without an exercise's name.

    Keep some files of each depth that may have code or are nearly named after an exercise (`is_kin`), and a few
    archives and others for their names.
    """

    def __init__(self, is_kin: Callable[[str], bool]) -> None:
        self._is_kin = is_kin
        self._counts: dict[tuple[bool, bool, int], int] = {}

    def may_hold_work(self, name: str) -> bool:
        """Whether a file of this name may hold an exercise, so that it may have to be read."""
        return looks_like_code(name) or self._is_kin(name) or may_be_text(name)

    def keep(self, path: str) -> bool:
        """Return whether to keep the file at this path, and count it if so.

        Files in ignored folders are counted separately.
        """
        name = path.rpartition("/")[2]
        is_kin = self._is_kin(name)
        is_code = is_kin or looks_like_code(name)
        is_work = is_code or may_be_text(name)
        others = -2 if looks_like_document(name) else -1
        kind = is_code, is_kin or looks_packed(name), path.count("/") if is_work else others
        if is_set_aside(path):
            kind = is_code, is_kin, -3
        count = self._counts.get(kind, 0)
        if count >= (_MAX_EXTRA_CODE if is_work else _NAMES_SHOWN):
            return False
        self._counts[kind] = count + 1
        return True


def looks_like_code(name: str) -> bool:
    """Whether a file may hold an exercise although it is named after none."""
    return name.lower().endswith((".py", ".pyw", ".py.txt", ".ipynb"))


def may_be_text(name: str) -> bool:
    """Whether a file may be text, so that only its content shows whether it is code."""
    is_other = _DATA.fullmatch(name) or looks_packed(name)
    return not is_other and (not looks_like_document(name) or _PAGE.fullmatch(name) is not None)


def looks_like_document(name: str) -> bool:
    """Whether a file may show an answer, such as a document, a picture, a web page or a link."""
    return _DOCUMENT.fullmatch(name) is not None


def looks_packed(name: str) -> bool:
    """Whether a file of this name is an archive, perhaps of a kind that cannot be read here."""
    return _PACKED.fullmatch(name) is not None


def format_of(file: BinaryIO) -> Format:
    """Return the format of an open file; raises Unreadable for a format that cannot be read here."""
    file.seek(0)
    begin = file.read(BLOCK)
    if begin[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return Format.ZIP
    for format_, mark in (
        (Format.GZ, b"\x1f\x8b"),
        (Format.BZ2, b"BZh"),
        (Format.XZ, b"\xfd7zXZ\0"),
    ):
        if begin.startswith(mark):
            return format_
    if is_tar(begin):
        return Format.TAR
    if begin.startswith((b"Rar!", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd")):
        raise Unreadable("is not a zip or tar, and other archives are not read: pack it as a zip.")
    if not begin:
        raise Unreadable("is empty: pack the folder again and hand it in.")
    raise Unreadable("is not a zip or tar, or its beginning is damaged: pack the folder as a zip.")


class StoredArchive:
    """An archive of a class, which stays open: its members are read later, one by one in place.

    Raises Unreadable for a compressed tar, and for a broken or too large archive.
    """

    def __init__(self, path: Path, max_entries: int, max_table_bytes: int) -> None:
        self._max_entries = max_entries
        file = open_regular(path, path.name)
        # The file is closed with this object, to which its members refer.
        weakref.finalize(self, file.close)
        format_ = format_of(file)
        if format_ not in (Format.ZIP, Format.TAR):
            raise Unreadable("is a compressed tar, which can only be read from its beginning.")
        self._file = file
        self._zip = None
        if format_ is Format.ZIP:
            self._zip = ZipArchive(file, max_entries=max_entries, max_table_bytes=max_table_bytes)

    def members(self) -> Iterator[Member]:
        """Yield every entry, in the order of the archive."""
        if self._zip is not None:
            for member in self._zip.members():
                yield self._held(member, member.open)
        else:
            stream = Plain(self._file)
            for member in tar_members(stream, max_entries=self._max_entries):
                section = functools.partial(FilePart, self._file, stream.at, member.size)
                yield self._held(member, section)

    def forget(self) -> None:
        """Release the memory that no member needs."""
        if self._zip is not None:
            self._zip.forget()

    def _held(self, member: Member, opener: Callable[[], Readable]) -> Member:
        # Bound to this object, so the file stays open as long as one of its members exists.
        return msgspec.structs.replace(member, open=functools.partial(self._open, opener))

    def _open(self, opener: Callable[[], Readable]) -> Readable:
        return opener()


def list_archive(
    file: BinaryIO, name: str, is_wanted: Callable[[str], bool], extras: Extras
) -> Listing:
    """List the files of an archive with wanted names, and the `extras` to keep.

    Raises Unreadable, with a text that begins with `name`.
    """
    contents = _Contents(is_wanted, extras)
    try:
        format_ = format_of(file)
        if format_ is Format.ZIP:
            return _list_zip(file, contents)
        stream = Plain(file) if format_ is Format.TAR else Decompressed(file, format_.value)
        return _list_tar(stream, contents)
    except Unreadable as problem:
        raise Unreadable(f"{clean(name)} {problem}") from problem


class _Contents:
    """The entries of an archive that matter, gathered in one pass.

    Paths of all others are kept as hashes, to notice a name that is both a file and a folder.
    """

    def __init__(self, is_wanted: Callable[[str], bool], extras: Extras) -> None:
        self.kept: list[Member] = []
        self.kept_extras: list[Member] = []
        self._is_wanted, self._extras = is_wanted, extras
        self._files: set[int] = set()
        self._folders: set[int] = set()

    def add(self, member: Member) -> list[Member] | None:
        """Add an entry; return the list to which it was appended, if the entry may have to be read."""
        check_path(member.path)
        parent, _, name = member.path.rpartition("/")
        self._folders.add(hash(parent))
        if member.kind is EntryKind.FOLDER:
            self._folders.add(hash(member.path))
            return None
        self._files.add(hash(member.path))
        if any(map(is_ignored, member.path.split("/"))):
            is_aside = self._is_wanted(name) and is_set_aside(member.path)
            if not (is_aside and self._extras.keep(member.path)):
                return None
            self.kept_extras.append(member)
            return self.kept_extras
        if not self._is_wanted(name):
            if not self._extras.keep(member.path):
                return None
            self.kept_extras.append(member)
            return self.kept_extras if self._extras.may_hold_work(name) else None
        if len(self.kept) >= _MAX_CANDIDATES:
            raise Unreadable(f"holds too many files like {clean(name)}: hand in one of each.")
        self.kept.append(member)
        return self.kept

    def listing(self) -> Listing:
        """Return the kept candidates and extras; raises Unreadable if there are none."""
        if not (self.kept or self.kept_extras):
            raise Unreadable("has no files of yours in it: pack the folder again and hand it in.")
        candidates, extras = (
            [Candidate(member.path, functools.partial(self._read, member)) for member in members]
            for members in (self.kept, self.kept_extras)
        )
        return Listing(candidates, extras)

    def _read(self, member: Member) -> bytes:
        """Read a member; raises Unreadable if it, or a folder above it, is both a file and a folder."""
        above = member.path.split("/")[:-1]
        both = ["/".join(above[: end + 1]) for end in range(len(above))]
        names = [path for path in both if hash(path) in self._files]
        if hash(member.path) in self._folders:
            names.append(member.path)
        if names:
            raise Unreadable(f"{clean(names[0])} is both a file and a folder.")
        return read_member(member, MAX_FILE_BYTES)


def _list_zip(file: BinaryIO, contents: _Contents) -> Listing:
    archive = ZipArchive(file, max_entries=MAX_ENTRIES, max_table_bytes=_MAX_TABLE_BYTES)
    for member in archive.members():
        contents.add(member)
    return contents.listing()


def _list_tar(stream: Plain | Decompressed, contents: _Contents) -> Listing:
    for member in tar_members(stream, max_entries=MAX_ENTRIES):
        if (kept := contents.add(member)) is not None:
            # The bytes are read in passing, but checked by the rules for every member.
            data = stream.read(min(member.size, MAX_FILE_BYTES))
            kept[-1] = msgspec.structs.replace(member, open=functools.partial(io.BytesIO, data))
    return contents.listing()
