"""Class lists written by people and by platforms."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import Roster, read_roster
from grader.submissions.people import Person, match_people
from grader.submissions.platforms import Canvas, Gradescope, Moodle, Platform
from grader.submissions.roster import Known, section_names, sections, whole_sections

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab (77)
    Points Possible,,,,,10
"Doe, Jane",1001,S-1,jdoe,Mon,
"van der Berg, Piet",1002,S-2,pberg,"Mon and Tue",
"Student, Test",1003,,x,Mon,
"""
MOODLE = """\
\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade"
"Participant 501","Jane Doe",jane@uni.edu,"Submitted",,100
"Teilnehmer/in502","Piet van der Berg",piet@uni.edu,"Submitted",,100
"""
CLASSROOM = """\
username,first_name,last_name,email,section,github_id
janedoe,Jane,Doe,jane@uni.edu,,55
"""


def roster(tmp_path: Path, text: str | bytes) -> Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_roster(path)


def test_a_canvas_gradebook_is_read_as_a_roster(tmp_path: Path) -> None:
    read = roster(tmp_path, CANVAS)
    assert read.students[0] == StudentInfo(
        id="jdoe",
        name="Doe, Jane",
        ids={"canvas_id": "1001", "sis_user_id": "S-1", "sis_login_id": "jdoe", "section": "Mon"},
    )
    assert [each.id for each in read.students] == ["jdoe", "pberg"]
    for name in ("Jane Doe", "doejane", "jdoe", "S-1", "1001", "doe, JANE"):
        assert read.called(name) is read.students[0]
    assert read.called("vanderbergpiet") is read.students[1]


def test_a_moodle_worksheet_is_read_as_a_roster(tmp_path: Path) -> None:
    read = roster(tmp_path, MOODLE)
    assert [each.id for each in read.students] == ["jane@uni.edu", "piet@uni.edu"]
    assert read.find("moodle_identifier", "Participant 502") is read.students[1]
    assert read.called("jane") is read.students[0]


def test_a_list_of_classroom_50_is_read_as_a_roster(tmp_path: Path) -> None:
    (student,) = roster(tmp_path, CLASSROOM).students
    assert (student.id, student.name, student.email) == ("janedoe", "Jane Doe", "jane@uni.edu")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_encodings_and_delimiters_of_spreadsheets_are_recognized(
    tmp_path: Path, encoding: str, delimiter: str
) -> None:
    lines = [["Student-ID", "Full Name", "E-Mail"], ["7", "René Müller", "r@uni.edu"], ["", "", ""]]
    text = "\r\n".join(delimiter.join(line) for line in lines)
    (student,) = roster(tmp_path, text.encode(encoding)).students
    assert student == StudentInfo(id="7", name="René Müller", email="r@uni.edu")


def test_a_name_shared_by_two_students_matches_neither(tmp_path: Path) -> None:
    read = roster(tmp_path, "id,name\n1,Jane Doe\n2,Jane Doe\n")
    assert read.called("Jane Doe") is None
    assert read.called("2") is read.students[1]


def test_an_exact_id_is_preferred_to_other_names(tmp_path: Path) -> None:
    read = roster(tmp_path, "id,username\nbob,alice\nalice,carol\n")
    assert read.called("alice") is read.students[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column that names a student"),
        ("points,grade\n1,2\n", "has no column that names a student.* columns are points, grade"),
        ("id,name\n", "has a header, but no students"),
        ("id,name\n1,A\n1,B\n", "has the id '1' twice"),
        ("id,section\n,x\n", "has no student in row 2"),
        ('id,name\n1,"' + "x" * 200_000, "cannot be read"),
    ],
)
def test_a_list_that_is_not_a_roster_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SubmissionError, match=message):
        roster(tmp_path, text)


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_workbook_is_refused_with_advice_to_save_as_csv(tmp_path: Path, magic: bytes) -> None:
    path = tmp_path / "class.xlsx"
    path.write_bytes(magic + b"id,name\n1,A\n")
    with pytest.raises(SubmissionError, match="save the list as CSV"):
        read_roster(path)


