"""The table of contents of a zip, entry by entry, without believing how many it says there are.

`zipfile` makes an object of every entry before it answers: a hundred thousand of them, or a table that says
that it has four billion, are its caller's memory. Here an entry is read, looked at and forgotten.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from grader.submissions.folder import EntryKind, Unreadable, kind_of_mode
from grader.submissions.member import Member, member_path

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LONGEST_COMMENT = (1 << 16) - 1
_UNKNOWN = 0xFFFFFFFF
_UNIX, _DARWIN = 3, 19
_ZIP64 = 1

_NO_END = "is cut off or damaged: its table of contents is missing. Pack it again and hand it in."
_BROKEN = "is damaged: its table of contents cannot be read. Pack it again and hand it in."


def zip_members(file: BinaryIO, *, max_entries: int, max_table_bytes: int) -> Iterator[Member]:
    """Every entry of a zip in the order of its table; raises Unreadable for a broken or huge one."""
    try:
        start, size, shift = _table(file)
    except (struct.error, OSError, ValueError) as error:
        raise Unreadable(_BROKEN) from error
    if size > max_table_bytes:
        raise Unreadable(f"holds more than {max_entries:,} files: hand in those of the exercises.")
    file.seek(start)
    position, count = start, 0
    while position + _ENTRY.size <= start + size:
        count += 1
        if count > max_entries:
            raise Unreadable(
                f"holds more than {max_entries:,} files: hand in those of the exercises."
            )
        try:
            member, length = _entry(file, shift)
        except (struct.error, IndexError) as error:
            raise Unreadable(_BROKEN) from error
        position += length
        yield member
        # Whoever takes the member may have read it meanwhile.
        file.seek(position)


def _table(file: BinaryIO) -> tuple[int, int, int]:
    """Where the table begins, its size, and how far all offsets are off (a file may have a front)."""
    length = file.seek(0, 2)
    tail_size = min(length, _END.size + _LONGEST_COMMENT)
    file.seek(length - tail_size)
    tail = file.read(tail_size)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise Unreadable(_NO_END)
    _, disk, table_disk, _, entries, size, offset, _ = _END.unpack_from(tail, at)
    end = length - tail_size + at
    if _UNKNOWN in (size, offset) or 0xFFFF in (entries, disk):
        end, size, offset = _table_64(file, end, size, offset)
    elif disk or table_disk:
        raise Unreadable("is one part of several: pack it again in one piece.")
    start = end - size
    if start < 0 or offset > start:
        raise Unreadable(_BROKEN)
    return start, size, start - offset


def _table_64(file: BinaryIO, end: int, size: int, offset: int) -> tuple[int, int, int]:
    """The same from the large end record, if there is one before the small one."""
    if end < _LOCATOR_64.size + _END_64.size:
        return end, size, offset
    file.seek(end - _LOCATOR_64.size)
    mark, _, _, _ = _LOCATOR_64.unpack(file.read(_LOCATOR_64.size))
    if mark != b"PK\x06\x07":
        return end, size, offset
    end -= _LOCATOR_64.size + _END_64.size
    file.seek(end)
    mark, *_, size, offset = _END_64.unpack(file.read(_END_64.size))
    if mark != b"PK\x06\x06":
        raise Unreadable(_BROKEN)
    return end, size, offset


def _entry(file: BinaryIO, shift: int) -> tuple[Member, int]:
    """The entry at which the file stands, and its length in the table."""
    fixed = _ENTRY.unpack(file.read(_ENTRY.size))
    mark, made_by, _, flags, packing, _, _, crc, packed, size = fixed[:10]
    name_size, extra_size, comment_size, _, _, attributes, offset = fixed[10:]
    if mark != b"PK\x01\x02":
        raise Unreadable(_BROKEN)
    raw, extra = file.read(name_size), file.read(extra_size)
    if len(raw) != name_size or len(extra) != extra_size:
        raise Unreadable(_BROKEN)
    if _UNKNOWN in (size, packed, offset):
        size, packed, offset = _large(extra, size, packed, offset)
    member = Member(
        path=member_path(raw, utf8=bool(flags & 0x800)),
        kind=_kind(raw, made_by >> 8, attributes),
        offset=offset + shift,
        packed=packed,
        size=size,
        packing=packing,
        crc=crc,
        encrypted=bool(flags & 0x2041),
    )
    return member, _ENTRY.size + name_size + extra_size + comment_size


def _kind(raw: bytes, system: int, attributes: int) -> EntryKind:
    if raw.endswith((b"/", b"\\")):
        return EntryKind.FOLDER
    if system in (_UNIX, _DARWIN):
        return kind_of_mode(attributes >> 16)
    return EntryKind.FOLDER if attributes & 0x10 else EntryKind.FILE


def _large(extra: bytes, *numbers: int) -> tuple[int, ...]:
    """The numbers with those filled in that did not fit into 32 bits."""
    at, filled = 0, list(numbers)
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        field, at = extra[at + 4 : at + 4 + length], at + 4 + length
        if kind == _ZIP64:
            for index, number in enumerate(filled):
                if number == _UNKNOWN:
                    (filled[index],) = struct.unpack_from("<Q", field)
                    field = field[8:]
    return tuple(filled)
