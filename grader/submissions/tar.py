"""The members of a tar, plain or compressed, header by header in one pass.

`tarfile` reads a header's extension whole, however large it says that it is, and follows what it says
about sparse files; of all that only the name of a member is wanted here.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

from grader.submissions.folder import EntryKind, Unreadable
from grader.submissions.member import Compression, Member, member_path

BLOCK = 512
_CHUNK = 1 << 16
# Of an extension (a long name, pax records) so much is read; the rest is skipped.
MAX_EXTENSION = 1 << 16
# `xz -9` needs 65 MiB to be unpacked.
_XZ_MEMORY = 72 << 20
_MAX_STREAMS = 1000
# What is unpacked of one archive at most: about a second's work.
_LIMITS = {"gz": 256 << 20, "xz": 96 << 20, "bz2": 16 << 20}

_UNPACKERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}

_BROKEN = "is cut off or damaged: pack it again and hand it in."
_KINDS = {
    b"0": EntryKind.FILE,
    b"\0": EntryKind.FILE,
    b"7": EntryKind.FILE,
    b"5": EntryKind.FOLDER,
    b"1": EntryKind.LINK,
    b"2": EntryKind.LINK,
}


class Stream(Protocol):
    """Bytes that are read once, from front to end; `at` is how far one is."""

    at: int

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end."""

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""

    def finish(self) -> None:
        """Check what can only be checked at the end: the sum of a compressed file."""


class Plain:
    """A file as it is."""

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
            raise Unreadable(_BROKEN)
        self.at += size

    def finish(self) -> None:
        pass


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
                raise Unreadable(_BROKEN)
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
        """Unpack some; False at the end."""
        if self._unpacker.eof:
            self._rest = self._unpacker.unused_data or self._file.read(_CHUNK)
            # A tar may be followed by zeros, and so may what it is packed in.
            if not self._rest.strip(b"\0"):
                return False
            self._open_next()
        if not self._rest and getattr(self._unpacker, "needs_input", True):
            self._rest = self._file.read(_CHUNK)
            if not self._rest:
                raise Unreadable(_BROKEN)
        try:
            data = self._unpacker.decompress(self._rest, _CHUNK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
            raise Unreadable(_BROKEN) from error
        self._rest = getattr(self._unpacker, "unconsumed_tail", b"")
        self._buffer += data
        if self.at + len(self._buffer) > _LIMITS[self._kind]:
            limit = _LIMITS[self._kind] >> 20
            raise Unreadable(f"unpacks to more than {limit} MiB: hand in the exercises alone.")
        return True


def is_tar(block: bytes) -> bool:
    """Whether this is the header of a tar's member: its sum of bytes must be right."""
    if len(block) < BLOCK:
        return False
    try:
        stated = _number(block[148:156])
    except ValueError:
        return False
    return sum(block[:148]) + 8 * 32 + sum(block[156:BLOCK]) == stated


def tar_members(stream: Stream, *, max_entries: int) -> Iterator[Member]:
    """Every member of a tar; while one is held, the stream stands at its bytes.

    Raises Unreadable for a broken or huge one. A sparse file is no regular one here: nobody's exercise
    has holes.
    """
    count, extended = 0, _Extended()
    while True:
        block = stream.read(BLOCK)
        if not block.strip(b"\0"):
            if count or block:
                stream.finish()
                return
            raise Unreadable("is empty: pack the folder again and hand it in.")
        if not is_tar(block):
            raise Unreadable(_BROKEN if count else "holds no folder: pack one as a zip or a tar.")
        count += 1
        if count > max_entries:
            raise Unreadable(
                f"holds more than {max_entries:,} files: hand in those of the exercises."
            )
        size, flag = _size(block), block[156:157]
        if flag in b"LKxgX":
            if size > MAX_EXTENSION:
                raise Unreadable("holds a name or a note of absurd length: pack it again.")
            extended.read(flag, stream.read(size))
            stream.skip(-size % BLOCK)
            continue
        if flag == b"S" and block[482]:
            raise Unreadable("holds a file with holes: pack it again as a zip.")
        member = extended.member(block, stream.at, size)
        begin = stream.at
        yield member
        stream.skip(begin + member.packed + -member.packed % BLOCK - stream.at)
        extended = _Extended()


class _Extended:
    """What stands before a header and belongs to it: a long name, a size, a mark of sparse files."""

    def __init__(self) -> None:
        self._name: bytes | None = None
        self._size: int | None = None
        self._sparse = False

    def read(self, flag: bytes, data: bytes) -> None:
        if flag == b"L":
            self._name = data.rstrip(b"\0")
        elif flag in b"xX":
            for key, value in _records(data):
                if key == b"path":
                    self._name = value
                elif key == b"size" and value.isdigit() and len(value) < 20:
                    self._size = int(value)
                elif key.startswith(b"GNU.sparse."):
                    self._sparse = True

    def member(self, block: bytes, at: int, size: int) -> Member:
        name, flag = self._name, block[156:157]
        if name is None:
            name = block[:100].split(b"\0")[0]
            prefix = block[345:500].split(b"\0")[0]
            if block[257:263] == b"ustar\0" and prefix:
                name = prefix + b"/" + name
        kind = _KINDS.get(flag, EntryKind.SPECIAL)
        if flag in b"0\0" and name.endswith(b"/"):
            kind = EntryKind.FOLDER
        if self._sparse:
            kind = EntryKind.SPECIAL
        # A link or a device has no bytes, whatever size its header states.
        size = 0 if flag in b"123456" else size if self._size is None else self._size
        path = member_path(name, utf8=False)
        return Member(path, kind, offset=at, packed=size, size=size, packing=Compression.PLAIN)


def _size(block: bytes) -> int:
    try:
        size = _number(block[124:136])
    except ValueError as error:
        raise Unreadable(_BROKEN) from error
    if size < 0:
        raise Unreadable(_BROKEN)
    return size


def _number(field: bytes) -> int:
    """A number of a header: octal digits, or for large ones a binary number behind a set bit."""
    if field[:1] in (b"\x80", b"\xff"):
        number = int.from_bytes(field[1:], "big")
        return number - (1 << 8 * (len(field) - 1)) if field[:1] == b"\xff" else number
    digits = field.split(b"\0")[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise ValueError("no octal number")
    return int(digits or b"0", 8)


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The pax records `<length> <key>=<value>` of an extension, as far as they are in order."""
    while data:
        digits, space, _ = data[:20].partition(b" ")
        if not space or not digits.isdigit() or not (length := int(digits)) > len(digits) + 1:
            return
        key, equals, value = data[len(digits) + 1 : length - 1].partition(b"=")
        if equals:
            yield key, value
        data = data[length:]