def test_hostile_cells_are_made_harmless(tmp_path: Path) -> None:
    read = roster(tmp_path, 'id,name\n"=cmd()","<b>\x1b[31m\x00"\n"a\nb",x\n')
    assert read.students[0] == StudentInfo(id="=cmd()", name="<b>\ufffd[31m\ufffd")
    assert read.students[1].id == "a\ufffdb"


@pytest.mark.parametrize("line", ["sep=;\r\n", '"sep=;"\n', "SEP=;;;\n", "\ufeffsep=;\n"])
def test_excels_separator_line_is_not_a_header(tmp_path: Path, line: str) -> None:
    read = roster(tmp_path, f"{line}id;name, in full;full name\nann;x;Ann\n")
    assert read.students == (StudentInfo(id="ann", name="Ann"),)


def test_a_cell_has_one_section_or_several() -> None:
    cells = ["A and B", "B", "Research and Development", "A, C", "", "Research and Development"]
    students = [
        StudentInfo(id=str(number), ids={"section": cell} if cell else {})
        for number, cell in enumerate(cells)
    ]
    whole = whole_sections(students)
    assert [sections(student, whole) for student in students] == [
        ("A", "B"),
        ("B",),
        ("Research and Development",),
        ("A", "C"),
        (),
        ("Research and Development",),
    ]
    assert section_names(students) == ["A", "B", "C", "Research and Development"]
    assert sections(students[2]) == ("Research", "Development")
    assert sections(StudentInfo(id="x", ids={"section": "A, B, and C & D"})) == ("A", "B", "C", "D")


def test_a_team_is_found_in_any_spelling() -> None:
    teams = ("Team Red", "a-b", "ab")
    read = Roster(StudentInfo(id=str(n), ids={"team": team}) for n, team in enumerate(teams))
    for name in ("Team Red", "team-red", "TEAM_RED", "teamred"):
        assert read.team(name) == "Team Red"
    assert read.team("a-b") == "a-b" and read.team("A-B") is None, (
        "two similar names match neither team"
    )
    assert read.team("red") is None


def test_the_first_list_that_knows_a_name_decides() -> None:
    now = Roster([StudentInfo(id="ann", name="Ann")])
    before = Roster([StudentInfo(id="1", name="Ann"), StudentInfo(id="2", ids={"team": "red"})])
    known = Known(None, now, before)
    assert known.whom("Ann") == ("student", "ann") and known.whom("2") == ("student", "2")
    assert known.whom("RED") == ("team", "red") and known.whom("zoe") is None
    assert [student.id for student in known.members("red")] == ["2"]


# --- the people of a download -----------------------------------------------------------------------


def matched(
    platform: Platform, roster: list[StudentInfo], *here: StudentInfo
) -> tuple[list[str], str]:
    """Return the ids that people of a download get, and the notes."""
    people = [Person(student) for student in here]
    notes = match_people(people, platform, Known(Roster(roster))).notes
    return [person.student.id for person in people], " ".join(notes)


def of_canvas(number: str, name: str) -> StudentInfo:
    return StudentInfo(id=number, name=name, ids={"canvas_id": number})


def of_moodle(number: str, name: str) -> StudentInfo:
    return StudentInfo(id=number, name=name, ids={"moodle_identifier": f"Participant {number}"})


SECTION = [
    StudentInfo(id="ada", name="Oka, Da", ids={"canvas_id": "101"}),
    StudentInfo(id="smith1", name="Smith, John", ids={"canvas_id": "107"}),
]
WORKSHEET = [
    StudentInfo(id="ada", name="Ada Ok", ids={"moodle_identifier": "Participant 501"}),
    StudentInfo(id="same", name="Same Name", ids={"moodle_identifier": "Participant 504"}),
]


