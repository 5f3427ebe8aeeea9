"""A course pack: one archive of everything that graders need, in which every byte is accounted for.

Theory of operation. A pack is a zip file whose members are stored, not compressed, in the order of their names
and without dates: the same course makes the same bytes on every machine, and no member can unfold into more.
The first member, `pack.json`, lists all others with their SHA-256, and has a digest of that list. Opening a
pack checks everything in memory before it writes the first file, into a private folder that no other user may
read and that is removed when the course is no longer used. The digests detect damage, not malice: the maker of
a pack can also make its digests.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import tempfile
import weakref
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import msgspec

from grader.errors import CourseError, GraderError, UsageError, not_written
from grader.files import replacing
from grader.results import CourseInfo

FORMAT_VERSION = 1
LISTING = "pack.json"
MAX_FILES = 10_000
MAX_BYTES = 100_000_000
_LONGEST_NAME = 250
# The end of a zip's directory, which the standard library reads whole: its entries and their size.
_END = struct.Struct("<4s4H2LH")
_ENTRY_BYTES = 46 + _LONGEST_NAME
_DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[\w. +=@~-]+(/[\w. +=@~-]+)*")
# Parts that mean no folder, or a device, on some system.
_ODD_PART = re.compile(r"\.\.?|.*[. ]|(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class _PackListing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`pack.json`: the course, the place of its manifest, and the SHA-256 of every file."""

    format: Literal["lab-bench course pack"]
    format_version: int
    course: CourseInfo
    manifest: str
    files: dict[str, str]
    digest: str

    def expected_digest(self) -> str:
        """The correct value of `digest`: the digest of the rest of the listing."""
        rest = [self.format_version, self.course, self.manifest, sorted(self.files.items())]
        return hashlib.sha256(msgspec.json.encode(rest)).hexdigest()


class Unpacked:
    """The files of a pack in a private folder, which is removed with this object.

    `manifest` is the course's manifest in it, `course` the course that the pack claims to contain.
    """

    def __init__(self, files: Mapping[str, bytes], manifest: str, course: CourseInfo) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="course-pack-"))
        # A finalizer instead of a context, since the folder must exist for as long as the course is used
        # anywhere. It also runs at the interpreter's end.
        weakref.finalize(self, _remove, self.folder, os.getpid())
        self.manifest, self.course = self.folder / manifest, course
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _remove(folder: Path, owner: int) -> None:
    # A forked child ends too, and must not remove its parent's course.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def write_pack(path: Path, course: CourseInfo, manifest: str, files: Mapping[str, bytes]) -> str:
    """Write a pack of the `files`, by name below the course's root; return the SHA-256 of the pack.

    An existing zip archive is replaced.

    Raises:
        UsageError: another file has this name, or the folder is missing or cannot be written.
        CourseError: the course is too large, or one of its names is not allowed on every system.
        GraderError: the disk is full or broken.
    """
    if os.path.lexists(path) and not (path.is_file() and zipfile.is_zipfile(path)):
        raise UsageError(f"{path} exists and is not a pack; name another file with -o.")
    contents = dict(sorted(files.items()))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    listing = _PackListing("lab-bench course pack", FORMAT_VERSION, course, manifest, digests, "")
    listing = msgspec.structs.replace(listing, digest=listing.expected_digest())
    if problem := _problem(listing, sum(map(len, contents.values()))):
        raise CourseError(f"This course cannot be packed: {problem}.")
    encoded = msgspec.json.format(msgspec.json.encode(listing), indent=1) + b"\n"
    try:
        with replacing(path) as out:
            write_zip(out, {LISTING: encoded, **contents})
    except OSError as error:
        raise not_written(path, error) from error
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_zip(
    path: Path | IO[bytes],
    contents: Mapping[str, bytes],
    *,
    compression: int = zipfile.ZIP_STORED,
    programs: Collection[str] = (),
) -> None:
    """Write a zip archive that depends only on the contents; `programs` are executable."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name, _DATE)
            member.compress_type = compression
            member.create_system = 3  # Unix, on every system
            member.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(member, content)


def unpack(path: Path) -> Unpacked:
    """Check a pack and unpack it into a private folder.

    Raises CourseError if it cannot be read, is damaged or is not a pack, and GraderError if the folder cannot
    be written.
    """
    try:
        listing, contents = _read(path)
    except _Damage as damage:
        raise CourseError(
            f"{path} is not a usable course pack: {damage}. "
            "Make it anew with `grade pack`, or copy it again."
        ) from damage
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return Unpacked(contents, listing.manifest, listing.course)
    except OSError as error:
        raise GraderError(f"{path} cannot be unpacked: {error.strerror}.") from error


class _Damage(Exception):
    """A fault of a pack, as part of a sentence."""


def _read(path: Path) -> tuple[_PackListing, dict[str, bytes]]:
    """Return the listing and the files of a pack, in memory; raises _Damage for any problem."""
    size = path.stat().st_size
    if size > MAX_BYTES + MAX_FILES * 2 * _ENTRY_BYTES:
        raise _Damage("it is too large")
    with path.open("rb") as file:
        file.seek(max(0, size - _END.size))
        _check_end(file.read())
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                contents = _contents(archive, members)
        # All errors that the standard library raises for a damaged archive, including OSError for a place
        # before the file's beginning.
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
            raise _Damage(f"its archive is damaged ({error})") from error
        except (EOFError, struct.error, KeyError, OSError) as error:
            raise _Damage("its archive is damaged") from error
    return _checked(contents), contents


def _check_end(end: bytes) -> None:
    """Check the sizes that the standard library reads whole."""
    if len(end) < _END.size or not end.startswith(b"PK\5\6"):
        raise _Damage("it is not an archive, or its end is missing")
    _, _, _, _, entries, size, _, comment = _END.unpack(end)
    if entries > MAX_FILES + 1 or size > (MAX_FILES + 1) * _ENTRY_BYTES or comment:
        raise _Damage("its archive contains too much")


def _contents(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Return the members of the archive by name, the listing first."""
    stored = all(m.compress_type == zipfile.ZIP_STORED and not m.flag_bits & 1 for m in members)
    if not members or members[0].filename != LISTING or not stored:
        raise _Damage(f"it is an archive of something else: a pack begins with {LISTING}")
    if sum(member.file_size for member in members) > 2 * MAX_BYTES:
        raise _Damage("its archive contains too much")
    contents = {member.filename: archive.read(member) for member in members}
    if len(contents) < len(members):
        raise _Damage("it contains a name twice")
    return contents


