"""Times of submission: from a list, from the platform, or one time for all."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions import ClassDownload, Roster, find_class, read_times
from grader.submissions.times import Times, in_utc

WARSAW = zoneinfo.ZoneInfo("Europe/Warsaw")
WORKSHEET = """\
\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade","Last modified (submission)"
"Participant 501","Jane Doe",jane@uni.edu,"Submitted",,100,"Monday, 12 October 2026, 11:59 PM"
"Participant 502","Piet van der Berg",piet@uni.edu,"No submission",,100,-
"""


def _moodle(folder: Path, names: list[str]) -> Path:
    download = folder / "download"
    for number, name in enumerate(names, 501):
        entry = download / f"{name}_{number}_assignsubmission_file_"
        entry.mkdir(parents=True)
        (entry / "glu.py").write_text("x = 1\n")
    return download


def _times_of(download: ClassDownload) -> dict[str, str]:
    return {found.student.name: found.submitted_at for found in download.attempts}


def test_a_moodle_worksheet_gives_times(tmp_path: Path, course: Course) -> None:
    sheet = tmp_path / "worksheet.csv"
    sheet.write_text(WORKSHEET, encoding="utf-8")
    download = _moodle(tmp_path, ["Jane Doe", "Piet van der Berg", "Zoe Stranger"])
    found = find_class(download, course, None, read_times(str(sheet), WARSAW))
    assert _times_of(found) == {
        "Jane Doe": "2026-10-12T21:59:00Z",
        "Piet van der Berg": "",
        "Zoe Stranger": "",
    }
    assert [note for note in found.notes if "time of submission" in note] == [
        "The time of submission is not known for: 502, 503."
    ]


def test_one_time_is_used_for_all_without_a_known_time(tmp_path: Path, course: Course) -> None:
    download = tmp_path / "download"
    for number in (1, 2):
        (download / f"submission_{number}").mkdir(parents=True)
        (download / f"submission_{number}" / "glu.py").write_text("x = 1\n")
    (download / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n  - :name: Jane Doe\n    :sid: '1'\n    :email: j@uni.edu\n"
        "  :created_at: 2026-10-11 10:00:00.000000000 Z\n"
        "submission_2:\n  :submitters:\n  - :name: Piet Berg\n    :sid: '2'\n    :email: p@uni.edu\n"
    )
    found = find_class(download, course, None, read_times("2026-10-12T23:59:00+02:00"))
    assert _times_of(found) == {
        "Jane Doe": "2026-10-11T10:00:00Z",
        "Piet Berg": "2026-10-12T21:59:00Z",
    }
    assert not [note for note in found.notes if "handed in" in note]


def test_the_last_time_of_several_rows_overrides_the_platform(
    tmp_path: Path, course: Course
) -> None:
    sheet = tmp_path / "times.csv"
    sheet.write_text("username,submitted_at\nzoe,2026-10-13T08:00:00Z\nzoe,2026-10-12T08:00:00Z\n")
    (tmp_path / "download" / "zoe").mkdir(parents=True)
    (tmp_path / "download" / "zoe" / "glu.py").write_text("x = 1\n")
    found = find_class(tmp_path / "download", course, None, read_times(str(sheet)))
    assert [attempt.submitted_at for attempt in found.attempts] == ["2026-10-13T08:00:00Z"]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        # Clocks go back from 3:00 to 2:00: the first of the two hours is meant.
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        # Clocks go forward from 2:00 to 3:00: half an hour after 2:00 is meant.
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z"),
        ("2026-10-12 23:59", "2026-10-12T21:59:00Z"),
        ("2026-10-12T23:59:00Z", "2026-10-12T23:59:00Z"),
        ("Monday, 12 October 2026, 23:59", "2026-10-12T21:59:00Z"),
        ("Monday, October 12, 2026, 11:59 PM", "2026-10-12T21:59:00Z"),
        ("2026年 10月 12日(月) 23:59", "2026-10-12T21:59:00Z"),
        ("2026-10-12 13:16:26 -0600", "2026-10-12T19:16:26Z"),
        (" 2026/10/12 23:59:01 ", "2026-10-12T21:59:01Z"),
    ],
)
def test_local_times_are_read_in_the_zone(text: str, instant: str) -> None:
    assert in_utc(text, WARSAW) == instant


@given(st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2100, 1, 1)))
def test_an_instant_is_the_same_in_every_zone(instant: datetime.datetime) -> None:
    time = instant.replace(microsecond=0, tzinfo=datetime.UTC)
    shown = f"{instant.replace(microsecond=0).isoformat()}Z"
    assert in_utc(time.astimezone(WARSAW).isoformat(), None) == shown


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("id,when\nzoe,2026-10-12T23:59:00Z\n", "has no column with times: name it `submitted_at`"),
        ("id,submitted_at\nzoe,-\n", "has no times"),
        (
            "id,submitted_at\nzoe,yesterday\n",
            "row 2: 'yesterday' cannot be read as a time: write it as",
        ),
        ("id,submitted_at\nzoe,2026-10-12T23:59\n", "has no time zone"),
        (
            "id,submitted_at\n\nzoe,2026-10-12\n",
            "row 3: '2026-10-12' is a date without a time: add the time of day, such as 2026-10",
        ),
        ("id,submitted_at\nzoe,20261012\n", "is a date without a time"),
        (
            "id,submitted_at\nzoe,2026-10-12 / 2026-10-13\n",
            "row 2: '2026-10-12 / 2026-10-13' is more than one time: keep one",
        ),
        ("submitted_at\n2026-10-12T23:59\n", "has no column that names a student"),
    ],
)
def test_a_mistake_in_a_list_of_times_is_explained(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "times.csv").write_text(text)
    with pytest.raises(SubmissionError, match=what):
        read_times(str(tmp_path / "times.csv"))


def test_neither_a_file_nor_a_time_is_refused() -> None:
    with pytest.raises(
        SubmissionError, match=r"--times 'tiems\.csv' is not a file, and 'tiems\.csv'"
    ):
        read_times("tiems.csv")


GERMAN = """\
ID,"Vollständiger Name",Status,Bewertung,Bestwertung,?,Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung)
Teilnehmer/in501,Jane Doe,x,,"15,00",Ja,"{}",-
Teilnehmer/in502,Piet Berg,x,,"15,00",Ja,-,"Dienstag, 13. Oktober 2026, 10:00"
"""


def test_times_in_a_worksheet_are_found_by_column_position(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(GERMAN.format("2026-10-12 23:59"), encoding="utf-8")
    times = read_times(str(tmp_path / "times.csv"), WARSAW)
    assert list(times.by_id.values()) == ["2026-10-12T21:59:00Z"]


def test_a_date_in_another_language_is_reported_with_its_column(tmp_path: Path) -> None:
    text = GERMAN.format("Montag, 12. Oktober 2026, 23:59")
    (tmp_path / "times.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SubmissionError) as caught:
        read_times(str(tmp_path / "times.csv"), WARSAW)
    assert "row 2: 'Montag, 12. Oktober 2026, 23:59' cannot be read as a time" in str(caught.value)
    assert "the column 'Zuletzt geändert (Abgabe)'" in str(caught.value)
    assert "switch it to English and download the worksheet again" in str(caught.value)


def test_a_worksheet_without_a_time_zone_is_not_told_to_be_in_english(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(GERMAN.format("Monday, 12 October 2026, 23:59"), "utf-8")
    with pytest.raises(SubmissionError, match="has no time zone") as caught:
        read_times(str(tmp_path / "times.csv"))
    assert "English" not in str(caught.value)


def test_a_worksheet_without_submission_times_is_reported(tmp_path: Path) -> None:
    # The remaining dates are those of grades.
    lines = [",".join(line.split(",")[:6]) for line in GERMAN.splitlines()]
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(SubmissionError, match="Last modified"):
        read_times(str(tmp_path / "times.csv"), WARSAW)


ROSTER = Roster(
    [
        StudentInfo(id="s1", name="Jane Doe", email="jane@uni.edu", ids={"username": "jdoe"}),
        StudentInfo(id="s2", name="Piet van der Berg", ids={"username": "501"}),
        StudentInfo(id="s3", name="Absent"),
    ]
)


def _found(tmp_path: Path, course: Course, rows: str, roster: Roster | None) -> ClassDownload:
    (tmp_path / "times.csv").write_text(rows)
    times = read_times(str(tmp_path / "times.csv"))
    return find_class(_moodle(tmp_path, ["Jane Doe", "Piet van der Berg"]), course, roster, times)


@pytest.mark.parametrize(
    "rows",
    [
        "id,submitted_at\ns1,{}\ns2,{}\n",
        "id,submitted_at\njdoe,{}\ns2,{}\n",
        "username,submitted_at\njdoe,{}\n501,{}\n",
        "email,name,submitted_at\njane@uni.edu,,{}\n,Piet van der Berg,{}\n",
        'name,submitted_at\n"Doe, Jane",{}\nPiet van der Berg,{}\n',
        "identifier,submitted_at\nParticipant 501,{}\nParticipant 502,{}\n",
    ],
)
def test_the_roster_matches_times_by_any_id(tmp_path: Path, course: Course, rows: str) -> None:
    first, second = "2026-10-12T08:00:00Z", "2026-10-13T08:00:00Z"
    found = _found(tmp_path, course, rows.format(first, second), ROSTER)
    assert _times_of(found) == {"Jane Doe": first, "Piet van der Berg": second}
    assert len(found.timed) == 2


def test_without_a_roster_a_list_may_use_ids_of_the_download(
    tmp_path: Path, course: Course
) -> None:
    found = _found(tmp_path, course, "id,submitted_at\n501,2026-10-12T08:00:00Z\n", None)
    assert _times_of(found) == {"Jane Doe": "2026-10-12T08:00:00Z", "Piet van der Berg": ""}


def test_numbers_that_match_few_of_the_download_are_not_ids(tmp_path: Path, course: Course) -> None:
    rows = "".join(f"{number},2026-10-12T08:00:00Z\n" for number in range(495, 502))
    assert set(_times_of(_found(tmp_path, course, f"id,submitted_at\n{rows}", None)).values()) == {
        ""
    }


def test_a_list_that_matches_nobody_is_refused_and_a_partial_match_noted(
    tmp_path: Path, course: Course
) -> None:
    times = Times(
        Roster([StudentInfo(id="x"), StudentInfo(id="s1")]),
        dict.fromkeys(("x", "s1"), "2026-10-12T08:00:00Z"),
        what="The list",
    )
    here = [StudentInfo(id="501"), StudentInfo(id="502")]
    assert list(times.unmatched({"s1"}, here)) == ["The list names students who are not here: x."]
    assert list(times.unmatched({"s1", "x"}, here)) == []
    with pytest.raises(
        SubmissionError, match=r"names nobody.* It has the ids x, s1, and this class has 501"
    ):
        list(times.unmatched(frozenset(), here))
    found = _found(tmp_path, course, "id,submitted_at\ns3,2026-10-12T08:00:00Z\n", ROSTER)
    assert found.timed == {"s3"}, "a student in the roster is not unknown"


@pytest.mark.parametrize("other", ["other@uni.edu", "s9"])
def test_the_row_of_a_namesake_gives_no_time(tmp_path: Path, course: Course, other: str) -> None:
    rows = "id,name,submitted_at\ns1,Jane Doe,{0}\n{1},Piet van der Berg,{0}\n"
    roster = Roster(
        [
            StudentInfo(id="s1", name="Jane Doe"),
            StudentInfo(id="s2", name="Piet van der Berg", email="piet@uni.edu"),
        ]
    )
    found = _found(tmp_path, course, rows.format("2026-10-12T08:00:00Z", other), roster)
    assert _times_of(found) == {"Jane Doe": "2026-10-12T08:00:00Z", "Piet van der Berg": ""}
    assert found.timed == {"s1"}
