"""Downloads of platforms: the student, the order and the notes of each entry."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import ClassDownload, Roster, find_class, read_attempt, safe_name
from grader.submissions.download import refuse_unlisted

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Files, Pack, Sources

GLU = b"def glu(): ...\n"
GELU = b"def gelu(): ...\n"
NEWER = b"def glu(): return 1\n"

Find = Callable[..., ClassDownload]


@pytest.fixture(params=["folder", "zip", "wrapped zip", "wrapped folder", "tar"])
def find(
    request: pytest.FixtureRequest,
    course: Course,
    tmp_path: Path,
    zipped: Pack,
    tarred: Pack,
    lay: Callable[[Path, Files], Path],
) -> Find:
    """Return a function that finds a class in files: a folder or an archive, with or without a wrapper."""

    def run(files: Files, roster: Roster | None = None, wrapper: str = "week 3") -> ClassDownload:
        if "wrapped" in request.param:
            files = {f"{wrapper}/{name}": data for name, data in files.items()}
        if "folder" in request.param:
            return find_class(lay(tmp_path / "download", files), course, roster)
        path = tmp_path / f"download.{request.param.split()[-1]}"
        path.write_bytes((zipped if "zip" in request.param else tarred)(files))
        return find_class(path, course, roster)

    return run


def who(found: ClassDownload) -> list[tuple[str, int]]:
    return [(each.student.id, each.attempt) for each in found.attempts]


def test_each_folder_is_a_student(find: Find, sources: Sources) -> None:
    found = find(
        {
            "alice/modules/glu.py": GLU,
            "bob/exercises/autograd/gelu.py": GELU,
            "Carol Doe/hw/glu.py": GLU,
            "dan/notes.txt": b"",
            "README.txt": b"",
            ".DS_Store": b"",
            "__MACOSX/alice/._glu.py": b"",
        }
    )
    assert found.layout == "a folder, an archive or files for each student"
    assert who(found) == [("Carol Doe", 1), ("alice", 1), ("bob", 1), ("dan", 1)]
    assert [sources(each) for each in found.attempts] == [
        {"glu": GLU},
        {"glu": GLU},
        {"gelu": GELU},
        {},
    ]
    assert found.notes == ("Ignored: README.txt.",)
    assert found.attempts[1].origin == "alice"


def test_work_is_read_at_any_depth(find: Find, sources: Sources) -> None:
    found = find({f"alice/{'deep/' * 30}glu.py": GLU, "bob/glu.py": GLU})
    assert [sources(each) for each in found.attempts] == [{"glu": GLU}] * 2


def test_each_archive_is_a_student(
    find: Find, sources: Sources, zipped: Pack, tarred: Pack
) -> None:
    found = find(
        {
            "alice.zip": zipped({"alice/modules/glu.py": GLU}),
            "bob.tar.gz": tarred({"./autograd/gelu.py": GELU}, "w:gz"),
            "carol.zip": b"PK\x03\x04 and no more",
            "dan.rar": b"Rar!\x1a\x07\0",
        }
    )
    assert who(found) == [("alice", 1), ("bob", 1), ("carol", 1), ("dan", 1)]
    read = [sources(each) for each in found.attempts]
    assert read[:2] == [{"glu": GLU}, {"gelu": GELU}]
    assert read[2]["glu"] == (
        "carol.zip is cut off or damaged: its table of contents is missing. "
        "Pack it again and hand it in."
    )
    assert str(read[3]["gelu"]).startswith("dan.rar is not a zip or tar")


def test_single_files_may_be_named_after_their_student(find: Find, sources: Sources) -> None:
    found = find(
        {
            "alice_glu.py": GLU,
            "alice_gelu.py": GELU,
            "bob_smith-grad_norms.py": GLU,
            "what.py": b"",
            "_glu.py": b"",
        }
    )
    assert who(found) == [("alice", 1), ("bob_smith", 1)]
    assert sources(found.attempts[0]) == {"glu": GLU, "gelu": GELU}
    assert sources(found.attempts[1]) == {"grad_norms": GLU}
    (note,) = found.notes
    assert note.startswith("Code of no student, which is not graded: _glu.py, what.py. If it is")


def test_a_browsers_copy_of_a_single_file_is_the_students(find: Find, sources: Sources) -> None:
    files = {
        "yan_gelu (1).py": GELU,
        "zoe_glu.py": GLU,
        "zoe_glu (1).py": NEWER,
        "zoe_gelu.py": GELU,
        # Students may be told apart by a number.
        "lab_glu-1.py": GLU,
        "lab_glu-2.py": GLU,
    }
    found = find(files)
    assert who(found) == [("yan", 1), ("zoe", 1), ("zoe", 2)]
    assert sources(found.attempts[0]) == {"gelu": GELU}
    assert sources(found.attempts[2]) == {"glu": NEWER, "gelu": GELU}
    (note,) = found.notes
    assert note.startswith("Code of no student, which is not graded: lab_glu-1.py, lab_glu-2.py.")


def test_a_download_of_canvas_is_read(find: Find, sources: Sources, zipped: Pack) -> None:
    found = find(
        {
            "doejane_101_9001_glu.py": GLU,
            "doejane_101_9002_gelu.py": GELU,
            "doejane_101_9005_glu-1.py": NEWER,
            "o_neil_LATE_102_9003_my_1_2_work.zip": zipped({"work/modules/glu.py": GLU}),
            "typed_103_text.html": b"<p>hello",
            "link_LATE_104_link.html": b"",
            "pdf_105_9004_report.pdf": b"",
            "anon_ab1cd_9007_glu.py": GLU,
        }
    )
    assert found.layout == "Canvas"
    assert who(found) == [
        ("101", 1),
        ("101", 2),
        ("102", 1),
        ("103", 1),
        ("104", 1),
        ("105", 1),
        ("anon_ab1cd", 1),
    ]
    jane, again, neil, typed, link, pdf, anon = found.attempts
    assert jane.student == StudentInfo(id="101", name="doejane", ids={"canvas_id": "101"})
    assert sources(jane) == {"glu": GLU, "gelu": GELU}
    assert sources(again) == {"glu": NEWER, "gelu": GELU}  # gelu.py is kept from the first attempt
    assert neil.late and not jane.late
    assert neil.student.name == "o_neil"
    assert sources(neil) == {"glu": GLU}
    problem = "Only text was typed in, without a file: hand in the files of the exercises."
    assert typed.problem == problem == link.problem and link.late
    assert sources(pdf) == {}
    assert sources(anon) == {"glu": GLU}


def test_a_student_cannot_forge_a_name_of_canvas(find: Find) -> None:
    found = find(
        {
            "smithbob_102_9002_doejane_101_9999_glu.py": NEWER,
            "doejane_101_9001_glu.py": GLU,
            "evil_101_9009_glu.py": NEWER,
        }
    )
    assert who(found) == [("101", 1), ("101~2", 1), ("102", 1)]
    assert found.notes == (
        "Graded under an id with a number, since the id is already used: 101/evil.",
    )


def test_a_download_of_moodle_is_read(find: Find, sources: Sources, zipped: Pack) -> None:
    found = find(
        {
            "Jane Doe_501_assignsubmission_file_/glu.py": GLU,
            "Jane Doe_501_assignsubmission_file_/sub/gelu.py": GELU,
            "Jane Doe_501_assignsubmission_onlinetext_/onlinetext.html": b"",
            "Piet B_502_assignsubmission_file_/hw.zip": zipped({"modules/glu.py": GLU}),
            "Kim_503_assignsubmission_onlinetext_/onlinetext.html": b"",
            "Zoë_504_assignsubmission_file_glu.py": GLU,
            "Zoë_504_assignsubmission_file_gelu.py": GELU,
            "Ann_505_assignsubmission_file/glu.py": GLU,
        }
    )
    assert found.layout == "Moodle"
    assert who(found) == [(str(number), 1) for number in range(501, 506)]
    jane, piet, kim, zoe, ann = found.attempts
    assert jane.student == StudentInfo(
        id="501", name="Jane Doe", ids={"moodle_identifier": "Participant 501"}
    )
    assert sources(jane) == {"glu": GLU, "gelu": GELU}
    assert sources(piet) == {"glu": GLU}
    assert kim.problem.startswith("Only text was typed in")
    assert sources(zoe) == {"glu": GLU, "gelu": GELU}
    assert sources(ann) == {"glu": GLU}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "Jane Doe_501_assignsubmission_file_/glu.py",
            "Jane Doe_501_assignsubmission_onlinetext_/onlinetext.html",
        ),
        ("doejane_101_9001_glu.py", "doejane_101_text.html"),
    ],
)
def test_typed_text_beside_files_may_be_work(
    find: Find, course: Course, file: str, text: str
) -> None:
    stub = course.stub(course.exercise("glu")).source
    (jane,) = find({file: stub, text: b"<p>def gradient_flow(x):<br>return 1</p>"}).attempts
    glu = read_attempt(jane, course).files["glu"]
    assert glu.source == stub
    assert glu.seems_misnamed and "text.html" in glu.problem
    assert "text" not in jane.origin


METADATA = b"""\
---
submission_11:
  :submitters:
  - :name: Jane Doe
    :sid: '7'
    :email: jane@uni.edu
  - :name: Piet
    :sid: ''
    :email: piet@uni.edu
  :created_at: 2026-01-02 03:04:05.000000000 Z
