"""Teams: what one member hands in is an attempt of every member."""

from __future__ import annotations

from pathlib import Path

from grader.results import StudentInfo
from grader.submissions import ClassAttempt, ClassDownload, read_roster
from grader.submissions.download import share_in_teams


def student(name: str, team: str = "") -> StudentInfo:
    return StudentInfo(id=name, ids={"team": team} if team else {})


def attempt(owner: StudentInfo, number: int, at: str = "") -> ClassAttempt:
    origin = f"{owner.id}-{number}.zip"
    return ClassAttempt(
        student=owner, attempt=number, submitted_at=at, origin=origin, path=Path(origin)
    )


def shown(download: ClassDownload) -> list[tuple[str, int, str]]:
    return [(each.student.id, each.attempt, each.origin) for each in download.attempts]


ANN, BOB, CEM, DEE = student("ann", "red"), student("bob", "red"), student("cem"), student("dee")


def test_every_member_has_the_attempts_of_all_in_the_order_of_time() -> None:
    attempts = (
        attempt(ANN, 1, "2026-10-12T10:00:00Z"),
        attempt(ANN, 2, "2026-10-14T10:00:00Z"),
        attempt(BOB, 1, "2026-10-13T10:00:00Z"),
        attempt(CEM, 1, "2026-10-13T10:00:00Z"),
    )
    shared = share_in_teams(ClassDownload("zip", attempts, ()))
    of_red = ["ann-1.zip", "bob-1.zip", "ann-2.zip"]
    assert shown(shared) == [
        *(("ann", number, origin) for number, origin in enumerate(of_red, 1)),
        *(("bob", number, origin) for number, origin in enumerate(of_red, 1)),
        ("cem", 1, "cem-1.zip"),
    ]
    assert shared.notes == (
        "1 team: what one member hands in counts for all of them.",
        "In no team: cem. A column `team` of the --roster says who is in which.",
    )


def test_a_member_who_handed_in_nothing_is_not_missing() -> None:
    shared = share_in_teams(ClassDownload("zip", (attempt(ANN, 1),), (), (BOB, DEE)))
    assert shown(shared) == [("ann", 1, "ann-1.zip"), ("bob", 1, "ann-1.zip")]
    assert [each.id for each in shared.missing] == ["dee"]


def test_a_team_is_known_without_the_roster_and_a_change_is_told() -> None:
    known = [ANN, BOB]
    shared = share_in_teams(ClassDownload("zip", (attempt(student("ann"), 1),), ()), known)
    assert [name for name, _, _ in shown(shared)] == ["ann", "bob"]
    assert all(each.student.ids == {"team": "red"} for each in shared.attempts)
    moved = ClassDownload("zip", (attempt(student("ann", "blue"), 1),), ())
    shared = share_in_teams(moved, known)
    assert [name for name, _, _ in shown(shared)] == ["ann"]
    assert "In another team than before: ann." in shared.notes[-1]


def test_a_roster_has_teams(tmp_path: Path) -> None:
    for header in ("id,team", "id,Team name", "login_id,group_name"):
        (tmp_path / "class.csv").write_text(f"{header}\nann,red\nbob,red\ncem,\n", encoding="utf-8")
        roster = read_roster(tmp_path / "class.csv")
        assert [each.ids.get("team", "") for each in roster.students] == ["red", "red", ""]
        # The name of a team is that of none of its members.
        assert roster.called("red") is None
