"""Teams: one member's submission is an attempt of every member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from grader.course.assignments import CourseAssignment
from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions import (
    Attempt,
    ClassDownload,
    Roster,
    find_class,
    joined,
    read_roster,
)
from grader.submissions.download import for_teams, share_in_teams


def student(name: str, team: str = "") -> StudentInfo:
    return StudentInfo(id=name, ids={"team": team} if team else {})


def attempt(owner: StudentInfo, number: int, at: str = "") -> Attempt:
    origin = f"{owner.id}-{number}.zip"
    return Attempt(student=owner, attempt=number, submitted_at=at, origin=origin, path=Path(origin))


def shown(download: ClassDownload) -> list[tuple[str, int, str]]:
    return [(each.student.id, each.attempt, each.origin) for each in download.attempts]


ANN, BOB, CEM, DEE = student("ann", "red"), student("bob", "red"), student("cem"), student("dee")


def test_every_member_has_the_attempts_of_all_ordered_by_time() -> None:
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
        "1 team: a submission of one member counts for all of them.",
        "Without a team: cem. Put teams into a column `team` of the --roster.",
    )


def test_a_member_who_handed_in_nothing_is_not_missing() -> None:
    shared = share_in_teams(ClassDownload("zip", (attempt(ANN, 1),), (), (BOB, DEE)))
    assert shown(shared) == [("ann", 1, "ann-1.zip"), ("bob", 1, "ann-1.zip")]
    assert [each.id for each in shared.missing] == ["dee"]


def test_a_known_team_needs_no_roster_and_a_change_is_noted() -> None:
    known = [ANN, BOB]
    shared = share_in_teams(ClassDownload("zip", (attempt(student("ann"), 1),), ()), known)
    assert [name for name, _, _ in shown(shared)] == ["ann", "bob"]
    assert all(each.student.ids == {"team": "red"} for each in shared.attempts)
    moved = ClassDownload("zip", (attempt(student("ann", "blue"), 1),), ())
    shared = share_in_teams(moved, known)
    assert [name for name, _, _ in shown(shared)] == ["ann"]
    assert "In a different team from before: ann." in shared.notes[-1]


def test_a_roster_has_teams(tmp_path: Path) -> None:
    for header in ("id,team", "id,Team name", "login_id,group_name"):
        (tmp_path / "class.csv").write_text(f"{header}\nann,red\nbob,red\ncem,\n", encoding="utf-8")
        roster = read_roster(tmp_path / "class.csv")
        assert [each.ids.get("team", "") for each in roster.students] == ["red", "red", ""]
        # The name of a team matches no student.
        assert roster.called("red") is None


# --- submissions named after teams ---------------------------------------------------------------

RUTH = student("ruth", "Team Blue")


@pytest.fixture
def of_teams(course: Course) -> Course:
    """Return the course with an assignment for teams."""
    part = CourseAssignment(id="proj", title="Project", exercises=("glu",), teams=True)
    return msgspec.structs.replace(course, assignment=part)


Lay = Callable[[Path, Mapping[str, bytes]], Path]


def laid(tmp_path: Path, lay: Lay, *names: str) -> Path:
    return lay(tmp_path / "class", {f"{name}/src/glu.py": b"" for name in names})


@pytest.mark.parametrize(
    ("red", "blue"),
    [
        ("red", "Team Blue"),
        ("RED", "team-blue"),
        ("proj-red", "proj-team_blue"),
        ("red-p", "team blue-p"),
    ],
)
def test_a_submission_named_after_a_team_is_an_attempt_of_every_member(
    tmp_path: Path, lay: Lay, of_teams: Course, red: str, blue: str
) -> None:
    folder = laid(tmp_path, lay, red, blue)
    found = find_class(folder, of_teams, Roster([ANN, BOB, RUTH, DEE]))
    assert found.strangers == ()
    shared = share_in_teams(joined([found]))
    assert shown(shared) == [("ann", 1, red), ("bob", 1, red), ("ruth", 1, blue)]
    assert [each.id for each in shared.missing] == ["dee"]
    assert [note for note in shared.notes if "Without a team" in note] == [
        "Without a team: dee. Put teams into a column `team` of the --roster."
    ]


def test_clones_and_archives_may_be_named_after_teams(
    tmp_path: Path, lay: Lay, of_teams: Course, zipped: Callable[..., bytes]
) -> None:
    clone = {"proj-red/.git/config": b"", "proj-red/src/glu.py": b""}
    packed = {"Team Blue.zip": zipped({"glu.py": b""}), "red.zip": zipped({"glu.py": b""})}
    for number, files in enumerate((clone, packed)):
        folder = lay(tmp_path / str(number), files)
        found = share_in_teams(find_class(folder, of_teams, Roster([ANN, BOB, RUTH])))
        expected = ["ann", "bob"] if number == 0 else ["ann", "bob", "ruth"]
        assert [each.student.id for each in found.attempts] == expected


def test_a_member_and_the_team_both_count(tmp_path: Path, lay: Lay, of_teams: Course) -> None:
    found = find_class(laid(tmp_path, lay, "red", "ann"), of_teams, Roster([ANN, BOB]))
    assert [name for name, _, _ in shown(share_in_teams(found))] == ["ann", "ann", "bob", "bob"]


def test_the_teams_of_a_gradebook_are_known(tmp_path: Path, lay: Lay, of_teams: Course) -> None:
    found = find_class(laid(tmp_path, lay, "red", "cem"), of_teams, former=[ANN, BOB])
    shared = share_in_teams(found, [ANN, BOB])
    assert [name for name, _, _ in shown(shared)] == ["ann", "bob", "cem"]


def test_a_team_name_in_an_individual_assignment_is_noted(
    tmp_path: Path, lay: Lay, course: Course
) -> None:
    found = find_class(laid(tmp_path, lay, "red", "dee"), course, Roster([ANN, BOB, DEE]))
    assert [name for name, _, _ in shown(found)] == ["dee", "red"]
    (note,) = [note for note in found.notes if "Named after teams" in note]
    assert "red (ann, bob). No member gets these results" in note


def test_in_a_whole_course_a_team_name_counts_only_for_team_exercises(
    tmp_path: Path, lay: Lay, of_teams: Course
) -> None:
    assert of_teams.assignment is not None
    parts = (of_teams.assignment,)
    whole = msgspec.structs.replace(of_teams, assignment=None, assignments=parts)
    found = find_class(laid(tmp_path, lay, "red", "dee"), whole, Roster([ANN, BOB, DEE]))
    shared = share_in_teams(found, parts=for_teams(whole))
    assert [(each.student.id, each.only) for each in shared.attempts] == [
        ("ann", {"glu"}),
        ("bob", {"glu"}),
        ("dee", None),
    ]
    assert (
        "Named after a team: red. Only the files for proj count, for every member." in shared.notes
    )


def test_a_name_of_a_student_and_of_another_team_matches_neither(
    tmp_path: Path, lay: Lay, of_teams: Course, course: Course
) -> None:
    red = student("red", "Team Blue")
    folder, roster = laid(tmp_path, lay, "red", "dee"), Roster([ANN, BOB, DEE, red])
    found = find_class(folder, of_teams, roster)
    assert [name for name, _, _ in shown(share_in_teams(found))] == ["dee", "red~2"]
    assert any("taken as neither: red." in note for note in found.notes)
    # In an individual assignment it is the student.
    assert [name for name, _, _ in shown(find_class(folder, course, roster))] == ["dee", "red"]
    # Also in a whole course, since most of its exercises are individual.
    assert of_teams.assignment is not None
    parts = (of_teams.assignment,)
    whole = msgspec.structs.replace(of_teams, assignment=None, assignments=parts)
    assert [name for name, _, _ in shown(find_class(folder, whole, roster))] == ["dee", "red"]
    own = Roster([ANN, BOB, DEE, student("red", "red")])
    shared = share_in_teams(find_class(folder, of_teams, own))
    assert [name for name, _, _ in shown(shared)] == ["ann", "bob", "dee", "red"]


def test_a_team_without_members_keeps_its_submission(
    tmp_path: Path, lay: Lay, of_teams: Course
) -> None:
    found = find_class(laid(tmp_path, lay, "red", "x"), of_teams, former=[ANN])
    moved = msgspec.structs.replace(found, missing=(student("ann", "blue"),))
    assert [name for name, _, _ in shown(share_in_teams(moved))] == ["red", "x"]


def test_a_member_of_two_teams_is_noted() -> None:
    both = student("eve", "red, blue")
    download = ClassDownload("zip", (attempt(ANN, 1), attempt(both, 1)), (), (BOB,))
    shared = share_in_teams(download)
    assert shown(shared)[-1] == ("eve", 1, "eve-1.zip")
    assert any(note.startswith("In several teams at once") for note in shared.notes)
    assert any("eve (red, blue)" in note for note in shared.notes)
