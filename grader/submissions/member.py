"""A member of an archive: where its bytes lie, and how they are taken out within bounds.

Nothing is ever written to a disk. The size that an archive states is believed only as a reason to
refuse: what is decompressed is cut off at the limit, whatever was stated.
"""

from __future__ import annotations

import enum
import zlib
from typing import BinaryIO

import msgspec

from grader.submissions.folder import EntryKind, Unreadable
from grader.submissions.names import shown

MAX_PATH = 1000
_CHUNK = 1 << 16
_LOCAL_HEADER = 30


class Compression(enum.IntEnum):
    """How a member is stored; the numbers are those of the zip format, but for `PLAIN`."""

    PLAIN = -1  # the bytes themselves, as in a tar
    STORED = 0
    DEFLATED = 8


class Member(msgspec.Struct, frozen=True):
    """An entry of an archive; `offset` is that of its local header, or of its bytes if `PLAIN`.

    `packing` is a number that an archive stated: there are more than those of `Compression`.
    """

    path: str
    kind: EntryKind
    offset: int = 0
    packed: int = 0
    size: int = 0
    packing: int = Compression.PLAIN
    crc: int = 0
    encrypted: bool = False


def member_path(raw: bytes, *, utf8: bool) -> str:
    """A member's name as a path with slashes; the encoding is guessed where it is not stated.

    A path that is absolute, or goes up, stays so: see `check_path`.
    """
    raw = raw[: 4 * MAX_PATH + 4]
    # Neither composed nor replaced: two names that differ in their bytes are those of two people.
    text = raw.decode("utf-8", "surrogateescape")
    if not utf8 and not text.isprintable() and any("\udc80" <= each <= "\udcff" for each in text):
        text = raw.decode("cp437")
    path = text.replace("\\", "/")
    inside = "/".join(part for part in path.split("/") if part not in ("", "."))
    return "/" * path.startswith("/") + inside


def check_path(path: str) -> None:
    """Raise Unreadable for a path that leads out of the archive, or is no path of a person's.

    Nothing would be written there; but nobody packs such a thing by accident.
    """
    if path.startswith("/") or ".." in path.split("/") or path[1:3] == ":/":
        raise Unreadable(
            f"holds {shown(path, 80)}, which leads out of it: pack the folder itself, from within."
        )
    if len(path) > MAX_PATH:
        raise Unreadable(f"holds a name of more than {MAX_PATH:,} characters: use shorter ones.")


def read_member(file: BinaryIO, member: Member, limit: int) -> bytes:
    """All bytes of a member, at most `limit`; raises Unreadable, with its name, if that cannot be."""
    name = shown(member.path)
    if member.kind is not EntryKind.FILE:
        raise Unreadable(f"{name} is a {member.kind.value}; hand in the file itself.")
    if member.encrypted:
        raise Unreadable(f"{name} is encrypted: pack it again without a password.")
    if member.size > limit:
        raise Unreadable(f"{name} is larger than {limit:,} bytes.")
    if member.packing not in tuple(Compression):
        raise Unreadable(f"{name} is compressed in a rare way: pack it again as an ordinary zip.")
    file.seek(member.offset)
    if member.packing != Compression.PLAIN:
        _skip_local_header(file, member)
    data = _inflated(file, member, limit) if member.packing == Compression.DEFLATED else b""
    if member.packing != Compression.DEFLATED:
        data = file.read(min(member.packed, limit + 1))
    if len(data) > limit:
        raise Unreadable(f"{name} is larger than {limit:,} bytes.")
    right_sum = member.packing == Compression.PLAIN or zlib.crc32(data) == member.crc
    if len(data) != member.size or not right_sum:
        raise _damaged(member)
    return data


def _damaged(member: Member) -> Unreadable:
    return Unreadable(f"{shown(member.path)} is damaged in its archive: pack it again.")


def _skip_local_header(file: BinaryIO, member: Member) -> None:
    """Stand at the member's bytes; its own header must be there, and tell the same name."""
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise _damaged(member)
    utf8 = bool(header[7] & 0x08)
    raw = file.read(int.from_bytes(header[26:28], "little"))
    if member_path(raw, utf8=utf8) != member.path:
        raise Unreadable(f"{shown(member.path)} has two names in its archive: pack it again.")
    file.seek(int.from_bytes(header[28:30], "little"), 1)


def _inflated(file: BinaryIO, member: Member, limit: int) -> bytes:
    """Up to `limit` bytes and one more."""
    # No packer makes a file grow by more than this; blocks that hold nothing could go on for ever.
    left = min(member.packed, 2 * limit + _CHUNK)
    inflater, data = zlib.decompressobj(-15), bytearray()
    while not inflater.eof and len(data) <= limit:
        packed = file.read(min(_CHUNK, left))
        left -= len(packed)
        if not packed:
            raise _damaged(member)
        try:
            data += inflater.decompress(packed, limit + 1 - len(data))
        except zlib.error as error:
            raise _damaged(member) from error
    return bytes(data)


class MemberStream:
    """A member read from front to end, for what is too long to be held; a short one ends early."""

    def __init__(self, file: BinaryIO, member: Member) -> None:
        self._file, self._member, self._left = file, member, member.packed
        if member.encrypted or member.packing not in tuple(Compression):
            raise Unreadable("is encrypted, or packed in a rare way")
        file.seek(member.offset)
        if member.packing != Compression.PLAIN:
            _skip_local_header(file, member)
        deflated = member.packing == Compression.DEFLATED
        self._inflater = zlib.decompressobj(-15) if deflated else None
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many; none at the end."""
        if self._inflater is None:
            return self._packed(size)
        while not self._inflater.eof:
            self._rest = self._rest or self._packed(_CHUNK)
            if not self._rest:
                return b""
            try:
                data = self._inflater.decompress(self._rest, size)
            except zlib.error as error:
                raise _damaged(self._member) from error
            self._rest = self._inflater.unconsumed_tail
            if data:
                return data
        return b""

    def _packed(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data
