"""Archives of one student: the files found in them, and a sentence for each broken archive."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions import archive as archive_module
from grader.submissions import find_class, read_attempt
from grader.submissions.archive import Extras, list_archive
from grader.submissions.folder import Unreadable
from grader.submissions.member import AttemptFile
from grader.submissions.submission import MAX_FILE_BYTES

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Pack

GLU = b"def glu(): ...\n"
GELU = b"def gelu(): ...\n"

Read = Callable[[bytes, str], dict[str, Any]]


@pytest.fixture
def read(course: Course, tmp_path: Path) -> Read:
    """Return a function that reads an archive: for each exercise its source, or the problem if it has none."""
    from grader.submissions.attempt import Attempt

    def run(data: bytes, name: str = "alice.zip") -> dict[str, Any]:
        path = tmp_path / name
        path.write_bytes(data)
        found = Attempt(
            student=StudentInfo(id="alice"), path=path, members=(AttemptFile(name, path),)
        )
        files = read_attempt(found, course).files
        for handed in files.values():
            assert handed.source is not None or handed.problem
            assert handed.source is None or bool(handed.problem) == handed.seems_misnamed
            assert handed.problem.isprintable()
            assert len(handed.problem) < 400
            assert str(tmp_path) not in handed.problem
        return {
            name: handed.source or handed.problem
            for name, handed in files.items()
            if handed.source is not None or "is missing: hand it in" not in handed.problem
        }

    return run


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "modules/",
        "exercises/modules/",
        "exercises/",
        "homework/",
        "a/b/c/exercises/modules/",
        "./",
    ],
)
def test_the_file_is_found_below_any_folder(read: Read, zipped: Pack, prefix: str) -> None:
    files = {f"{prefix}glu.py": GLU, "__MACOSX/modules/._glu.py": b"\0", "notes/.DS_Store": b"\0"}
    assert read(zipped(files), "alice.zip") == {"glu": GLU}


@pytest.mark.parametrize(
    ("mode", "name"),
    [("w", "a.tar"), ("w:gz", "a.tar.gz"), ("w:bz2", "a.tbz2"), ("w:xz", "a.tar.xz")],
)
def test_tars_are_read_like_zips(read: Read, tarred: Pack, mode: str, name: str) -> None:
    files = {
        "./hw/modules/glu.py": GLU,
        "./hw/autograd/gelu.py": GELU,
        "./hw/data.bin": bytes(300_000),
    }
    assert read(tarred(files, mode), name) == {"glu": GLU, "gelu": GELU}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_in_every_format_of_tar(read: Read, form: int) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for name in ("x" * 90 + "/" + "y" * 60 + "/modules/glu.py", "é" * 20 + "/autograd/gelu.py"):
            member = tarfile.TarInfo(name)
            member.size = len(GLU)
            archive.addfile(member, io.BytesIO(GLU))
    assert read(packed.getvalue(), "a.tar") == {"glu": GLU, "gelu": GLU}


def test_names_with_backslashes_are_folders(read: Read, zipped: Pack) -> None:
    data = zipped({"hw/modules/glu.py": GLU}).replace(b"hw/modules/glu.py", b"hw\\modules\\glu.py")
    assert read(data, "a.zip") == {"glu": GLU}


def test_the_nearest_file_counts(read: Read, zipped: Pack) -> None:
    files = {
        "modules/glu.py": GLU,
        "backup/old/modules/glu.py": b"old",
        "modules/glu (1).py": b"copy",
    }
    assert read(zipped(files), "a.zip") == {"glu": GLU}


def test_files_that_come_with_the_course_are_ignored(read: Read, zipped: Pack) -> None:
    files = {"lab/exercises/modules/glu.py": GLU}
    for folder in ("tests/stubs/", "stubs/", ".git/", "venv/lib/", "x/__pycache__/"):
        files[f"lab/{folder}autograd/gelu.py"] = GELU
    assert read(zipped(files), "a.zip") == {"glu": GLU}


def test_two_different_files_are_reported_and_equal_ones_count_once(
    read: Read, zipped: Pack
) -> None:
    problem = read(zipped({"one/glu.py": GLU, "two/glu.py": GLU + b"#"}), "a.zip")["glu"]
    assert problem == (
        "There are 2 files named glu.py, and they differ (one/glu.py, two/glu.py): hand in one of them."
    )
    assert read(zipped({"one/glu.py": GLU, "two/glu.py": GLU}), "b.zip") == {"glu": GLU}


def test_a_stub_beside_the_work_is_ignored(read: Read, zipped: Pack, course: Course) -> None:
    stub = course.stub(course.exercise("glu")).source
    assert read(zipped({"modules/glu.py": stub, "glu.py": GLU}), "a.zip") == {"glu": GLU}


def test_a_name_that_occurs_twice_is_reported(read: Read) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("modules/glu.py", GLU)
        archive.writestr("modules/glu.py", b"another")
    problem = read(packed.getvalue(), "a.zip")["glu"]
    assert problem == (
        "There are 2 files named glu.py, and they differ (modules/glu.py): hand in one of them."
    )


def test_an_archive_without_files_of_the_course_lists_its_contents(
    read: Read, zipped: Pack, course: Course, tmp_path: Path
) -> None:
    path = tmp_path / "class" / "alice.zip"
    path.parent.mkdir()
    path.write_bytes(zipped({"report.pdf": b"", "glu.ipynb": b"", "inner.zip": b""}))
    (found,) = find_class(path.parent, course).attempts
    problem = read_attempt(found, course).files["glu"].problem
    assert problem == (
        "modules/glu.py is missing: hand it in under this name. "
        "Handed in instead: glu.ipynb, inner.zip, report.pdf. "
        "An archive in an archive is not opened."
    )


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_with(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for info, data in members:
            info.size = len(data) or info.size
            archive.addfile(info, io.BytesIO(data) if data else None)
    return packed.getvalue()


def zip_with(name: str, data: bytes = GLU, **fields: Any) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        info = zipfile.ZipInfo(name)
        for field, value in fields.items():
            setattr(info, field, value)
        archive.writestr(info, data)
    return packed.getvalue()


def patched(data: bytes, mark: bytes, offset: int, value: bytes) -> bytes:
    """Return the bytes with a field changed, this far behind the last mark."""
    at = data.rindex(mark) + offset
    return data[:at] + value + data[at + len(value) :]


CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


@pytest.mark.parametrize(
    "name", ["../../modules/glu.py", "/etc/glu.py", "a/../../glu.py", "C:/glu.py"]
)
def test_paths_that_lead_out_of_the_archive_are_refused(
    read: Read, tarred: Pack, zipped: Pack, name: str
) -> None:
    for data in (
        tarred({name: GLU}),
        zipped({name: GLU}),
        zipped({"modules/glu.py": GLU, name: GLU}),
    ):
        problem = read(data, "a.zip")["glu"]
        assert problem == (
            f"a.zip holds {name}, which leads out of it: pack the folder itself, from within."
        )


@pytest.mark.parametrize(
    ("kind", "called"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "special file"),
        (tarfile.BLKTYPE, "special file"),
        (tarfile.FIFOTYPE, "special file"),
        (b"V", "special file"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(read: Read, kind: bytes, called: str) -> None:
    data = tar_with(
        (member("modules/glu.py", kind, linkname="/etc/passwd"), b""), (member("gelu.py"), GELU)
    )
    assert read(data, "a.tar") == {
        "glu": f"modules/glu.py is a {called}; hand in the file itself.",
        "gelu": GELU,
    }


def test_a_link_in_a_zip_is_refused(read: Read) -> None:
    data = zip_with(
        "glu.py", b"/etc/passwd", create_system=3, external_attr=(stat.S_IFLNK | 0o777) << 16
    )
    assert read(data, "a.zip")["glu"] == "glu.py is a link; hand in the file itself."


def test_a_path_that_is_both_file_and_folder_is_refused(read: Read) -> None:
    data = tar_with(
        (member("modules", tarfile.SYMTYPE, linkname="/etc"), b""), (member("modules/glu.py"), GLU)
    )
    assert read(data, "a.tar")["glu"] == "modules is both a file and a folder."
    data = tar_with((member("glu.py"), GLU), (member("glu.py/x"), b"x"))
    assert read(data, "a.tar")["glu"] == "glu.py is both a file and a folder."


def test_encrypted_rare_and_damaged_members_are_reported(read: Read, zipped: Pack) -> None:
    plain = zip_with("glu.py")
    packed = zipped({"glu.py": GLU * 50})
    damaged = "glu.py is damaged in its archive: pack it again."
    cases = {
        "glu.py is encrypted: pack it again without a password.": [
            patched(plain, CENTRAL, 8, b"\x01"),
        ],
        "glu.py is compressed in a rare way: pack it again as an ordinary zip.": [
            patched(plain, CENTRAL, 10, struct.pack("<H", method))
            for method in (1, 9, 12, 14, 93, 99, 65535)
        ],
        damaged: [
            patched(plain, CENTRAL, 16, b"\0\0\0\0"),  # its checksum
            patched(plain, CENTRAL, 24, struct.pack("<L", len(GLU) - 1)),  # its size
            patched(packed, CENTRAL, 24, struct.pack("<L", 1)),
            patched(packed, CENTRAL, 20, struct.pack("<L", 5)),  # its packed size
            patched(plain, CENTRAL, 42, struct.pack("<L", 7)),  # its offset
            patched(plain, CENTRAL, 42, struct.pack("<L", 2**31)),
            patched(packed, LOCAL, 40, b"\xff\xff\xff"),  # its bytes
            patched(packed, CENTRAL, 10, b"\x00"),  # its method
            patched(plain, LOCAL, 30, b"x"),  # its name in the local header
        ],
        "glu.py is larger than 200,000 bytes.": [
            zipped({"glu.py": bytes(300_000)}),
            patched(plain, CENTRAL, 24, b"\xff\xff\xff\x7f"),
        ],
    }
    for problem, archives in cases.items():
        for number, data in enumerate(archives):
            assert read(data, f"{number}.zip")["glu"] == problem, (problem, number)


def test_no_more_is_unpacked_than_the_stated_size(read: Read, zipped: Pack) -> None:
    data = patched(zipped({"glu.py": bytes(50_000_000)}), CENTRAL, 24, struct.pack("<L", 1000))
    assert read(data, "a.zip")["glu"] == "glu.py is damaged in its archive: pack it again."


def test_broken_archives_are_reported(read: Read, zipped: Pack, tarred: Pack) -> None:
    data = zipped({"modules/glu.py": GLU, "gelu.py": GELU})
    tar = tarred({"modules/glu.py": GLU * 500})
    gz = tarred({"modules/glu.py": GLU * 500}, "w:gz")
    no_end = (
        "is cut off or damaged: its table of contents is missing. Pack it again and hand it in."
    )
    broken = "is damaged: its table of contents cannot be read. Pack it again and hand it in."
    cut = "is cut off or damaged: pack it again and hand it in."
    cases = [
        (b"", "is empty: pack the folder again and hand it in."),
        (b"hello", "is not a zip or tar, or its beginning is damaged: pack the folder as a zip."),
        (
            b"Rar!\x1a\x07\0",
            "is not a zip or tar, and other archives are not read: pack it as a zip.",
        ),
        (
            b"7z\xbc\xaf\x27\x1c",
            "is not a zip or tar, and other archives are not read: pack it as a zip.",
        ),
        (data[:-1], no_end),
        (data[: len(data) // 2], no_end),
        (patched(data, END, 16, b"\xff\xff\xff\x7f"), broken),
        (patched(data, END, 12, b"\xff\xff\xff\x7f"), broken),
        (patched(data, CENTRAL, 0, b"XXXX"), broken),
        (
            patched(data, CENTRAL, 34, b"\x01"),
            "is one part of several: pack it again in one piece.",
        ),
        (gz[: len(gz) // 2], cut),
        (gz[:-9] + b"\0" * 9, cut),
        (tar[:700], cut),
    ]
    for number, (archive, problem) in enumerate(cases):
        name = f"{number}.zip"
        assert read(archive, name)["glu"] == f"{name} {problem}", number
    import gzip

    assert read(gzip.compress(GLU), "glu.tgz")["glu"] == (
        "glu.tgz holds no folder: pack one as a zip or a tar."
    )


def test_a_zip64_with_false_sizes_is_reported(read: Read) -> None:
    data = zip_with("glu.py")
    at = data.rindex(END)
    for start, size in ((2**63, 46), (0, 2**64 - 1), (2**64 - 1, 2**64 - 1)):
        end = struct.pack(
            "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2**64 - 1, 2**64 - 1, size, start
        )
        locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
        lying = data[:at] + end + locator + patched(data[at:], END, 12, b"\xff" * 8)
        assert "is damaged" in read(lying, "a.zip")["glu"]


def test_a_zip_behind_something_else_is_read(read: Read, zipped: Pack) -> None:
    data = zipped({"glu.py": GLU})
    # Its offsets do not count the bytes before the zip, as in a self-extracting archive.
    assert "not a zip or tar" in read(b"#!/bin/sh\n" + data, "a.zip")["glu"]
    assert read(LOCAL + b"front" + data, "a.zip") == {"glu": GLU}


def test_too_many_entries_are_refused(
    read: Read, zipped: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MAX_ENTRIES", 500)  # fifty thousand would take a while
    many = {f"x/{number}": b"" for number in range(501)}
    problem = "holds more than 500 files: hand in only the files of the exercises."
    assert read(zipped(many, zipfile.ZIP_STORED), "a.zip")["glu"] == f"a.zip {problem}"
    header = member("x").tobuf()
    assert read(header * 501, "a.tar")["glu"] == f"a.tar {problem}"
    assert read(header * 500, "b.tar") == {}


def test_hundreds_of_files_with_the_same_name_are_refused(read: Read, zipped: Pack) -> None:
    several = {f"{number}/glu.py": str(number).encode() for number in range(20)}
    assert read(zipped(several), "a.zip")["glu"] == "There are 20 files named glu.py: hand in one."
    many = {f"{number}/glu.py": str(number).encode() for number in range(200)}
    assert read(zipped(many), "a.zip")["glu"] == (
        "a.zip holds too many files like glu.py: hand in one of each."
    )


def test_sparse_files_and_huge_headers_in_a_tar_are_refused(read: Read) -> None:
    sparse = member("modules/glu.py", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.name": "x"})
    assert read(tar_with((sparse, GLU)), "a.tar")["glu"] == (
        "modules/glu.py is a special file; hand in the file itself."
    )
    huge = member("glu.py", pax_headers={"comment": "x" * 1_000_000})
    assert read(tar_with((huge, GLU)), "b.tar")["glu"] == (
        "b.tar holds a name or a note of absurd length: pack it again."
    )


def test_control_characters_in_a_name_are_escaped(read: Read, zipped: Pack) -> None:
    name = "\x1b[2J\u202e<b>=x/glu.py"
    problem = read(zipped({name: GLU, "one/glu.py": GELU}), "a.zip")["glu"]
    assert problem.isprintable()
    assert "\\x1b[2J\\u202e<b>=x/glu.py" in problem


def seeds() -> list[bytes]:
    files = {"modules/glu.py": GLU * 20, "autograd/gelu.py": GELU, "x/y.txt": b"y"}
    from tests.grader.submissions import conftest

    archives = [conftest._zip(files), conftest._zip(files, zipfile.ZIP_STORED)]
    return archives + [conftest._tar(files, mode) for mode in ("w", "w:gz", "w:bz2", "w:xz")]


SEEDS = seeds()


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=0, max_size=8)), max_size=4),
    st.integers(0, 40),
)
def test_a_mutated_archive_gives_a_list_or_an_error(
    seed: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(seed[: len(seed) - cut] if cut < 20 else seed)
    for at, value in changes:
        at %= len(data)
        data[at : at + len(value)] = value
    with contextlib.suppress(Unreadable):
        is_wanted = lambda name: name.endswith(".py")  # noqa: E731
        extras = Extras(lambda name: name.startswith("g"))
        listing = list_archive(io.BytesIO(bytes(data)), "a", is_wanted, extras)
        for candidate in (*listing.candidates, *listing.extras):
            with contextlib.suppress(Unreadable):
                assert len(candidate.read()) <= MAX_FILE_BYTES


@settings(max_examples=200)
@given(
    st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"BZh9", b"\xfd7zXZ\0"]),
    st.binary(max_size=2000),
)
def test_noise_is_refused(mark: bytes, noise: bytes) -> None:
    with pytest.raises(Unreadable):
        list_archive(io.BytesIO(mark + noise), "a", lambda name: True, Extras(bool))
