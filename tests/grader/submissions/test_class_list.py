"""Class lists of platforms: each is recognized by its contents, and only students are read from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import read_roster
from grader.submissions.class_list import (
    CanvasGradebook,
    ClassList,
    MoodleWorksheet,
    read_list,
    value_key,
)

HASH = "0123456789abcdef0123456789abcdef01234567"
# Has semicolons and decimal commas of a European Excel, integration ids, several root accounts, a teacher's
# column, a posting policy, totals in the teacher's language, and the test student's name in another language.
CANVAS_IN_EUROPE = f"""\
\ufeffStudent;ID;SIS User ID;SIS Login ID;Integration ID;Root Account;Section;Notes;Lab 1 (7);Final Score (2026)
;;;;;;;;Manual Posting (scores hidden from students);
    Points Possible;;;;;;;;15,00;(schreibgeschützt)
A, Ada;101;s1;ada;i1;x.example;S and T;three, late;3,5;
Étudiant, Test;199;;{HASH};;;S;;;
"""
NAMES_APART = """\
LastName,FirstName,ID,SIS User ID,SIS Login ID,Section,Lab 1 (7)
    Points Possible,,,,,,15
A,Ada,101,s1,ada,S,
Student,Test,199,,x1,S,
"""
WITHOUT_SIS = """\
Student,ID,Section,Lab 1 (7)
,,,Muted
    Points Possible,,,15
