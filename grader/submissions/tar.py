"""The members of a tar, plain or compressed, header by header in one pass.

`tarfile` parses single headers here, but does not go from one to the next. Even on a stream that refuses long
reads, two attacks would remain. Before Python 3.11.10 and 3.12.6 (CVE-2024-6232), one pax header of 64 KiB
costs 2 s and 1 GiB. In every version, a sparse file's table is unbounded, so 1.2 MB of gzip cost 24 s and 740
MiB.
"""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

from grader.submissions.folder import Damaged, EntryKind, Unreadable
from grader.submissions.member import Member, member_path

BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 16
# The longest extension (a long name, pax records) that is read.
MAX_EXTENSION = 1 << 16
# `xz -9` needs 65 MiB to be unpacked.
_XZ_MEMORY = 72 << 20
_MAX_STREAMS = 1000
# The most unpacked bytes of one archive: about a second's work.
_LIMITS = {"gz": 256 << 20, "xz": 96 << 20, "bz2": 16 << 20}

_UNPACKERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}

_EXTENSIONS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_WITHOUT_BYTES = b"123456"
_MORE_HOLES_AT = 482

_BROKEN = "is cut off or damaged: pack it again and hand it in."


class Stream(Protocol):
    """Bytes that are read once, from beginning to end; `at` is the position."""

    at: int

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer only at the end."""

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""

    def finish(self) -> None:
        """Read to the end, where a compressed file has its checksum."""


class Plain:
    """An uncompressed file."""

    def __init__(self, file: BinaryIO) -> None:
        self.at = 0
        self._file = file
        self._size = file.seek(0, 2)
        file.seek(0)

    def read(self, size: int) -> bytes:
        self._file.seek(self.at)
        data = self._file.read(size)
        self.at += len(data)
        return data

    def skip(self, size: int) -> None:
        if size > self._size - self.at:
            raise Damaged(_BROKEN)
        self.at += size

    def finish(self) -> None:
        pass


class FilePart:
    """A part of a file, read independently of the file's own position."""

    def __init__(self, file: BinaryIO, at: int, size: int) -> None:
        self._file, self._at, self._end = file, at, at + size

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._at)
        data = self._file.read(min(size, self._end - self._at))
        self._at += len(data)
        return data


class Decompressed:
    """A compressed file, unpacked up to the limit of its kind: `gz`, `bz2` or `xz`."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self.at = 0
        self._file, self._kind = file, kind
        file.seek(0)
        self._buffer, self._rest = bytearray(), b""
        self._streams = 0
        self._open_next()

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self.at += len(data)
        return data

    def skip(self, size: int) -> None:
        while size:
            passed = len(self.read(min(size, _CHUNK)))
            if not passed:
                raise Damaged(_BROKEN)
            size -= passed

    def finish(self) -> None:
        while not self._unpacker.eof and self._more():
            self.at += len(self._buffer)
            self._buffer.clear()

    def _open_next(self) -> None:
        self._streams += 1
        if self._streams > _MAX_STREAMS:
            raise Unreadable("is pieced together of too many parts: pack it again.")
        self._unpacker: Any = _UNPACKERS[self._kind]()

    def _more(self) -> bool:
        """Unpack some more; return False at the end."""
        if self._unpacker.eof:
            self._rest = self._unpacker.unused_data or self._file.read(_CHUNK)
            # Zeros may follow a tar, and also its compressed form.
            if not self._rest.strip(b"\0"):
                return False
            self._open_next()
        if not self._rest and getattr(self._unpacker, "needs_input", True):
            self._rest = self._file.read(_CHUNK)
            if not self._rest:
                raise Damaged(_BROKEN)
        try:
            data = self._unpacker.decompress(self._rest, _CHUNK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
            raise Damaged(_BROKEN) from error
        self._rest = getattr(self._unpacker, "unconsumed_tail", b"")
        self._buffer += data
        if self.at + len(self._buffer) > _LIMITS[self._kind]:
            limit = _LIMITS[self._kind] >> 20
            raise Unreadable(f"unpacks to more than {limit} MiB: hand in only the exercises.")
        return True


def is_tar(block: bytes) -> bool:
    """Whether this is the header of a tar's member, with the right checksum."""
    return _header(block) is not None


def tar_members(stream: Stream, *, max_entries: int) -> Iterator[Member]:
    """Yield every member of a tar, with the stream at the beginning of its bytes.

    Raises Unreadable for a broken or huge tar. A sparse file does not count as a regular one: no exercise has
    holes.
    """
    count, extension = 0, _Extension()
    while True:
        block = stream.read(BLOCK)
        if not block.strip(b"\0"):
            if count or block:
                stream.finish()
                return
            raise Unreadable("is empty: pack the folder again and hand it in.")
        header = _header(block)
        if header is None:
            raise Damaged(_BROKEN if count else "holds no folder: pack one as a zip or a tar.")
        count += 1
        if count > max_entries:
            raise Unreadable(
                f"holds more than {max_entries:,} files: hand in only the files of the exercises."
            )
        if header.size < 0:
            raise Damaged(_BROKEN)
        if header.type in _EXTENSIONS:
            if header.size > MAX_EXTENSION:
                raise Unreadable("holds a name or a note of absurd length: pack it again.")
            extension.read(header.type, stream.read(header.size))
            stream.skip(-header.size % BLOCK)
            continue
        if header.type == tarfile.GNUTYPE_SPARSE and block[_MORE_HOLES_AT]:
            raise Unreadable("holds a file with holes: pack it again as a zip.")
        begin, size = stream.at, extension.size_of(header)
        yield Member(
            member_path(extension.name or _raw(header.name), utf8=False),
            EntryKind.SPECIAL if extension.is_sparse else _kind(header),
            size,
        )
        stream.skip(begin + size + -size % BLOCK - stream.at)
        extension = _Extension()


def _header(block: bytes) -> tarfile.TarInfo | None:
    """Parse a header; return None if it is not a header."""
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _kind(header: tarfile.TarInfo) -> EntryKind:
    if header.isdir() or header.name.endswith("/"):
        return EntryKind.FOLDER
    if header.issym() or header.islnk():
        return EntryKind.LINK
    is_plain = header.isreg() and header.type != tarfile.GNUTYPE_SPARSE
    return EntryKind.FILE if is_plain else EntryKind.SPECIAL


class _Extension:
    """The extended headers before a member's own: a long name, a size, a mark of sparse files."""

    def __init__(self) -> None:
        self.name = b""
        self.is_sparse = False
        self._size: int | None = None

    def read(self, kind: bytes, data: bytes) -> None:
        """Keep the name and the size from an extension of this type."""
        if kind == tarfile.GNUTYPE_LONGNAME:
            self.name = data.rstrip(b"\0")
        elif kind in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            for key, value in _records(data):
                if key == b"path":
                    self.name = value
                elif key == b"size" and value.isdigit() and len(value) < 20:
                    self._size = int(value)
                elif key.startswith(b"GNU.sparse."):
                    self.is_sparse = True

    def size_of(self, header: tarfile.TarInfo) -> int:
        """Return the number of bytes after a header; for a link or a device 0, regardless of its header."""
        if header.type in _WITHOUT_BYTES:
            return 0
        return header.size if self._size is None else self._size


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pax records `<length> <key>=<value>` of an extension, up to the first broken one."""
    while data:
        digits, space, _ = data[:20].partition(b" ")
        if not space or not digits.isdigit() or not (length := int(digits)) > len(digits) + 1:
            return
        key, equals, value = data[len(digits) + 1 : length - 1].partition(b"=")
        if equals:
            yield key, value
        data = data[length:]