submission_12:
  :submitters:
  - :name: Jane Doe
    :sid: '7'
    :email: jane@uni.edu
  :created_at: 2025-01-02 03:04:05.000000000 Z
"""


def test_an_export_of_gradescope_is_read(find: Find, sources: Sources) -> None:
    found = find(
        {
            "submission_metadata.yml": METADATA,
            "submission_11/glu.py": GLU,
            "submission_12/glu.py": NEWER,
            "submission_13/glu.py": GLU,
        },
        wrapper="assignment_5_export",
    )
    assert found.layout == "Gradescope"
    assert who(found) == [("7", 1), ("7", 2), ("piet@uni.edu", 1), ("submission_13", 1)]
    first, second, piet, _ = found.attempts
    assert sources(first) == {"glu": NEWER}
    assert sources(second) == sources(piet) == {"glu": GLU}
    assert (first.submitted_at, second.submitted_at) == (
        "2025-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z",
    )


@pytest.mark.parametrize("metadata", [None, b"a: [", METADATA[:20] + b"\x00"])
def test_gradescope_without_metadata_is_read_without_names(
    find: Find, metadata: bytes | None
) -> None:
    files = {"submission_1/glu.py": GLU, "submission_2/glu.py": GLU}
    found = find(files | ({"submission_metadata.yml": metadata} if metadata else {}))
    assert who(found) == [("submission_1", 1), ("submission_2", 1)]
    assert len(found.notes) == 1 and "names are not known" in found.notes[0]


BLACKBOARD = {
    "Lab_1_jane_doe_attempt_2026-10-11-18-30-00.txt": b"Name: Jane Doe (jane_doe)",
    "Lab_1_jane_doe_attempt_2026-10-11-18-30-00_glu.py": GLU,
    "Lab_1_jane_doe_attempt_2026-10-11-18-30-00_gelu.py": GELU,
    "Lab_1_jane_doe_attempt_2026-10-12-18-30-00.txt": b"Name: Jane Doe (jane_doe)",
    "Lab_1_jane_doe_attempt_2026-10-12-18-30-00_gelu.py": GELU,
    # The rest of a name is the student's.
    "Lab_1_kim_attempt_2026-10-11-18-30-00_x_jane_doe_attempt_2026-10-13-18-30-00_glu.py": NEWER,
    "Lab_1_7_attempt_2026-10-11-18-30-00.txt": b"Name: Lee (7)",
}


@pytest.mark.parametrize(
    "roster", [None, Roster([StudentInfo(id="jane_doe"), StudentInfo(id="kim")])]
)
def test_a_download_of_blackboard_is_read(
    find: Find, sources: Sources, roster: Roster | None
) -> None:
    found = find(BLACKBOARD, roster)
    assert found.layout == "Blackboard"
    assert who(found) == [("7", 1), ("jane_doe", 1), ("jane_doe", 2), ("kim", 1)]
    assert found.attempts[0].problem.startswith("Only text was typed in")
    assert [sources(each) for each in found.attempts[1:3]] == [
        {"glu": GLU, "gelu": GELU},
        {"gelu": GELU},
    ]


@pytest.mark.parametrize("then", ["/", " - "])
def test_a_download_of_brightspace_is_read(find: Find, sources: Sources, then: str) -> None:
    found = find(
        {
            "index.html": b"",
            f"4000-90001 - Jane Doe - Oct 12, 2026 630 PM{then}glu.py": NEWER,
            f"4000-90002 - Jane Doe - Oct 2, 2026 630 PM{then}glu.py": GLU,
            f"4001-90003 - Jane Doe - 11 October, 2026 1830{then}glu.py": GLU,
        }
    )
    assert found.layout == "Brightspace"
    assert who(found) == [("Jane Doe", 1), ("Jane Doe", 2), ("Jane Doe~2", 1)]
    assert sources(found.attempts[1]) == {"glu": NEWER}
    assert found.notes[0] == "Ignored: index.html."


def test_a_download_of_sakai_is_read(find: Find) -> None:
    jane, kim = StudentInfo(id="1", ids={"username": "jdoe"}), StudentInfo(id="2", name="Kim Li")
    sakai = {
        "grades.csv": b"",
        "Doe, Jane(jdoe)/timestamp.txt": b"20261011183000000",
        "Doe, Jane(jdoe)/Submission attachment(s)/glu.py": GLU,
        "Li, Kim(x)/Submission attachment(s)/glu.py": GLU,
    }
    found = find(sakai, Roster([jane, kim]))
    assert (found.layout, who(found)) == ("Sakai", [("1", 1), ("2", 1)])


def test_a_download_of_ilias_is_read(find: Find, sources: Sources) -> None:
    files = {
        "Doe_Jane_jdoe_300/20261011183000_glu.py": GLU,
        "Doe_Jane_jdoe_300/20261012183000_glu.py": NEWER,
        "Li_Kim_k_li_301/glu.py": GLU,
        "multi_feedback.xlsx": b"",
    }
    found = find(files)
    assert (found.layout, who(found)) == ("ILIAS", [("jdoe", 1), ("k_li", 1)])
    assert sources(found.attempts[0]) == {"glu": NEWER}


def test_a_name_as_in_ilias_may_be_around_a_class(find: Find) -> None:
    found = find({"deep_learning_lab_1/ann_glu.py": GLU, "deep_learning_lab_1/bob_glu.py": GLU})
    assert who(found) == [("ann", 1), ("bob", 1)]


def test_files_of_google_classroom_are_read(find: Find, sources: Sources) -> None:
    found = find({"Jane Doe - glu.py": GLU, "Kim Li - glu.py": GLU})
    assert who(found) == [("Jane Doe", 1), ("Kim Li", 1)]
    assert sources(found.attempts[0]) == {"glu": GLU}


def test_the_folder_of_a_course_of_nbgrader_is_opened(find: Find) -> None:
    found = find(
        {"submitted/jdoe/lab1/glu.py": GLU, "source/lab1/glu.py": GLU, "nbgrader_config.py": b""}
    )
    assert who(found) == [("jdoe", 1)]


def test_a_class_without_a_student_of_the_roster_is_refused(find: Find) -> None:
    roster = Roster([StudentInfo(id="jane"), StudentInfo(id="kim")])
    found = find({"s1/glu.py": GLU, "s2/glu.py": GLU}, roster)
    with pytest.raises(SubmissionError, match=r"are of s1, s2, and the roster has jane, kim\."):
        refuse_unlisted(found, roster)
    refuse_unlisted(found, roster, [StudentInfo(id="s1")])
    refuse_unlisted(found, Roster([StudentInfo(id="s2")]))


def test_clones_of_a_classroom_are_read(find: Find, sources: Sources) -> None:
    clones = {
        f"lab-1-{user}/{name}": data
        for user in ("jane-doe", "jan", "kim")
        for name, data in (
            ("exercises/modules/glu.py", GLU),
            (".git/config", b""),
            (".git/glu.py", b""),
        )
    }
    found = find(clones | {"scores.csv": b""}, wrapper="lab-1-submissions")
    assert found.layout == "classroom repositories"
    assert who(found) == [("jan", 1), ("jane-doe", 1), ("kim", 1)]
    assert found.attempts[1].student.ids == {"username": "jane-doe"}
    assert sources(found.attempts[1]) == {"glu": GLU}
    assert found.notes == (
        "Taken as clones lab-1-USERNAME, by the user's name.",
        "Ignored: scores.csv.",
    )


def test_a_roster_gives_ids_and_shows_missing_students(find: Find) -> None:
    roster = Roster(
        [
            StudentInfo(id="jd", name="Doe, Jane", ids={"canvas_id": "101"}),
            StudentInfo(id="pb", name="van der Berg, Piet"),
            StudentInfo(id="kim", name="Kim"),
            StudentInfo(id="103", name="Somebody Else"),
        ]
    )
    found = find(
        {
            "doejane_101_1_glu.py": GLU,
            "vanderbergpiet_102_2_glu.py": GLU,
            "stranger_103_3_glu.py": GLU,
        },
        roster,
    )
    assert who(found) == [("103~2", 1), ("jd", 1), ("pb", 1)]
    assert found.attempts[2].student == StudentInfo(
        id="pb", name="van der Berg, Piet", ids={"canvas_id": "102"}
    )
    assert [each.id for each in found.missing] == ["kim", "103"]
    assert found.notes == (
        "Graded under an id with a number, since the id is already used: 103/stranger.",
        "Not in the roster, graded under their own ids: 103/stranger.",
    )


def test_a_known_name_before_an_exercise_is_the_students(
    find: Find, sources: Sources, zipped: Pack
) -> None:
    packed = zipped({"glu.py": GLU})
    files = {
        "ann_glu.ipynb": b"{}",
        "ben_glu.txt": GLU,
        "cem glu.py": GLU,
        "dan_glu.PY": GLU,
        "eva.glu_v2.py": GLU,
        "fay_glu.zip": packed,
        "gus.docx": b"",
        "gelu.py.md": b"",
        "zoe_gelu.py": GELU,
    }
    names = ("ann", "ben", "cem", "dan", "eva", "fay", "gus")
    roster = Roster([StudentInfo(id=f"{name}1", name=name.title()) for name in names])
    found = find(files, roster)
    assert who(found) == [(f"{name}1", 1) for name in names] + [("zoe", 1)]
    assert found.missing == ()
    read = [sources(each) for each in found.attempts]
    assert [each.get("glu") == GLU for each in read[2:6]] == [True, True, False, True]
    assert found.notes[0] == "Ignored: gelu.py.md."


def test_a_known_name_elsewhere_in_a_name_is_nobodys(find: Find) -> None:
    files = {
        "ann_smith_glu.ipynb": b"",
        "mary_ann_glu.ipynb": b"",
        "ann_notes.txt": b"",
        "x_gelu.py": GELU,
    }
    assert who(find(files, Roster([StudentInfo(id="ann")]))) == [("x", 1)]


def test_a_known_part_of_a_name_joins_the_students_other_work(find: Find, sources: Sources) -> None:
    roster = Roster([StudentInfo(id="ann", name="Ann A", email="ann@uni.edu"), StudentInfo(id="x")])
    found = find({"ann@uni.edu/glu.py": GLU, "Ann A.docx": b"", "x/glu.py": GLU}, roster)
    assert {student for student, _ in who(found)} == {"ann", "x"}
    assert found.notes == ()


def test_known_students_beside_clones_and_entries_of_moodle_are_read(
    find: Find, zipped: Pack
) -> None:
    packed, roster = (
        zipped({"glu.py": GLU}),
        Roster([StudentInfo(id=name) for name in ("zoe", "yan")]),
    )
    clones = {
        f"lab-1-{name}/{file}": GLU for name in ("kim", "lee") for file in (".git/x", "glu.py")
    }
    found = find({**clones, "zoe.zip": packed, "yan_glu.py": GLU, "new.zip": packed}, roster)
    assert {"zoe", "yan"} < {student for student, _ in who(found)}
    assert any("Code of no student, which is not graded: new.zip." in note for note in found.notes)


def test_one_entry_of_moodle_among_others_is_read(find: Find) -> None:
    files = {"Ada A_501_assignsubmission_file_/glu.py": GLU, "ben/glu.py": GLU, "cem/glu.py": GLU}
    found = find(files)
    assert who(found) == [("501", 1), ("ben", 1), ("cem", 1)]


def test_two_names_for_one_student_of_the_roster_match_neither(find: Find) -> None:
    roster = Roster([StudentInfo(id="1", name="Jane Doe", email="jane@uni.edu")])
    found = find({"Jane Doe/glu.py": GLU, "jane/glu.py": NEWER}, roster)
    assert who(found) == [("Jane Doe", 1), ("jane", 1)]
    assert found.notes[0] == ("Several could be the same student of the roster: Jane Doe, jane.")
    assert [each.id for each in found.missing] == ["1"]


def test_numbered_archives_are_attempts_only_if_unambiguous(
    find: Find, sources: Sources, zipped: Pack
) -> None:
    old, new = zipped({"glu.py": GLU}), zipped({"glu.py": NEWER})
    files = {"alice (1).zip": new, "alice.zip": old, "group-1.zip": old, "group.zip": old}
    found = find(files)
    assert who(found) == [("alice", 1), ("alice", 2), ("group", 1), ("group-1", 1)]
    assert [sources(each) for each in found.attempts[:2]] == [{"glu": GLU}, {"glu": NEWER}]
    with_roster = find(files, Roster([StudentInfo(id="alice"), StudentInfo(id="group")]))
    assert who(with_roster) == [("alice", 1), ("alice", 2), ("group", 1), ("group", 2)]


def test_odd_names_stay_distinct_and_harmless(find: Find, sources: Sources) -> None:
    names = [
        "=cmd()",
        "<b>x",
        "Alice",
        "alice",
        "a\x01b",
        "a\x02b",
        "\u202egpj",
        "Ren\u00e9",
        "CON",
        "-rf",
    ]
    found = find({f"{name}/glu.py": name.encode() for name in names})
    assert len(found.attempts) == len(names)
    ids = [each.student.id for each in found.attempts]
    assert len(set(ids)) == len(names)
    assert {"=cmd()", "<b>x", "Alice", "alice", "a\ufffdb", "a\ufffdb~2", "\u202egpj"} < set(ids)
    assert len({safe_name(each).casefold() for each in ids}) == len(names)
    assert sorted(str(sources(each)["glu"]) for each in found.attempts) == sorted(
        str(name.encode()) for name in names
    )
    assert all(note.isprintable() for note in found.notes)


def test_two_spellings_of_one_name_are_two_people(find: Find) -> None:
    found = find({"Ren\u00e9/glu.py": GLU, "Rene\u0301/glu.py": NEWER})
    assert who(found) == [("René", 1), ("René~2", 1)]


@pytest.mark.skipif(os.name == "nt", reason="file names are not bytes on Windows")
def test_names_that_are_not_utf8_stay_distinct(
    course: Course, tmp_path: Path, sources: Sources
) -> None:
    for name in (b"ren\xe9", b"ren\xe8"):
        folder = os.fsencode(tmp_path) + b"/class/" + name
        os.makedirs(folder)  # noqa: PTH103  # a path of bytes
        (Path(os.fsdecode(folder)) / "glu.py").write_bytes(GLU)
    found = find_class(tmp_path / "class", course)
    assert who(found) == [("ren\ufffd", 1), ("ren\ufffd~2", 1)]
    for each in found.attempts:
        assert sources(each) == {"glu": GLU}
        f"{each.student} {each.origin} {found.notes}".encode()


def test_encodings_of_names_in_old_zips_are_guessed(course: Course, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("ren\u00e9/glu.py", "kim/glu.py"):
            archive.writestr(name, GLU)
    utf8 = packed.getvalue()
    # Encoded in the code page of DOS, without the flag for UTF-8.
    dos = utf8.replace("ren\u00e9".encode(), b"ren\x82x").replace(b"\x00\x08", b"\x00\x00")
    for data, expected in ((utf8, "ren\u00e9"), (dos, "ren\u00e9x")):
        (tmp_path / "class.zip").write_bytes(data)
        assert who(find_class(tmp_path / "class.zip", course)) == [("kim", 1), (expected, 1)]


def test_links_in_a_folder_are_not_followed(
    course: Course, tmp_path: Path, sources: Sources
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "glu.py").write_bytes(b"secret")
    top = tmp_path / "class"
    (top / "alice" / "modules").mkdir(parents=True)
    (top / "alice" / "modules" / "glu.py").symlink_to(secret / "glu.py")
    (top / "alice" / "autograd").symlink_to(secret)
    (top / "bob").symlink_to(secret)
    (top / "carol.zip").symlink_to(secret / "glu.py")
    os.mkfifo(top / "dan.zip")
    (top / "eve").mkdir()
    os.mkfifo(top / "eve" / "glu.py")
    found = find_class(top, course)
    assert who(found) == [(name, 1) for name in ("alice", "bob", "carol", "dan", "eve")]
    read = [sources(each).get("glu") for each in found.attempts]
    assert read == [
        "modules/glu.py is a link; hand in the file itself.",
        "This submission is a link: hand in the file or folder itself.",
        "This submission is a link: hand in the file or folder itself.",
        "This submission is a special file: hand in the file or folder itself.",
        "glu.py is not a regular file; hand in the file itself.",
    ]


def test_a_nested_archive_that_is_too_large_is_reported(
    course: Course, tmp_path: Path, sources: Sources, zipped: Pack
) -> None:
    path = tmp_path / "class.zip"
    path.write_bytes(zipped({"a.zip": bytes(33 << 20), "b.zip": zipped({"glu.py": GLU})}))
    alice, bob = find_class(path, course).attempts
    assert sources(alice)["glu"] == (
        "a.zip is larger than 32 MiB within the download: unpack the download, and grade its folder."
    )
    assert sources(bob) == {"glu": GLU}


def test_too_many_archives_of_one_student_are_reported(
    find: Find, sources: Sources, zipped: Pack
) -> None:
    found = find(
        {f"alice/{number}.zip": zipped({"x": b""}) for number in range(6)} | {"bob/glu.py": GLU}
    )
    assert sources(found.attempts[0])["glu"] == "There are 6 archives: hand in one."


def test_names_that_lead_out_of_a_class_archive_are_noted(
    course: Course, tmp_path: Path, zipped: Pack, sources: Sources
) -> None:
    path = tmp_path / "class.zip"
    path.write_bytes(
        zipped({"alice/glu.py": GLU, "bob/glu.py": GLU, "../evil/glu.py": b"", "/x/glu.py": b""})
    )
    found = find_class(path, course)
    assert who(found) == [("alice", 1), ("bob", 1)]
    assert "lead out of it (2)" in found.notes[0]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no submissions"),
        ({"notes.txt": b""}, "has no submissions"),
        ({"modules/glu.py": GLU}, "is one submission, not a class"),
        ({"exercises/modules/glu.py": GLU, "README.md": b""}, "is one submission"),
        (
            {"glu.py": GLU, "old/glu.py": GLU, "jo/glu.py": GLU, "my_gelu.py": GELU},
            "is one submission, not a class, since it has glu.py: use .*move it out of",
        ),
    ],
)
def test_a_folder_that_is_not_a_class_is_refused(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], files: Files, message: str
) -> None:
    (tmp_path / "class").mkdir()
    with pytest.raises(SubmissionError, match=message):
        find_class(lay(tmp_path / "class", files), course)


def test_an_archive_that_is_not_a_class_is_refused(
    course: Course, tmp_path: Path, zipped: Pack, tarred: Pack
) -> None:
    for data, message in (
        (zipped({"modules/glu.py": GLU}), "is one submission"),
        (tarred({"alice/glu.py": GLU, "bob/glu.py": GLU}, "w:gz"), "is a compressed tar"),
        (b"hello", "is not a zip or tar"),
        (zipped({}), "has no submissions"),
    ):
        path = tmp_path / "download"
        path.write_bytes(data)
        with pytest.raises(SubmissionError, match=message):
            find_class(path, course)


def test_a_class_of_one_is_a_class(find: Find) -> None:
    assert who(find({"alice/modules/glu.py": GLU, "alice/autograd/gelu.py": GELU}))[0][0] in (
        "alice"
    )


def test_names_with_a_leading_dot_are_noted_except_those_of_tools(find: Find) -> None:
    files = {f"{name}/glu.py": GLU for name in ("amy", "bob", ".zoe", ".git", ".venv", ".my_cache")}
    files |= {".yan.zip": b"", ".DS_Store": b"", "._amy": b"", ".gitignore": b"", ".xi_glu.py": GLU}
    found = find(files)
    assert who(found) == [("amy", 1), ("bob", 1)]
    (note,) = found.notes
    assert note == (
        "Ignored because of the dot in front: .xi_glu.py, .yan.zip, .zoe. If this is a student's name, "
        "rename it without the dot."
    )
