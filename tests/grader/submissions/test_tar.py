"""A tar is read header by header, once, with any compression."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable

import pytest

from grader.submissions.folder import EntryKind, Unreadable
from grader.submissions.tar import (
    BLOCK,
    MAX_EXTENSION,
    Decompressed,
    FilePart,
    Plain,
    is_tar,
    tar_members,
)

from .conftest import Pack

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
FILES = {"one/glu.py": b"x = 1\n", "two/" + "a" * 200 + ".py": b"y" * 600, "empty.py": b""}


def listed(data: bytes, *, most: int = 100) -> list[tuple[str, EntryKind, int]]:
    members = tar_members(Plain(io.BytesIO(data)), max_entries=most)
    return [(member.path, member.kind, member.size) for member in members]


def of_type(kind: bytes, name: str = "glu.py", size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(size + -size % BLOCK)


def test_members_have_their_names_kinds_and_sizes(tarred: Pack) -> None:
    expected = [(name, EntryKind.FILE, len(data)) for name, data in FILES.items()]
    assert listed(tarred(FILES)) == expected


@pytest.mark.parametrize("kind", COMPRESS)
def test_bytes_are_read_while_the_stream_is_there(tarred: Pack, kind: str) -> None:
    stream = Decompressed(io.BytesIO(COMPRESS[kind](tarred(FILES))), kind)
    read = {
        member.path: stream.read(member.size) for member in tar_members(stream, max_entries=100)
    }
    assert read == FILES


@pytest.mark.parametrize("kind", COMPRESS)
def test_parts_compressed_separately_are_one_stream(kind: str) -> None:
    data = COMPRESS[kind](b"ab") + COMPRESS[kind](b"cd") + bytes(100)
    assert Decompressed(io.BytesIO(data), kind).read(10) == b"abcd"


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_truncated_or_damaged_stream_is_reported(tarred: Pack, kind: str) -> None:
    data = COMPRESS[kind](tarred(FILES))
    for broken in (data[: len(data) // 2], data[:-4], b"nonsense" * 100):
        stream = Decompressed(io.BytesIO(broken), kind)
        with pytest.raises(Unreadable, match="is cut off or damaged"):
            list(tar_members(stream, max_entries=100))


def test_too_many_parts_are_refused() -> None:
    stream = Decompressed(io.BytesIO(gzip.compress(b"") * 1001), "gz")
    with pytest.raises(Unreadable, match="pieced together of too many parts"):
        stream.read(1)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (tarfile.DIRTYPE, EntryKind.FOLDER),
        (tarfile.SYMTYPE, EntryKind.LINK),
        (tarfile.LNKTYPE, EntryKind.LINK),
        (tarfile.FIFOTYPE, EntryKind.SPECIAL),
        (tarfile.CHRTYPE, EntryKind.SPECIAL),
        (tarfile.GNUTYPE_SPARSE, EntryKind.SPECIAL),
        (tarfile.CONTTYPE, EntryKind.FILE),
    ],
)
def test_other_kinds_of_members_are_distinguished_from_files(type_: bytes, kind: EntryKind) -> None:
    assert [found for _, found, _ in listed(of_type(type_))] == [kind]


def test_a_link_has_no_bytes_even_if_it_states_a_size(tarred: Pack) -> None:
    lying = tarfile.TarInfo("link.py")
    lying.type, lying.size = tarfile.SYMTYPE, 5000
    paths = [path for path, _, _ in listed(lying.tobuf() + tarred(FILES))]
    assert paths == ["link.py", *FILES]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (bytes(BLOCK), ""),
        (b"x" * BLOCK, "holds no folder"),
        (of_type(tarfile.REGTYPE) + b"x" * BLOCK, "is cut off or damaged"),
        (of_type(tarfile.REGTYPE, size=600)[: 2 * BLOCK], "is cut off or damaged"),
        (of_type(tarfile.GNUTYPE_LONGNAME, size=MAX_EXTENSION + 1), "of absurd length"),
        (of_type(tarfile.REGTYPE) * 101, "more than 100 files"),
    ],
)
def test_a_broken_tar_is_reported(data: bytes, why: str) -> None:
    if not why:
        assert listed(data) == []
        return
    with pytest.raises(Unreadable, match=why):
        listed(data)


def test_a_header_is_recognized_by_its_checksum() -> None:
    header = of_type(tarfile.REGTYPE)
    assert is_tar(header)
    assert not is_tar(b"X" + header[1:])
    assert not is_tar(bytes(BLOCK))


def test_a_part_of_a_file_ends_at_its_size() -> None:
    file = io.BytesIO(b"0123456789")
    part = FilePart(file, 2, 5)
    assert part.read(3) == b"234"
    file.seek(0)
    assert (part.read(10), part.read(10)) == (b"56", b"")
