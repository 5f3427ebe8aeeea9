"""The members of a zip, read with `zipfile` after its table of contents is checked.

`zipfile` reads a whole table of contents, makes an object of 0.7 KiB for every entry, and copies the rest of an
entry's extra fields for each field (30 ms for 64 KiB). So the table is checked first. The stated size of a
member is used only as a reason to refuse it.
"""

from __future__ import annotations

import functools
import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from grader.submissions.folder import Damaged, EntryKind, Unreadable, kind_of_mode
from grader.submissions.member import DAMAGE, DAMAGED, Member, member_path

_LONGEST_EXTRA = 2048
_ENTRY_MARK = b"PK\x01\x02"
_ENTRY_SIZE = 46
_LENGTHS = struct.Struct("<3H")  # of an entry's name, extra fields and comment
_LENGTHS_AT = 28
# The record at a zip's end, with the longest comment.
_LONGEST_END = 22 + (1 << 16)
_UNIX, _DARWIN = 3, 19
_ENCRYPTED = 0x2041

_NO_END = "is cut off or damaged: its table of contents is missing. Pack it again and hand it in."
_BROKEN = "is damaged: its table of contents cannot be read. Pack it again and hand it in."


class ZipArchive:
    """An open zip; raises Unreadable for a broken or huge one."""

    def __init__(self, file: BinaryIO, *, max_entries: int, max_table_bytes: int) -> None:
        try:
            if not zipfile.is_zipfile(file):
                raise Damaged(_NO_END)
            self._zip = zipfile.ZipFile(_CheckedFile(file, max_entries, max_table_bytes))
        except DAMAGE as error:
            raise Damaged(_BROKEN) from error

    def members(self) -> Iterator[Member]:
        """Yield every entry in the order of the table."""
        for info in self._zip.infolist():
            if info.volume:
                raise Unreadable("is one part of several: pack it again in one piece.")
            if info.header_offset < 0:
                raise Damaged(_BROKEN)
            yield self._member(info)

    def forget(self) -> None:
        """Release the table; existing members can still be read."""
        self._zip.filelist.clear()
        self._zip.NameToInfo.clear()

    def _member(self, info: zipfile.ZipInfo) -> Member:
        """Return an entry of the table, with the reason why it cannot be read, if there is one."""
        # Names without the flag have any encoding; `zipfile` decodes them as cp437, which has every byte.
        raw = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
        problem = ""
        if info.flag_bits & _ENCRYPTED:
            problem = "is encrypted: pack it again without a password."
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            problem = "is compressed in a rare way: pack it again as an ordinary zip."
        elif info.compress_size > 2 * info.file_size + _LONGEST_END:
            # No packer makes a file grow so much; empty blocks could continue endlessly.
            problem = DAMAGED
        path = member_path(raw, utf8=bool(info.flag_bits & 0x800))
        opener = functools.partial(self._zip.open, info)
        return Member(path, _kind(raw, info), info.file_size, opener, problem)


class _CheckedFile:
    """A file that refuses to be read when `zipfile` is about to read too large a table."""

    def __init__(self, file: BinaryIO, max_entries: int, max_table_bytes: int) -> None:
        self._file, self._max_entries, self._max_bytes = file, max_entries, max_table_bytes
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self._max_bytes:
            raise self._too_many()
        data = self._file.read(_LONGEST_END if size < 0 else size)
        if data.startswith(_ENTRY_MARK):
            self._check(data)
        return data

    def _check(self, table: bytes) -> None:
        at = count = 0
        while at + _ENTRY_SIZE <= len(table):
            count += 1
            if count > self._max_entries:
                raise self._too_many()
            lengths = _LENGTHS.unpack_from(table, at + _LENGTHS_AT)
            if lengths[1] > _LONGEST_EXTRA:
                raise Damaged(_BROKEN)
            at += _ENTRY_SIZE + sum(lengths)

    def _too_many(self) -> Unreadable:
        return Unreadable(
            f"holds more than {self._max_entries:,} files: hand in only the files of the exercises."
        )


def _kind(raw: bytes, info: zipfile.ZipInfo) -> EntryKind:
    if raw.endswith((b"/", b"\\")):
        return EntryKind.FOLDER
    if info.create_system in (_UNIX, _DARWIN):
        return kind_of_mode(info.external_attr >> 16)
    return EntryKind.FOLDER if info.external_attr & 0x10 else EntryKind.FILE
