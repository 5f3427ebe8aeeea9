"""`grade batch --assignment`: the gradebook of an assignment, with its exercises, seed and due time."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from grader.authoring.release import Tier, _readme
from grader.cli import main
from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.policy import Rules
from grader.gradebook.policy_file import PolicyError, policy_of
from grader.gradebook.review import Reason
from tests.grader.command import grade as run_grade

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
ASSIGNMENTS = """
timezone = "Europe/Warsaw"

[[assignment]]
id = "week1"
title = "Week 1"
chapters = ["text"]
due = 2026-10-12T23:59:59
seed = 8231

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
due = 2026-10-19T23:59:59
"""
POLICY = """
timezone = "Europe/Warsaw"
[late]
per_day = 10

[[due]]
at = 2026-10-01T12:00:00

[[extension]]
student = "ada"
by = "2 days"
exercises = ["running_mean"]
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PLAIN / "solutions", tmp_path / "class" / "ada")
    (tmp_path / "course/exercises/assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    return tmp_path / "course"


def grade(course: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_grade(*arguments, cwd=course)


def graded(results: Path) -> dict[str, float]:
    with Gradebook.open(results) as book:
        (entry,) = book.entries()
        assert set(book.seeds()) == {entry.result.seed}
    return {exercise.name: exercise.score for exercise in entry.result.exercises}


def test_a_gradebook_remembers_its_assignment(course: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    batch = ("batch", tmp_path / "class", "-o", results)
    late = ("--times", "2026-10-13 12:00")
    (course / "exercises/policy.toml").write_text(POLICY, encoding="utf-8")
    done = grade(course, *batch, "--assignment", "week1", *late)
    assert done.returncode == 0, done.stderr
    # The seed is used but not shown.
    assert "Judging with the seed of the assignment week1. Choose" in done.stderr
    assert "8231" not in done.stderr + done.stdout
    assert graded(results) == {"word_count": 9.0, "greeting": 2.25}
    with Gradebook.open(results) as book:
        assert book.seeds() == (8231,)
        assert book.facts.title == "Plain Python and NumPy: Week 1"
    for command in (batch, ("regrade", results)):
        done = grade(course, *command)
        assert done.returncode == 0, done.stderr
        assert "running_mean" not in done.stdout + done.stderr
        assert graded(results) == {"word_count": 9.0, "greeting": 2.25}
    for other in (("--assignment", "week2"), ("--exercise", "running_mean")):
        done = grade(course, *batch, *other)
        assert done.returncode == 2
        assert "is the gradebook of the assignment week1" in done.stderr


def test_outputs_of_a_whole_course_can_be_limited_to_an_assignment(
    course: Path, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN / "solutions", tmp_path / "class" / "bob")
    results, here = str(tmp_path / "results"), ("--assignment", "week1")
    grade(course, "batch", tmp_path / "class", "-o", results)
    assert grade(course, "similar", results).returncode == 0
    done = grade(course, "export", results, "--format", "csv", *here)
    assert done.returncode == 0, done.stderr
    header, ada, _ = done.stdout.splitlines()
    assert "text/word_count,text/greeting,total" in header
    assert ",10,2.5,12.5,12.5," in ada
    done = grade(course, "report", results, "-o", tmp_path / "report", *here)
    assert done.returncode == 0, done.stderr
    pages = [path.read_text("utf-8") for path in (tmp_path / "report").rglob("*.html")]
    assert "Plain Python and NumPy: Week 1" in pages[0]
    assert not any("running_mean" in page for page in pages)
    for command in ("similar", "policy"):
        done = grade(course, command, results, *here)
        assert done.returncode == 0, done.stderr
        assert "running_mean" not in done.stdout
    done = grade(course, "report", results, "-o", tmp_path / "report", "--assignment", "wek1")
    assert "knows no assignment 'wek1'. Did you mean 'week1'" in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


def test_results_of_a_whole_course_can_be_narrowed_to_an_assignment(
    course: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    grade(course, "batch", tmp_path / "class", "-o", results)
    assert set(graded(results)) == {"word_count", "greeting", "running_mean"}
    done = grade(course, "regrade", results, "--assignment", "week2")
    assert done.returncode == 0, done.stderr
    assert "0 exercises judged" in done.stdout
    assert graded(results) == {"running_mean": 7.5}
    unknown = grade(
        course, "batch", tmp_path / "class", "-o", tmp_path / "n", "--assignment", "wek1"
    )
    assert "There is no assignment 'wek1'. Did you mean 'week1'" in unknown.stderr
    assert not (tmp_path / "n").exists()


def test_an_assignment_has_its_part_of_the_policy(course: Path) -> None:
    (course / "exercises/policy.toml").write_text(POLICY, encoding="utf-8")
    home = load_course(course)
    week1 = policy_of(home.assigned("week1")) or Rules()
    assert [due.at.day for due in week1.due] == [12] and week1.late.per_day == 10
    assert not week1.extension, "the extension is for an exercise of another assignment"
    week2 = policy_of(home.assigned("week2")) or Rules()
    assert [extension.student for extension in week2.extension] == ["ada"]
    file = course / "exercises/assignments.toml"
    own = '[assignment.policy]\nattempts = "best"\nlate = {per_day = 20}\n'
    file.write_text(ASSIGNMENTS + own, encoding="utf-8")
    week2 = policy_of(load_course(course).assigned("week2")) or Rules()
    assert (week2.attempts.value, week2.late.per_day) == ("best", 20)
    file.write_text(ASSIGNMENTS + own.replace("best", "first"), encoding="utf-8")
    with pytest.raises(PolicyError, match=r"the policy of the assignment week2: `attempts`"):
        policy_of(load_course(course).assigned("week2"))
    file.write_text(f'{ASSIGNMENTS}{own}keep = "1 year"\n', encoding="utf-8")
    with pytest.raises(PolicyError, match="week2: `keep` is for the whole class"):
        policy_of(load_course(course).assigned("week2"))
    file.write_text(ASSIGNMENTS.replace("Warsaw", "London"), encoding="utf-8")
    with pytest.raises(
        PolicyError, match=r"policy.toml has the time zone 'Europe/Warsaw', and ass"
    ):
        policy_of(load_course(course).assigned("week2"))


@pytest.fixture
def invoke(course: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a command in this process, in the folder of the course."""
    monkeypatch.chdir(course)
    return lambda *arguments: CliRunner().invoke(main, [*map(str, arguments)])


RULES = """
timezone = "Europe/Warsaw"
[late]
per_day = 10
[[extension]]
student = "zoe"
by = "2 days"
"""


def test_a_named_policy_is_combined_with_the_assignment_and_can_be_reset(
    course: Path, tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy works the same beside course.toml and elsewhere, and a named one can be replaced again."""
    results, beside = tmp_path / "results", course / "exercises/policy.toml"
    # It has rules for lateness without a due time, and an extension for a student who is not in this gradebook.
    beside.write_text(RULES, encoding="utf-8")
    late = ("--times", "2026-10-13 12:00")
    batch = ("batch", tmp_path / "class", "-o", results, *late)
    assert invoke(*batch, "--assignment", "week1").exit_code == 0
    assert sum(graded(results).values()) == 11.25
    other = tmp_path / "other.toml"
    other.write_text(
        RULES.replace("per_day = 10", "per_day = 40")
        + '[[due]]\nexercises = ["running_mean"]\nat = 2026-10-01T12:00:00\n',
        encoding="utf-8",
    )
    done = invoke("policy", results, "--file", other)
    assert done.exit_code == 0, done.output
    assert "Due 2026-10-12 23:59:59 CEST" in done.stdout
    assert "names 'zoe', and no student here has that id" in done.stderr
    assert sum(graded(results).values()) == 7.5
    # The due time is still that of the assignment, also in the next grading.
    file = course / "exercises/assignments.toml"
    file.write_text(ASSIGNMENTS.replace("10-12", "10-14"), encoding="utf-8")
    assert invoke(*batch).exit_code == 0
    assert sum(graded(results).values()) == 12.5
    file.write_text(ASSIGNMENTS, encoding="utf-8")
    for back in (("--file", beside), ("--reset",)):
        assert invoke(*batch, "--policy", other).exit_code == 0
        assert sum(graded(results).values()) == 7.5
        assert "--reset goes back" in invoke("policy", results).stderr
        done = invoke("policy", results, *back)
        assert done.exit_code == 0, done.output
        assert sum(graded(results).values()) == 11.25
    beside.unlink()
    assert "Due 2026-10-12 23:59:59 CEST" in invoke("policy", results, "--reset").stdout
    assert sum(graded(results).values()) == 12.5
    monkeypatch.chdir(tmp_path)
    elsewhere = invoke("policy", results, "--reset")
    assert elsewhere.exit_code == 2
    assert "No course found" in elsewhere.stderr and "--course" in elsewhere.stderr


def test_in_a_gradebook_of_the_whole_course_each_assignment_has_its_due_time(
    course: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    results, beside = tmp_path / "results", course / "exercises/policy.toml"
    beside.write_text(POLICY.replace('"ada"', '"zoe"'), encoding="utf-8")
    invoke("batch", tmp_path / "class", "-o", results, "--times", "2026-10-13 11:00")
    before = graded(results)
    assert before == {"word_count": 9.0, "greeting": 2.25, "running_mean": 7.5}
    with Gradebook.open(results) as book:
        assert book.seeds() == (8231,)
    other = tmp_path / "other.toml"
    other.write_text("", encoding="utf-8")
    for back in (("--file", beside), ("--reset",)):
        assert invoke("policy", results, "--file", other).exit_code == 0
        assert sum(graded(results).values()) == 20
        done = invoke("policy", results, *back)
        assert done.exit_code == 0, done.output
        assert graded(results) == before
    both = invoke("policy", results, "--reset", "--file", other)
    assert "Only one of --file, --reset, --explain and --toml at a time." in both.stderr


def test_an_assignment_without_rules_has_an_empty_policy(course: Path) -> None:
    text = ASSIGNMENTS.replace("due = 2026-10-19T23:59:59\n", "")
    (course / "exercises/assignments.toml").write_text(text, encoding="utf-8")
    assert policy_of(load_course(course).assigned("week2")) == Rules()


def test_a_submission_of_one_team_member_counts_for_all(course: Path, tmp_path: Path) -> None:
    file = course / "exercises/assignments.toml"
    file.write_text(
        ASSIGNMENTS.replace("[[assignment]]", "[[assignment]]\nteams = true", 1), "utf-8"
    )
    roster = tmp_path / "class.csv"
    roster.write_text("id,team\nada,red\nbob,red\ncem,blue\n", encoding="utf-8")
    (course / "exercises/policy.toml").write_text(
        'timezone = "Europe/Warsaw"\n[late]\nper_day = 10\n[[extension]]\nteam = "red"\nby = "1 day"\n',
        encoding="utf-8",
    )
    results = tmp_path / "results"
    batch = ("batch", tmp_path / "class", "-o", results, "--times", "2026-10-13 12:00")
    done = grade(course, *batch, "--assignment", "week1", "--roster", roster)
    assert done.returncode == 0, done.stderr
    assert "2 teams: a submission of one member counts for all of them." in done.stderr
    with Gradebook.open(results) as book:
        totals = {entry.student.id: entry.result.score for entry in book.entries()}
    assert totals == {"ada": 12.5, "bob": 12.5, "cem": 0}
    assert "2 exercises judged" in done.stdout, "no file is judged twice"
    done = grade(course, "similar", results, "--threshold", "50")
    assert "bob" not in done.stdout
    done = grade(course, "policy", results)
    assert "Extension for team red" in done.stdout


class Team(NamedTuple):
    """A course with a team assignment and an individual one, and the gradebook of the whole course."""

    course: Path
    folder: Path
    results: Path

    def hand_in(self, who: str, *solved: str, download: str = "class", **other: str) -> None:
        """Hand in the whole course as a folder: `solved` exercises, `other` sources, and stubs for the rest."""
        for path in (self.course / "exercises").glob("*/*.py"):
            source = self.course / "solutions" / path.parent.name / path.name
            text = (source if path.stem in solved else path).read_text(encoding="utf-8")
            file = self.folder / download / who / path.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(other.get(path.stem, text), encoding="utf-8")

    def batch(self, roster: str, *options: str, download: str = "class") -> str:
        """Grade the course with this class list and return the notes."""
        file = self.folder / "class.csv"
        file.write_text(f"id,team\n{roster}", encoding="utf-8")
        batch = ("batch", self.folder / download, "-o", self.results, "--roster", file)
        done = grade(self.course, *batch, *options)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def points(self) -> dict[str, tuple[float, ...]]:
        """Return everyone's points for the two exercises of the team and for the other one."""
        names = ("word_count", "greeting", "running_mean")
        with Gradebook.open(self.results) as book:
            by_name = {
                entry.student.id: {each.name: each.score for each in entry.result.exercises}
                for entry in book.entries()
            }
        return {who: tuple(scores[name] for name in names) for who, scores in by_name.items()}

    def attempts(self) -> dict[str, int]:
        with Gradebook.open(self.results) as book:
            return dict(book.attempt_counts())


@pytest.fixture
def team(course: Path, tmp_path: Path) -> Team:
    text = ASSIGNMENTS.replace("[[assignment]]", "[[assignment]]\nteams = true", 1)
    (course / "exercises/assignments.toml").write_text(text, "utf-8")
    shutil.rmtree(tmp_path / "class")
    return Team(course, tmp_path, tmp_path / "results")


RED = "ada,red\nbob,red\ncem,blue\ndan,\n"


@pytest.mark.parametrize("times", [(), ("--times", "2026-10-12 12:00")])
def test_in_a_whole_course_a_team_shares_the_files_of_its_assignments(
    team: Team, times: tuple[str, ...]
) -> None:
    """Members who hand in the whole course do not undo the work of their team."""
    team.hand_in("ada", "word_count", "running_mean")
    stub = (team.course / "exercises/text/word_count.py").read_text("utf-8")
    team.hand_in("bob", "greeting", word_count=f"# Ada does this one.\n{stub}")
    team.hand_in("dan", "greeting")
    notes = team.batch(RED, *times)
    assert "2 teams: a file of one member for week1 counts for all of them." in notes
    assert "Without a team: dan." in notes
    points = {"ada": (10, 2.5, 7.5), "bob": (10, 2.5, 0), "cem": (0, 0, 0), "dan": (0, 2.5, 0)}
    assert team.points() == points
    assert team.attempts() == {"ada": 2, "bob": 2, "dan": 1}
    # Grade again, also without the class list, as the gradebook knows the teams.
    team.batch(RED, *times)
    assert (team.points(), team.attempts()) == (points, {"ada": 2, "bob": 2, "dan": 1})
    again = grade(team.course, "batch", team.folder / "class", "-o", team.results, *times)
    assert "0 exercises judged" in again.stdout
    assert (team.points(), team.attempts()) == (points, {"ada": 2, "bob": 2, "dan": 1})
    with Gradebook.open(team.results) as book:
        assert not book.attention(), "a stub of a member takes no work away"


def test_in_a_whole_course_a_team_folder_counts_for_its_members(team: Team) -> None:
    """It counts only in team exercises. An unreadable file is listed."""
    team.hand_in("red", "word_count", "running_mean")
    team.hand_in("dan", "greeting")
    greeting = team.folder / "class/red/greeting.py"
    greeting.unlink()
    greeting.symlink_to(team.folder / "nowhere.py")
    notes = team.batch(RED)
    assert "Named after a team: red. Only the files for week1 count, for every member." in notes
    assert team.points() == {
        "ada": (10, 0, 0),
        "bob": (10, 0, 0),
        "cem": (0, 0, 0),
        "dan": (0, 2.5, 0),
    }
    with Gradebook.open(team.results) as book:
        assert {(e.student, e.exercises) for e in book.attention()} == {
            ("ada", ("greeting",)),
            ("bob", ("greeting",)),
        }


def test_a_team_folder_does_not_hide_problems_of_a_members_own_files(team: Team) -> None:
    essay = team.folder / "class/ada/essay.docx"
    essay.parent.mkdir(parents=True)
    essay.write_bytes(b"PK")
    team.hand_in("red", "word_count")
    team.batch(RED)
    with Gradebook.open(team.results) as book:
        assert [(e.student, e.kind) for e in book.attention()] == [("ada", Reason.UNREADABLE)]


def test_a_member_without_a_submission_has_the_files_of_the_team(team: Team) -> None:
    team.hand_in("ada", "word_count", "running_mean")
    team.batch("ada,red\nbob,red\n")
    assert team.points() == {"ada": (10, 0, 7.5), "bob": (10, 0, 0)}
    # The second download has nothing for the team, so bob gets no new attempt.
    team.hand_in("ada", "running_mean", download="second")
    team.batch("ada,red\nbob,red\n", download="second")
    assert team.points() == {"ada": (10, 0, 7.5), "bob": (10, 0, 0)}
    assert team.attempts() == {"ada": 2, "bob": 1}


def test_a_student_who_changes_teams_keeps_earlier_files_and_is_noted(team: Team) -> None:
    team.hand_in("ada", "word_count")
    team.hand_in("bob")
    team.hand_in("cem", "greeting")
    team.batch(RED)
    before = team.points()
    assert (before["bob"], before["cem"]) == ((10, 0, 0), (0, 2.5, 0))
    notes = team.batch("ada,red\nbob,blue\ncem,blue\ndan,\n")
    assert "In a different team from before: bob." in notes
    assert team.points() == before | {"bob": (10, 2.5, 0)}


def test_adding_teams_later_corrects_points_with_the_next_batch(team: Team) -> None:
    file = team.course / "exercises/assignments.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace("teams = true", ""), "utf-8")
    team.hand_in("ada", "word_count", "running_mean")
    team.hand_in("bob", "running_mean")
    team.batch(RED)
    assert team.points()["bob"] == (0, 0, 7.5)
    file.write_text(text, "utf-8")
    team.batch(RED)
    assert team.points()["bob"] == (10, 0, 7.5)
    assert grade(team.course, "regrade", team.results).returncode == 0
    assert team.points()["bob"] == (10, 0, 7.5)


def test_equal_files_of_members_are_separate_attempts_and_a_later_stub_is_none(
    team: Team,
) -> None:
    team.hand_in("ada", "word_count", "running_mean")
    team.hand_in("bob", "word_count")
    team.batch(RED)
    assert team.attempts() == {"ada": 2, "bob": 2}
    other = "def word_count(text):\n    return {}\n"
    team.hand_in("ada", "running_mean", word_count=other, download="second")
    team.batch(RED, download="second")
    points = team.points()
    assert points["ada"][0] == points["bob"][0] < 10, "the newest counts"
    team.hand_in("bob", download="third")
    team.batch(RED, download="third")
    assert team.points() == points
    with Gradebook.open(team.results) as book:
        assert not book.attention()


def test_entries_for_staff_stay_when_a_team_mate_hands_in(team: Team) -> None:
    """A team mate's file does not settle a problem with the student's own, in this download or a later one."""
    team.hand_in("ada", "running_mean", download="first")
    team.batch(RED, download="first")
    for who in ("ada", "cem"):
        team.hand_in(who)
        folder = team.folder / "class" / who
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "running_mean.py").write_text(f"mean = {name!r}\n", "utf-8")
        (folder / "running_mean.py").unlink()
    team.hand_in("bob", "word_count")
    roster = RED + "eve,blue\n"
    team.batch(roster)

    def seen() -> tuple[set[tuple[str, str]], str]:
        with Gradebook.open(team.results) as book:
            entry = book.entry_of("cem")
            assert entry is not None
            messages = {each.name: each.message for each in entry.result.exercises}
            looks = {(each.student, each.what) for each in book.attention()}
            return looks, messages["running_mean"]

    before = seen()
    assert {who for who, what in before[0] if "There are 2 files" in what} == {"ada", "cem"}
    assert "There are 2 files" in before[1]
    for download, solved in (("third", ()), ("fourth", ("word_count",))):
        for who in ("bob", "eve"):
            team.hand_in(who, *solved, download=download)
        team.batch(roster, download=download)
        assert seen() == before, download
    assert team.points()["cem"] == (10, 0, 0)


def extra_credit(course: Path) -> None:
    """Make `greeting` extra credit."""
    text = ASSIGNMENTS.replace('["text"]', '["text"]\nextra_credit = ["greeting"]')
    (course / "exercises/assignments.toml").write_text(text, encoding="utf-8")


def test_extra_credit_is_extra_in_every_command(course: Path) -> None:
    """`greeting` adds points to week1, and full marks do not need it."""
    extra_credit(course)
    worth = {each.id: each.points for each in load_course(course).exercises}
    needed = worth["word_count"]
    everything = needed + worth["greeting"]
    answers = course.parent / "class" / "ada"
    done = grade(course, "run", "--submission", answers, "--assignment", "week1", "--json", "-")
    result = json.loads(done.stdout)
    assert (result["score"], result["max_score"]) == (everything, needed)
    assert done.returncode == 0
    shown = grade(course, "run", "--submission", answers, "--assignment", "week1").stdout
    assert f"Total: {everything:g} of {needed:g} points" in shown
    assert "greeting for extra credit" in shown
    (answers / "text" / "greeting.py").unlink()
    less = grade(course, "run", "--submission", answers, "--assignment", "week1")
    assert less.returncode == 0, "full marks do not need it"
    alone = grade(course, "run", "word_count", "--submission", answers, "--json", "-")
    assert json.loads(alone.stdout)["max_score"] == needed
    for results, options in (("one", ("--assignment", "week1")), ("whole", ())):
        batch = grade(course, "batch", course.parent / "class", "-o", results, *options)
        assert batch.returncode == 0, batch.stderr
        csv = grade(course, "export", results, "--assignment", "week1", "--format", "csv").stdout
        assert f",{needed:g},{needed:g}," in csv.splitlines()[1], csv


def test_every_output_for_students_marks_extra_credit(
    course: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    extra_credit(course)
    answers = course.parent / "class" / "ada"
    for command in (
        ("run", "--submission", answers, "--assignment", "week1"),
        ("list",),
        ("explain", "greeting"),
        ("explain", "text"),
    ):
        done = invoke(*command)
        assert done.exit_code == 0, done.output
        (line,) = [line for line in done.stdout.splitlines() if "extra credit" in line][:1]
        assert "word_count" not in line, command
    assert "extra credit" not in invoke("explain", "word_count").stdout
    results = tmp_path / "results"
    assert invoke("batch", course.parent / "class", "-o", results, "--assignment", "week1")
    assert invoke("report", results, "-o", tmp_path / "report").exit_code == 0
    for page in ("students/ada.html", "staff/students/ada.html"):
        text = (tmp_path / "report" / page).read_text("utf-8")
        # It is mentioned at the total, the chapter and the exercise.
        assert text.count("with 2.5 of extra credit") == 2
        assert text.count("extra credit") == 3
    index = (tmp_path / "report" / "staff" / "index.html").read_text("utf-8")
    assert 'title="12.5 points, with 2.5 of extra credit"' in index
    assert "12.5 of 10 points, with 2.5 of extra credit" in invoke("show", results, "ada").stdout
    released = _readme(load_course(course), Tier.PUBLIC, "lab-bench", 0)
    assert [line for line in released.splitlines() if "extra credit" in line] == [
        line for line in released.splitlines() if "text/greeting.py" in line
    ]


@pytest.mark.thorough
def test_extra_credit_has_a_maximum_of_0_at_gradescope(course: Path) -> None:
    extra_credit(course)
    grade(course, "batch", course.parent / "class", "-o", "one", "--assignment", "week1")
    done = grade(course, "export", "one", "--format", "gradescope", "-o", "out")
    assert done.returncode == 0, done.stderr
    (file,) = (course / "out").rglob("*.json")
    tests = json.loads(file.read_bytes())["tests"]
    extra = [test for test in tests if test["name"].startswith("greeting")]
    others = [test for test in tests if not test["name"].startswith("greeting")]
    assert extra and {test["max_score"] for test in extra} == {0}
    package = grade(course, "package", "gradescope", "-o", "week1.zip", "--assignment", "week1")
    assert package.returncode == 0, package.stderr
    with zipfile.ZipFile(course / "week1.zip") as archive:
        archive.extract("course.pack", course / "unzipped")
    assert load_course(course / "unzipped" / "course.pack").extra_credit == {"greeting"}
    judged = grade(
        course, "run", "--course", "unzipped/course.pack", "--json", "-",
        "--submission", course.parent / "class" / "ada",
    )  # fmt: skip
    result = json.loads(judged.stdout)
    assert (
        result["score"] > result["max_score"] == load_course(course).exercise("word_count").points
    )
    assert sum(test["score"] for test in extra) == load_course(course).exercise("greeting").points
    assert (
        sum(test["max_score"] for test in others)
        == load_course(course).exercise("word_count").points
    )