def _checked(contents: dict[str, bytes]) -> _PackListing:
    """Return the listing, after checking it and removing it from the contents."""
    try:
        listing = msgspec.json.decode(contents.pop(LISTING), type=_PackListing)
    except msgspec.DecodeError as error:
        raise _Damage(f"its {LISTING} is not one of a course ({error})") from error
    if listing.format_version != FORMAT_VERSION:
        raise _Damage(f"it has the format {listing.format_version}, and not {FORMAT_VERSION}")
    if listing.digest != listing.expected_digest():
        raise _Damage(f"its {LISTING} was changed")
    if problem := _problem(listing, sum(map(len, contents.values()))):
        raise _Damage(problem)
    for name in sorted({*contents, *listing.files}):
        if name not in contents or name not in listing.files:
            raise _Damage(
                f"{name!r} in it is {'missing' if name in listing.files else 'unexpected'}"
            )
        if hashlib.sha256(contents[name]).hexdigest() != listing.files[name]:
            raise _Damage(f"{name!r} in it is damaged")
    return listing


def _problem(listing: _PackListing, total_bytes: int) -> str:
    """Return why these files are too many, too large or oddly named; empty if they are not."""
    if len(listing.files) > MAX_FILES or total_bytes > MAX_BYTES:
        return f"it is larger than {MAX_FILES:,} files or {MAX_BYTES:,} bytes"
    folded = {name.casefold() for name in listing.files}
    folders = {str(parent) for name in folded for parent in PurePosixPath(name).parents}
    for name in listing.files:
        parts = name.split("/")
        if not _NAME.fullmatch(name) or any(_ODD_PART.fullmatch(part) for part in parts):
            return f"the name {name!r} is not allowed on every system"
        if len(name) > _LONGEST_NAME or name.casefold() in folders:
            return f"the name {name!r} is too long, or is also a folder's"
    if len(folded) < len(listing.files):
        return "two of its names differ only in capital letters"
    return "" if listing.manifest in listing.files else "its manifest is missing"