def test_a_namesake_with_another_id_is_another_person() -> None:
    namesake = of_canvas("108", "smithjohn")
    ids, notes = matched(Canvas(), SECTION, namesake, of_canvas("101", "okada"))
    assert ids == ["108", "ada"]
    assert "are taken as other people: 108 (not smith1)." in notes
    ids, notes = matched(Canvas(), SECTION, namesake, of_canvas("107", "smithjohn"))
    assert ids == ["108", "smith1"] and "Several could be" not in notes
    without_id = [StudentInfo(id="smith1", name="Smith, John")]
    assert matched(Canvas(), without_id, namesake) == (["smith1"], "")


def test_a_namesake_with_another_number_of_the_same_assignment_is_another_person() -> None:
    here = of_moodle("501", "Ada Ok"), of_moodle("505", "Same Name")
    ids, notes = matched(Moodle(), WORKSHEET, *here)
    assert ids == ["ada", "505"] and "505 (not same)" in notes
    # In another assignment, everybody has another number.
    next_week = of_moodle("601", "Ada Ok"), of_moodle("605", "Same Name")
    assert matched(Moodle(), WORKSHEET, *next_week) == (["ada", "same"], "")


def test_a_moodle_number_under_another_name_is_of_another_assignment() -> None:
    ids, notes = matched(
        Moodle(), WORKSHEET, of_moodle("504", "Ada Ok"), of_moodle("501", "Same Name")
    )
    assert ids == ["ada", "same"]
    assert "so the names decide: 504 (there Same Name), 501 (there Ada Ok)." in notes
    anonymous = of_moodle("501", "Participant 501")
    assert matched(Moodle(), WORKSHEET, anonymous) == (["ada"], "")


@pytest.mark.parametrize("email", ["jane.doe2@uni.edu", ""])
def test_a_namesake_with_another_email_or_number_is_another_person(email: str) -> None:
    roster = [
        StudentInfo(
            id="jdoe", name="Jane Doe", email="jane.doe@uni.edu", ids={"id_number": "100001"}
        ),
        StudentInfo(id="asmith", name="Adam Smith", ids={"id_number": "100002"}),
    ]
    other = StudentInfo(id="100007", name="Jane Doe", email=email, ids={"gradescope_sid": "100007"})
    adam = StudentInfo(id="100002", name="Adam Smith", ids={"gradescope_sid": "100002"})
    ids, notes = matched(Gradescope(), roster, other, adam)
    assert ids == ["100007", "asmith"] and "100007 (not jdoe)" in notes
    own_server = msgspec.structs.replace(
        other, id="jane.doe@gmail.com", email="jane.doe@gmail.com", ids={}
    )
    assert matched(Gradescope(), roster, own_server) == (["jdoe"], "")


def test_emails_separate_namesakes_only_where_most_are_in_the_list() -> None:
    roster = [
        StudentInfo(id="jdoe", name="Jane Doe", email="jane.doe@uni.edu"),
        StudentInfo(id="asmith", name="Adam Smith", email="adam.smith@uni.edu"),
    ]
    jane, adam = (
        StudentInfo(id=f"{nick}@gmail.com", name=name, email=f"{nick}@gmail.com")
        for nick, name in (("jd99", "Jane Doe"), ("smithy", "Adam Smith"))
    )
    assert matched(Gradescope(), roster, jane, adam) == (["jdoe", "asmith"], "")
    listed = msgspec.structs.replace(adam, id=roster[1].email, email=roster[1].email)
    ids, notes = matched(Gradescope(), roster, jane, listed)
    assert ids == [jane.id, "asmith"] and f"{jane.id} (not jdoe)" in notes


def test_an_id_under_another_name_is_noted() -> None:
    ids, notes = matched(Canvas(), SECTION, of_canvas("107", "leekim"))
    assert ids == ["smith1"]
    assert "under other names, so please check: 107 as Smith, John (smith1)." in notes