"A, Ada",101,S,
"Student, Test",199,S,
,,,left in May
"""
CANVAS_ADA = {"canvas_id": "101", "sis_user_id": "s1", "sis_login_id": "ada", "section": "S"}


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "list.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def students(tmp_path: Path, text: str | bytes) -> tuple[StudentInfo, ...]:
    return read_roster(written(tmp_path, text)).students


def kind(tmp_path: Path, text: str) -> type[ClassList]:
    return type(read_list(written(tmp_path, text), "The list"))


@pytest.mark.parametrize(
    ("text", "ada"),
    [
        (CANVAS_IN_EUROPE, {"id": "ada", "ids": CANVAS_ADA | {"section": "S and T"}, "name": "A, Ada"}),
        (NAMES_APART, {"id": "ada", "ids": CANVAS_ADA, "name": "Ada A"}),
        (WITHOUT_SIS, {"id": "101", "ids": {"canvas_id": "101", "section": "S"}, "name": "A, Ada"}),
    ],
    ids=["Europe", "names apart", "without SIS"],
)  # fmt: skip
def test_only_students_are_read_from_a_canvas_gradebook(
    tmp_path: Path, text: str, ada: dict[str, object]
) -> None:
    assert kind(tmp_path, text) is CanvasGradebook
    (student,) = students(tmp_path, text)
    assert {"id": student.id, "ids": student.ids, "name": student.name} == ada


def test_an_id_in_a_custom_list_is_not_a_canvas_id(tmp_path: Path) -> None:
    text = "Student,ID,Section,Email\nAda A,a1,S,ada@x.example\n"
    assert kind(tmp_path, text) is ClassList
    (student,) = students(tmp_path, text)
    assert (student.id, student.ids) == ("a1", {"section": "S"})


def _worksheet(word: str, header: str, *cells: str) -> str:
    rows = (f'"{word}{number}",{rest}' for number, rest in enumerate(cells, 501))
    return "\n".join((header, *rows)) + "\n"


GERMAN = _worksheet(
    "Teilnehmer/in",
    'ID,"Vollständiger Name",E-Mail-Adresse,Status,Bewertung,Bestwertung',
    'Ada A,a@x.example,x,,"15,00"',
    'Ben B,b@x.example,x,"3,00","15,00"',
)
SPANISH = _worksheet(
    "Participante",
    "Identificador,Nombre completo,Correo,Estado,Grupo,Calificación,Calificación máxima,Se puede cambiar,"
    "Última modificación (entrega),Última modificación (calificación),Comentarios",
    'Ada A,a@x.example,Enviado,G,,100.00,Sí,"lunes, 12 de octubre de 2026, 13:00",-,',
    "Ben B,b@x.example,Sin entrega,G,5.00,100.00,Sí,-,-,",
)
UNKNOWN = _worksheet(
    "Wortlich ",
    "Xid,Xname,Xmail,Xstatus,Xgrade,Xmax,Xchange,Xsubmitted,Xgraded",
    "Ada A,a@x.example,s,,100.00,Y,2026年 10月 12日(月) 13:00,-",
    "Ben B,b@x.example,s,,100.00,Y,-,-",
)


@pytest.mark.parametrize("text", [GERMAN, SPANISH, UNKNOWN], ids=["de", "es", "unknown"])
def test_a_worksheet_is_recognized_in_every_language(tmp_path: Path, text: str) -> None:
    assert kind(tmp_path, text) is MoodleWorksheet
    ada, ben = students(tmp_path, text)
    assert ada == StudentInfo(
        id="a@x.example",
        name="Ada A",
        email="a@x.example",
        ids={"moodle_identifier": "Participant 501"},
    )
    assert (ben.name, ben.ids) == ("Ben B", {"moodle_identifier": "Participant 502"})


@pytest.mark.parametrize(
    "text",
    [
        "ID,Status,Bewertung,Bestwertung,Ge\nTeilnehmer/in501,ab,,15,Ja\nTeilnehmer/in502,ab,,15,Ja\n",
        "Identifier,Status,Grade,Maximum Grade\nHidden 501,Submitted,,100\nHidden 502,No,,100\n",
        "識別子,ステータス,評点,最大評点\n参加者501,済,,15\n参加者502,済,,15\n",
    ],
    ids=["de", "hidden", "ja"],
)
def test_an_anonymous_worksheet_has_no_names(tmp_path: Path, text: str) -> None:
    assert kind(tmp_path, text) is MoodleWorksheet
    assert [(student.name, student.ids) for student in students(tmp_path, text)] == [
        ("", {"moodle_identifier": f"Participant {number}"}) for number in (501, 502)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "id,points,max\nstudent01,3,15\nstudent02,4,15\n",
        "id,name,points,max\nStudent01,A,3,15\nStudent02,B,4,15\n",
        "id,name,points,max\nParticipant01,A,3,15\nParticipant02,B,4,15\n",
        "id,points,max,a,b\nAB12,3,15,x,y\nAB13,4,15,x,y\n",
        "id,points,max,a,b\nS-1,3,15,-,-\nS-2,4,15,-,-\n",
    ],
)
def test_custom_ids_are_not_mistaken_for_moodles(tmp_path: Path, text: str) -> None:
    given = [line.partition(",")[0] for line in text.splitlines()[1:]]
    assert [student.id for student in students(tmp_path, text)] == given


GRADESCOPE = """\
First Name,Last Name,SID,Email,Sections,section_name,Total Score,Status,Submission Time
Ada,A,00101,a@x.example,,"1, 2",8,Graded,2026-10-12 13:16:26 -0600
"""
GRADESCOPE_ROSTER = """\
Full Name,First Name,Last Name,SID,Email,Role
Ada A,Ada,A,00101,a@x.example,Student
Tea A,Tea,A,2,t@x.example,TA
In S,In,S,,i@x.example,Instructor
"""
BRIGHTSPACE = """\
OrgDefinedId,Username,Last Name,First Name,Email,Lab Points Grade,End-of-Line Indicator
#00101,#ada,A,Ada,a@x.example,,#
"""
BLACKBOARD = """\
Last Name,First Name,Username,Student ID,Availability,Lab [Total Pts: 15] |7
A,Ada,ada,00101,Yes,
X_PreviewUser,X,x_previewuser,,Yes,
"""


@pytest.mark.parametrize(
    ("text", "ada"),
    [
        (GRADESCOPE, ("00101", {"gradescope_sid": "00101", "section": "1, 2"})),
        (GRADESCOPE_ROSTER, ("00101", {"gradescope_sid": "00101"})),
        (BRIGHTSPACE, ("ada", {"username": "ada", "id_number": "00101"})),
        (BLACKBOARD, ("00101", {"username": "ada"})),
    ],
    ids=["Gradescope", "Gradescope's roster", "Brightspace", "Blackboard"],
)
def test_lists_of_other_platforms_are_recognized(
    tmp_path: Path, text: str, ada: tuple[str, dict[str, str]]
) -> None:
    (student,) = students(tmp_path, text)
    assert (student.id, student.ids) == ada
    assert student.name == "Ada A"
    tabs = text.replace('"1, 2"', "1. 2").replace(",", "\t")
    (same,) = students(tmp_path, b"\xff\xfe" + tabs.encode("utf-16-le"))
    assert same.id == student.id


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"id,name\rada,Ada A\r", "Ada A"),
        (b"id,name\rada,Zo\x91\r", "Zoë"),
        ("id,name\nben,Zoë\n".encode() + b"ada,Ren\xe9\n", "René"),
        (b'id,name\r\nada,"Ada\r\nA"\r\n', "Ada\ufffd\ufffdA"),
    ],
    ids=["old Mac", "its encoding", "two encodings", "lines in a cell"],
)
def test_line_ends_and_encodings_are_recognized(tmp_path: Path, data: bytes, name: str) -> None:
    assert {student.id: student.name for student in students(tmp_path, data)}["ada"] == name


def test_rows_that_differ_only_in_section_are_one_student(tmp_path: Path) -> None:
    text = "id,name,email,section\nada,Ada A,,1\nben,B,,1\nada,Ada A,a@x.example,2\nada,Ada A,,1\n"
    ada, ben = students(tmp_path, text)
    assert (ada.ids, ada.email) == ({"section": "1, 2"}, "a@x.example")
    assert ben.ids == {"section": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,name,section\n\nada,Ada A,1\n\nada,Ada B,2\n",
            "has the id 'ada' twice, in row 3 and row 5, and the rows differ in name (Ada A and Ada B)",
        ),
        (
            'sep=;\r\nid;name\r\n\r\nada;"A\r\nB"\r\nada;C\r\n',
            "in row 3 (line 4 of the file) and row 4 (line 6 of the file)",
        ),
        ("name,section\nJo Smith,1\nJo Smith,2\n", "has the name 'Jo Smith' twice, in row 2 and row 3"),
        ("id,email\n\nada,ada@x; ada@y\n", "row 3: 'ada@x; ada@y' is more than one value for `email`"),
        ("id,username\nada,ada | ada2\n", "row 2: 'ada | ada2' is more than one value for `username`"),
        ("id,name,email\nada,A, Ada,a@x\n", '4 cells in row 2, and 3 columns: put quotes around a cell'),
        ('id,name\n\nada,"Ada\nben,Ben\n', "row 3: a cell begins with a quotation mark, but"),
        ("<!DOCTYPE html><title>Sign in</title>", "is a web page: sign in on the platform"),
        ("id,name,team\n,,\n,,red\n", "has no student in row 3: give it an id or a name"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SubmissionError) as caught:
        students(tmp_path, text)
    assert message in str(caught.value)


def test_german_titles_are_read(tmp_path: Path) -> None:
    text = "Vorname;Nachname;Matrikelnummer;E-Mail-Adresse;Nutzername\nAda;A;0042;ada@x.de;ada1\n"
    (tmp_path / "class.csv").write_text(text, encoding="utf-8")
    (student,) = read_roster(tmp_path / "class.csv").students
    assert (student.id, student.name, student.email) == ("ada1", "Ada A", "ada@x.de")
    assert student.ids["id_number"] == "0042"


def test_a_role_in_a_team_is_not_a_staff_role(tmp_path: Path) -> None:
    (student,) = students(tmp_path, "id,name,role\nada,Ada A,reader\n")
    assert student.id == "ada"


def test_a_row_with_only_a_remark_is_skipped(tmp_path: Path) -> None:
    (student,) = students(tmp_path, "id,name\nada,Ada A\n,\n,,\n,,no more students\n")
    assert student.id == "ada"


def test_only_ascii_values_are_compared_case_insensitively() -> None:
    assert value_key(" Kim@Uni.example\n") == "kim@uni.example"
    # Case folding turns the Kelvin sign, the long s and the sharp s into ASCII letters.
    for odd in ("\u212aim@uni.example", "jo\u017f@uni.example", "gro\u00df@uni.example"):
        assert value_key(odd) == odd
