"""Hostile archives: each is read in a separate process with little memory, little time, and no disk."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.course.manifest import Course

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Pack

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs resource limits that are enforced"),
    pytest.mark.thorough,
]

# Ends a test that hangs. The reader has a limit of processor time, which a waiting process does not use up.
SECONDS = 240
# Enough for unpacked data (32 MiB, twice) and a dictionary of xz, beyond an ordinary archive.
ADDED_BYTES = 128 << 20

READER = """
import json, resource, sys
from pathlib import Path
from grader.course.manifest import load_course
from grader.submissions import find_class, read_attempt
course = load_course(sys.argv[1])
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[3]), -1))
resource.setrlimit(resource.RLIMIT_CPU, (8, 8))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
found = find_class(Path(sys.argv[2]), course)
print(json.dumps([read_attempt(each, course).files["glu"].problem for each in found.attempts]))
"""

ProblemOf = Callable[[bytes, str], str]


@pytest.fixture
def problem_of(course: Course, tmp_path: Path, zipped: Pack) -> ProblemOf:
    """Return a function that gives the message for an archive, in a folder and within the zip of a class."""

    def read(where: Path) -> str:
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", READER, str(course.root), str(where), str(ADDED_BYTES)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=empty,
            env={**os.environ, "TMPDIR": str(empty), "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert list(empty.iterdir()) == []
        (problem,) = json.loads(done.stdout)
        return str(problem)

    def run(data: bytes, name: str = "alice.zip") -> str:
        folder = tmp_path / "class"
        folder.mkdir()
        (folder / name).write_bytes(data)
        whole = tmp_path / "class.zip"
        whole.write_bytes(zipped({name: data}))
        problem = read(folder)
        assert read(whole) == problem
        return problem

    return run


def gz_of(chunks: Iterator[bytes]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        for chunk in chunks:
            file.write(chunk)
    return packed.getvalue()


def header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def test_a_huge_file_in_a_zip_is_refused(problem_of: ProblemOf, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("glu.py", "w", force_zip64=True) as file:
            for _ in range(300):
                file.write(bytes(1 << 20))
        archive.writestr("x.bin", bytes(1 << 20))
    assert problem_of(packed.getvalue(), "alice.zip") == "glu.py is larger than 200,000 bytes."


def test_nested_zips_are_not_opened(problem_of: ProblemOf, zipped: Pack) -> None:
    bomb = zipped({"glu.py": bytes(10 << 20)})
    for _ in range(5):
        bomb = zipped({f"{number}.zip": bomb for number in range(10)})
    assert "Handed in instead: 0.zip, 1.zip, 2.zip." in problem_of(bomb, "alice.zip")


def test_overlapping_members_are_refused(problem_of: ProblemOf) -> None:
    """The table of contents has many names for the same bytes."""
    data = zlib.compress(bytes(150_000), 9)[2:-4]
    crc = zlib.crc32(bytes(150_000))
    sizes = struct.pack("<3L", crc, len(data), 150_000)
    local = b"PK\x03\x04" + struct.pack("<5H", 20, 0, 8, 0, 0) + sizes + struct.pack("<2H", 6, 0)
    body = local + b"glu.py" + data
    entries = b"".join(
        b"PK\x01\x02" + struct.pack("<6H", 20, 20, 0, 8, 0, 0) + sizes
        + struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, 0) + name
        for name in (b"%d/glu.py" % number for number in range(90))
    )  # fmt: skip
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 90, 90, len(entries), len(body), 0)
    assert problem_of(body + entries + end, "alice.zip") == (
        "0/glu.py is damaged in its archive: pack it again. "
        "Also handed in: 1/glu.py, 2/glu.py, 3/glu.py and 86 more."
    )


def test_a_table_of_contents_of_24_megabytes_is_refused(problem_of: ProblemOf) -> None:
    entry = (
        b"PK\x01\x02" + bytes(24) + struct.pack("<5H2L", 60_000, 0, 0, 0, 0, 0, 0) + b"x" * 60_000
    )
    table = entry * 400
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 400, 400, len(table), 0, 0)
    assert problem_of(b"PK\x03\x04" + table + end, "alice.zip") == (
        "alice.zip holds more than 50,000 files: hand in only the files of the exercises."
    )


def test_a_table_of_contents_with_countless_extra_fields_is_refused(problem_of: ProblemOf) -> None:
    """For each extra field, `zipfile` copies the remaining ones, which takes eight seconds."""
    fields = struct.pack("<2H", 0x5555, 0) * 16_383
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<5H2L", 1, len(fields), 0, 0, 0, 0, 0) + b"x"
    table = (entry + fields) * 250
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 250, 250, len(table), 4, 0)
    assert problem_of(b"PK\x03\x04" + table + end, "alice.zip") == (
        "alice.zip is damaged: its table of contents cannot be read. Pack it again and hand it in."
    )


def test_a_small_table_with_many_extra_fields_is_refused(problem_of: ProblemOf) -> None:
    fields = struct.pack("<2H", 0x5555, 0) * 15_000
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<5H2L", 1, len(fields), 0, 0, 0, 0, 0) + b"x"
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry + fields), 4, 0)
    assert "its table of contents cannot be read" in problem_of(
        b"PK\x03\x04" + entry + fields + end, "alice.zip"
    )


def test_names_of_sixty_thousand_characters_are_refused(problem_of: ProblemOf) -> None:
    name = b"a/" * 30_000
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 9, 9, len(entry) * 9, 0, 0)
    assert problem_of(b"PK\x03\x04" + entry * 9 + end, "alice.zip") == (
        "alice.zip holds a name of more than 1,000 characters: use shorter ones."
    )


def test_a_deflated_member_that_never_yields_a_byte_is_refused(
    problem_of: ProblemOf, zipped: Pack
) -> None:
    nothing = b"\x00\x00\x00\xff\xff" * 2_000_000
    data = zipped({"glu.py": b""}, zipfile.ZIP_STORED)
    at = data.rindex(b"PK\x01\x02")
    local, table = data[:at], data[at:]
    table = (
        table[:10] + b"\x08\x00" + table[12:20] + struct.pack("<2L", len(nothing), 5) + table[28:]
    )
    end = table.rindex(b"PK\x05\x06")
    table = table[: end + 16] + struct.pack("<L", len(local) + len(nothing)) + table[end + 20 :]
    assert problem_of(local + nothing + table, "alice.zip") == (
        "glu.py is damaged in its archive: pack it again."
    )


@pytest.mark.parametrize(("kind", "limit"), [("gz", 256), ("bz2", 16), ("xz", 96)])
def test_a_tar_that_unpacks_to_too_much_is_refused(
    problem_of: ProblemOf, kind: str, limit: int
) -> None:
    packers: dict[str, Callable[..., bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
    }
    packer = packers[kind]
    part = packer(bytes(64 << 20))
    first = packer(header("x.bin", 8**11 - 1))
    assert problem_of(first + part * 6, f"alice.tar.{kind}") == (
        f"alice.tar.{kind} unpacks to more than {limit} MiB: hand in only the exercises."
    )


def test_a_gz_of_countless_empty_parts_is_refused(problem_of: ProblemOf) -> None:
    assert problem_of(gzip.compress(b"") * 500_000, "alice.tar.gz") == (
        "alice.tar.gz is pieced together of too many parts: pack it again."
    )


def test_an_xz_with_a_dictionary_of_gigabytes_is_refused(problem_of: ProblemOf) -> None:
    # The size of the dictionary is the single property byte of the filter, after its id 0x21 0x01.
    data = bytearray(lzma.compress(header("glu.py", 0), preset=0))
    at = data.index(b"\x21\x01") + 2
    data[at] = 40
    begin = 12
    length = (data[begin] + 1) * 4
    data[begin + length - 4 : begin + length] = struct.pack(
        "<L", zlib.crc32(data[begin : begin + length - 4])
    )
    assert problem_of(bytes(data), "alice.tar.xz") == (
        "alice.tar.xz is cut off or damaged: pack it again and hand it in."
    )


def test_a_tar_with_too_many_members_is_refused(problem_of: ProblemOf) -> None:
    one = header("x", 0)
    data = gz_of(one * 1000 for _ in range(51))
    assert problem_of(data, "alice.tar.gz") == (
        "alice.tar.gz holds more than 50,000 files: hand in only the files of the exercises."
    )


@pytest.mark.parametrize("flag", [b"x", b"g", b"L", b"K"])
def test_a_header_extension_of_gigabytes_is_refused(problem_of: ProblemOf, flag: bytes) -> None:
    block = bytearray(header("note", 8**10))
    block[156:157] = flag
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    data = gz_of(iter([bytes(block), *[bytes(1 << 20)] * 100]))
    assert problem_of(data, "alice.tgz") == (
        "alice.tgz holds a name or a note of absurd length: pack it again."
    )


@pytest.mark.parametrize("records", [b"2 " * 32_767 + b"=\n", b"1" * 65_536])
def test_an_extension_that_is_costly_to_parse_does_no_harm(
    problem_of: ProblemOf, records: bytes
) -> None:
    """Without our checks, `tarfile` needs a gigabyte for the first kind and four seconds for the second."""
    block = bytearray(header("note", len(records)))
    block[156:157] = b"x"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    data = gz_of(iter([bytes(block) + records + header("glu.py", 0)] * 40))
    # All forty members are the same empty file.
    assert problem_of(data, "alice.tgz") == ""


def test_an_endless_table_of_holes_is_refused(problem_of: ProblemOf) -> None:
    """Without our checks, `tarfile` reads as long as each block says that another one follows."""
    block = bytearray(header("glu.py", 0))
    block[156:157], block[482] = b"S", 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    table = (b"%011o\0%011o\0" % (1, 1)) * 21 + b"\1" + bytes(7)
    data = gz_of(iter([bytes(block), *[table * 2048] * 250]))
    assert (
        problem_of(data, "alice.tgz")
        == "alice.tgz holds a file with holes: pack it again as a zip."
    )


def test_endless_extensions_are_refused(problem_of: ProblemOf) -> None:
    """The headers belong to a member that never follows."""
    block = bytearray(header("note", 0))
    block[156:157] = b"x"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    data = gz_of(bytes(block) * 1000 for _ in range(100))
    assert "holds more than 50,000 files" in problem_of(data, "alice.tgz")


def test_a_tar_with_a_negative_size_is_refused(problem_of: ProblemOf) -> None:
    block = bytearray(header("x", 0))
    block[124:136] = b"\xff" * 10 + b"\xfe\x00"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    assert problem_of(bytes(block) * 10, "alice.tar") == (
        "alice.tar is cut off or damaged: pack it again and hand it in."
    )


def test_a_folder_with_too_many_files_is_refused(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader.submissions import find_class, read_attempt
    from grader.submissions import folder as disk

    monkeypatch.setattr(disk, "MAX_ENTRIES", 1000)  # making fifty thousand files would take a while
    for name in ("alice", "bob"):
        (tmp_path / "class" / name / "x").mkdir(parents=True)
        (tmp_path / "class" / name / "glu.py").write_bytes(b"")
    for number in range(1000):
        (tmp_path / "class" / "alice" / "x" / str(number)).touch()
    alice, bob = find_class(tmp_path / "class", course).attempts
    assert read_attempt(alice, course).files["gelu"].problem == (
        "alice holds more than 1,000 files: hand in only the files of the exercises."
    )
    assert read_attempt(bob, course).files["glu"].source == b""
