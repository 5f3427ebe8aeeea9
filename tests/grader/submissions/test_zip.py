"""A zip is read by its table of contents, which is checked first. No size that it states is trusted."""

from __future__ import annotations

import io
import zipfile

import pytest

from grader.submissions.folder import EntryKind, Unreadable
from grader.submissions.member import (
    MAX_PATH,
    Member,
    MemberReader,
    check_path,
    member_path,
    read_member,
)
from grader.submissions.zip import ZipArchive

from .conftest import Pack


def opened(data: bytes, *, entries: int = 100, table: int = 1 << 20) -> ZipArchive:
    return ZipArchive(io.BytesIO(data), max_entries=entries, max_table_bytes=table)


def test_members_come_in_the_order_of_the_table(zipped: Pack) -> None:
    members = list(opened(zipped({"b/glu.py": b"x = 1\n", "a.txt": b""})).members())
    assert [(member.path, member.kind, member.size) for member in members] == [
        ("b/glu.py", EntryKind.FILE, 6),
        ("a.txt", EntryKind.FILE, 0),
    ]
    assert [read_member(member, 6) for member in members] == [b"x = 1\n", b""]


def test_folders_and_links_are_distinguished_from_files() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.mkdir("folder")
        link = zipfile.ZipInfo("link.py")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "elsewhere")
        archive.writestr("folder\\", "")
    members = list(opened(packed.getvalue()).members())
    assert [member.kind for member in members] == [
        EntryKind.FOLDER,
        EntryKind.LINK,
        EntryKind.FOLDER,
    ]
    with pytest.raises(Unreadable, match=r"link\.py is a .*; hand in the file itself"):
        read_member(members[1], 100)


def test_a_member_can_be_read_after_the_table_is_forgotten(zipped: Pack) -> None:
    archive = opened(zipped({"glu.py": b"x = 1\n"}))
    (member,) = archive.members()
    archive.forget()
    assert list(archive.members()) == []
    assert read_member(member, 6) == b"x = 1\n"


@pytest.mark.parametrize(("entries", "table"), [(2, 1 << 20), (100, 100)])
def test_a_table_that_is_too_large_is_refused_before_it_is_read(
    zipped: Pack, entries: int, table: int
) -> None:
    data = zipped({f"{n}.py": b"" for n in range(3)})
    with pytest.raises(Unreadable, match=f"more than {entries} files"):
        opened(data, entries=entries, table=table)
    assert len(list(opened(data, entries=3).members())) == 3


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_truncated_zip_has_no_table(zipped: Pack, keep: int) -> None:
    data = zipped({"glu.py": b"x = 1\n" * 100})
    with pytest.raises(Unreadable, match="its table of contents is missing"):
        opened(data[: keep if keep >= 0 else len(data) + keep - 22])


def test_a_damaged_member_is_named(zipped: Pack) -> None:
    data = zipped({"glu.py": b"print(1)\n"}, zipfile.ZIP_STORED).replace(b"print", b"prinT", 1)
    (member,) = opened(data).members()
    with pytest.raises(Unreadable, match=r"glu\.py is damaged in its archive"):
        read_member(member, 100)


def test_no_more_is_read_than_stated_and_allowed() -> None:
    class Endless:
        def read(self, size: int, /) -> bytes:
            return b"x" * size

    stated = Member("glu.py", EntryKind.FILE, 5, Endless)
    with pytest.raises(Unreadable, match="is damaged in its archive"):
        read_member(stated, 10)
    with pytest.raises(Unreadable, match=r"glu\.py is larger than 4 bytes"):
        read_member(stated, 4)


def test_an_unreadable_member_is_refused_before_it_is_opened() -> None:
    def never() -> io.BytesIO:
        raise AssertionError

    member = Member("glu.py", EntryKind.FILE, 5, never, "is encrypted: pack it again.")
    with pytest.raises(Unreadable, match=r"^glu\.py is encrypted"):
        read_member(member, 10)
    with pytest.raises(Unreadable, match=r"^is encrypted"):
        MemberReader(member)


@pytest.mark.parametrize(
    ("raw", "utf8", "path"),
    [
        (b"a//./b\\glu.py", True, "a/b/glu.py"),
        (b"/etc/glu.py", True, "/etc/glu.py"),
        (b"../glu.py", True, "../glu.py"),
        ("é.py".encode(), False, "é.py"),
        (b"\x82.py", False, "é.py"),
        (b"\xff.py", True, "\udcff.py"),
    ],
)
def test_a_name_is_a_path_with_slashes(raw: bytes, utf8: bool, path: str) -> None:
    assert member_path(raw, utf8=utf8) == path


@pytest.mark.parametrize("path", ["/glu.py", "../glu.py", "a/../../glu.py", "c:/glu.py"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(Unreadable, match="leads out of it"):
        check_path(path)


def test_a_path_has_a_maximum_length() -> None:
    check_path("..a/b..py".ljust(MAX_PATH, "x"))
    with pytest.raises(Unreadable, match="use shorter ones"):
        check_path("x" * (MAX_PATH + 1))
