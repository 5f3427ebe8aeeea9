"""Teams: a member's file is an attempt of all members and is judged once."""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.course.manifest import Course, load_course
from grader.gradebook import Gradebook, adjusting, queue
from grader.gradebook.extending import state_of
from grader.gradebook.facts import Remarks
from grader.gradebook.marking import read_rubric, rubric_of
from grader.gradebook.personal import erase, kept_about
from grader.gradebook.tokens import Role
from grader.gradebook.verdicts import Questions
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Entry, Outcome, StudentInfo
from grader.serve.desk import Desk
from grader.serve.hand_in import HandInReader
from grader.serve.http import Refusal
from grader.serve.roles import Asker
from grader.serve.staff import files_to_mark, mark_view, student_view
from grader.serve.teams import Teams
from grader.serve.views import Views
from tests.grader.builders import checked, exercise
from tests.grader.serve.conftest import SOLUTION, Served, in_json, marked
from tests.grader.serve.test_staff import HELD, change, page, seen
from tests.grader.serve.test_term import COUNTING, DAY, NOW, assignment, term, term_course

TEAMS = {"ada": "red", "bob": "red", "eve": ""}
TEAM = "teams = true"
PROJECT = assignment("project", ["greeting"], due=NOW + DAY, more=TEAM)
SECTION = {"team": "red", "section": "A"}
ALONE = assignment("week1", ["word_count"])
STAFF = Asker(Role.INSTRUCTOR, name="prof")


class Class:
    """A desk for a class with teams, and views of the same gradebook."""

    def __init__(
        self,
        book: Gradebook,
        course: Course,
        teams: dict[str, str],
        options: GradingOptions = GradingOptions(),  # noqa: B008 (it cannot change)
    ) -> None:
        self.book, self.course, self.options = book, course, options
        self.students = {
            name: StudentInfo(id=name, name=name.title(), ids={"team": team} if team else {})
            for name, team in teams.items()
        }
        people = [*self.students.values()]
        self.desk = Desk(book, course, options, Questions(course, options), people)
        self.desk.open()
        self.views = Views(book, course, people)

    def hand_in(self, who: str, **files: bytes) -> queue.Submission:
        reader = HandInReader(self.course, Questions(self.course, self.options))
        body = in_json({f"{name}.py": source for name, source in files.items()})
        student = self.students[who]
        return self.desk.accept(
            student, reader.read(student, body), secrets.token_hex(8)
        ).submission

    def judge(self, outcome: Outcome = Outcome.PASSED) -> list[tuple[str, str]]:
        """Judge all waiting files and return the student and exercise of each."""
        judged = []
        while (taken := self.desk.take()) is not None:
            judged.append((taken.job.student, taken.job.exercise))
            result = exercise(checked(outcome=outcome), name=taken.job.exercise)
            assert self.desk.finish(taken, Judgment(result, ()))
        return judged

    def attempts(self, who: str, name: str = "greeting") -> int:
        standing = self.views.standing(self.students[who], {})
        return next(each.attempts for each in standing.exercises if each.name == name)

    def status(self, who: str, name: str = "greeting") -> str:
        standing = self.views.standing(self.students[who], {})
        return next(each.status for each in standing.exercises if each.name == name)


@pytest.fixture
def class_of(tmp_path: Path) -> Callable[..., contextlib.AbstractContextManager[Class]]:
    """Open the class of one gradebook, several times if needed, with other teams."""

    @contextlib.contextmanager
    def opened(teams: dict[str, str] = TEAMS, policy: str = "") -> Iterator[Class]:
        folder = tmp_path / "course"
        if not folder.exists():
            term_course(folder, PROJECT, ALONE, policy=policy)
        with Gradebook.open_to_write(tmp_path / "results") as book:
            yield Class(book, load_course(folder), teams)

    return opened


ClassOf = Callable[..., contextlib.AbstractContextManager[Class]]


def test_teams_come_from_the_class_list_and_team_exercises_from_assignments(tmp_path: Path) -> None:
    course = load_course(term_course(tmp_path / "course", PROJECT, ALONE))
    names = {"eve": "", "dan": "blue", "cem": "red", "ada": "red", "bob": "red"}
    teams = Teams(
        course, [StudentInfo(id=name, ids={"team": team}) for name, team in names.items()]
    )
    assert [mate.id for mate in teams.mates("bob")] == ["ada", "cem"]
    # eve has no team, dan is alone in his, and zoe is not in the list.
    assert [teams.mates(name) for name in ("eve", "dan", "zoe")] == [[], [], []]
    handed_in_once = [e.id for e in course.exercises if teams.hands_in(e.id)]
    assert handed_in_once == ["greeting"]


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.TIMEOUT])
def test_a_members_file_is_an_attempt_of_all_and_judged_once(
    class_of: ClassOf, outcome: Outcome
) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        assert there.desk.urgent() == 2
        assert "greeting" in queue.open_exercises(there.book, "bob")
        # A time-out is not reused for equal files of others, but counts for the whole team.
        assert there.judge(outcome=outcome) == [("ada", "greeting"), ("ada", "word_count")]
        assert there.status("ada") == there.status("bob") != "not_attempted"
        assert there.attempts("bob", "word_count") == 0
        assert there.attempts("eve") == 0
        # Staff sees one line. The verdict is in the result files of both members.
        assert [each.student for each in there.views.newest(STAFF)] == ["ada"]
        assert all((there.book.folder / f"results/{n}.json").is_file() for n in ("ada", "bob"))


def test_pages_name_mates_and_who_submitted(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        own, mate, alone = (there.views.standing(there.students[n], {}) for n in TEAMS)
        assert [given.mates for given in mate.assignments] == [("Ada",), ()]
        assert (alone.assignments[0].teams, alone.assignments[0].mates) == (True, ())
        by = {each.name: each.handed_in_by for each in mate.exercises}
        assert by == {"greeting": "Ada", "word_count": "", "running_mean": ""}
        assert not any(each.handed_in_by for each in own.exercises)
        draft = there.views.draft(there.students["bob"], there.course.exercise("greeting"))
        assert [(each.number, each.by) for each in draft.versions] == [(0, "Ada")]
        about = there.views.about(there.students["bob"], ["greeting"])
        assert about["greeting"].endswith("also for Ada")
        view = student_view(there.book, STAFF, "bob")
        assert view is not None
        rows = {part.result.name: part.attempts for part in view.exercises}
        assert [row.by for row in rows["greeting"]] == ["ada"]
        there.book.keep_student(msgspec.structs.replace(there.students["bob"], ids=SECTION))
        some = student_view(there.book, Asker(Role.ASSISTANT, name="kim", sections=("A",)), "bob")
        assert some is not None
        by_others = [row.by for part in some.exercises for row in part.attempts]
        assert by_others == ["a member in another section"]


def test_limits_count_for_the_team(class_of: ClassOf) -> None:
    with class_of(policy='cool_down = "1 hour"\n') as there:
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        with pytest.raises(Refusal, match="a moment ago"):
            there.hand_in("bob", greeting=marked(2))
        there.hand_in("bob", word_count=COUNTING)
        there.hand_in("eve", greeting=marked(3))


def test_the_longest_wait_of_the_members_holds(
    class_of: ClassOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The members submitted at different times, before they were a team."""
    start = NOW.timestamp()
    with class_of({"ada": "", "bob": ""}, policy='cool_down = "1 hour"\n') as there:
        for who, at in (("bob", start), ("ada", start + 3000)):
            monkeypatch.setattr(there.desk, "_clock", lambda at=at: at)
            there.hand_in(who, greeting=marked(1))
    with class_of() as there:
        monkeypatch.setattr(there.desk, "_clock", lambda: start + 3100)
        with pytest.raises(Refusal, match="wait 3500 seconds"):
            there.hand_in("ada", greeting=marked(2))


def test_a_students_page_reads_the_results_once(
    class_of: ClassOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with class_of() as there:
        read: list[str] = []

        def entry_of(student: str) -> Entry | None:
            read.append(student)
            return Gradebook.entry_of(there.book, student)

        monkeypatch.setattr(there.book, "entry_of", entry_of)
        standing, entry = there.views.home(there.students["ada"], {})
        assert entry is not None and standing.term is not None
        assert read == ["ada"]


def test_a_members_newer_file_replaces_a_waiting_one(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        there.hand_in("bob", greeting=marked(2))
        there.hand_in("ada", greeting=marked(3))
        assert len(there.judge()) == 1
        assert [there.attempts(name) for name in TEAMS] == [3, 3, 0]


def test_a_members_stub_replaces_no_work_of_the_team(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        stub = there.course.stub(there.course.exercise("greeting")).source
        there.hand_in("bob", greeting=stub)
        assert there.judge() == [("ada", "greeting")]
        assert there.status("ada") == there.status("bob") == "passed"
        assert not there.book.attention()


def test_equal_files_of_two_members_in_one_second_are_both_done(
    class_of: ClassOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with class_of() as there:
        monkeypatch.setattr(there.desk, "_clock", lambda: 1_800_000_000.0)
        first = there.hand_in("ada", greeting=marked(1))
        second = there.hand_in("bob", greeting=marked(1))
        assert len(there.judge()) == 1
        for handed in (first, second):
            answer = there.views.submission(handed, there.desk.places())
            assert answer.state.value == "done" and answer.result is not None


def test_a_fault_of_the_grader_concerns_all_members(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        ended: list[int] = []
        while (taken := there.desk.take()) is not None:
            ended = there.desk.finish(taken, JudgeFault("no sandbox"))
        assert len(ended) == 2
        assert there.status("ada") == there.status("bob") == "unjudged"


def test_mates_have_the_same_place_in_the_queue(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("eve", greeting=marked(1))
        there.hand_in("ada", greeting=marked(2))
        places = there.desk.places()
        assert sorted(places.values()) == [1, 2, 2]
        assert queue.counts(there.book).waiting == 2


def test_joining_adds_later_files_and_leaving_keeps_earlier_ones(
    class_of: ClassOf,
) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        there.judge()
    with class_of({"ada": "red", "bob": "", "eve": "red"}) as there:
        assert [there.attempts(name) for name in TEAMS] == [1, 1, 0]
        kept = {student.id: student.ids.get("team") for student in there.book.students()}
        assert kept == {"ada": "red", "bob": None, "eve": "red"}
        there.hand_in("ada", greeting=marked(2))
        there.hand_in("bob", greeting=marked(3))
        assert len(there.judge()) == 2
        assert [there.attempts(name) for name in TEAMS] == [2, 2, 1]


def test_a_regrade_judges_a_teams_file_once(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        there.judge(outcome=Outcome.FAILED)
        connection = there.book.tables.connection
        connection.execute("UPDATE grades SET key = 'of another suite' WHERE key != ''")
        exercises = there.course.select(["greeting"])
        assert sum(there.desk.regrade(name, exercises) for name in ("ada", "bob")) == 2
        assert len(there.judge()) == 1
        assert there.status("ada") == there.status("bob") == "passed"


def test_a_teams_file_does_not_count_for_a_member_whose_exam_has_ended(tmp_path: Path) -> None:
    hour = datetime.timedelta(hours=1)
    more = "teams = true\nexam = {}"
    exam = assignment("midterm", ["greeting"], NOW - 2 * hour, NOW - hour, more)
    folder = term_course(tmp_path / "course", exam, assignment("lab", ["word_count"], more=TEAM))
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), TEAMS)
        seen = state_of(book, there.students["ada"])
        until = NOW + hour
        there.desk.staff.extend(STAFF, "ada", "greeting", seen, until=until, reason="extra time")
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        there.judge()
        assert [there.attempts("ada", name) for name in ("greeting", "word_count")] == [1, 1]
        assert [there.attempts("bob", name) for name in ("greeting", "word_count")] == [0, 1]
        about = there.views.about(there.students["ada"], ["greeting", "word_count"])
        assert ["also for Bob" in text for text in about.values()] == [False, True]
        with pytest.raises(Refusal, match="The exam ended"):
            there.hand_in("bob", greeting=marked(2))


def test_a_teams_file_is_marked_once(class_of: ClassOf) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        there.hand_in("bob", word_count=COUNTING)
        there.judge()
        # Equal files that each member submitted alone are two entries.
        assert len(files_to_mark(there.book, STAFF, "word_count", anonymous=False)) == 2
        (file,) = files_to_mark(there.book, STAFF, "greeting", anonymous=False)
        view = mark_view(there.book, STAFF, "greeting", file.name)
        assert view is not None and file.waiting
        rubric = read_rubric(rubric_of(there.course, there.course.exercise("greeting")), 2.5)
        keys = tuple(item.key for item in rubric.item)
        # An assistant who reaches only one member can neither read nor mark the file.
        there.book.keep_student(msgspec.structs.replace(there.students["ada"], ids=SECTION))
        some = Asker(Role.ASSISTANT, name="kim", sections=("A",))
        assert files_to_mark(there.book, some, "greeting", anonymous=False) == []
        assert mark_view(there.book, some, "greeting", file.name) is None
        sent = rubric, "greeting", file.name, view.seen, Remarks(keys)
        with pytest.raises(Refusal, match="no such student"):
            there.desk.staff.mark(some, *sent)
        there.desk.staff.mark(STAFF, *sent)
        assert [made.student for made in there.book.corrections()] == ["ada", "bob"]
        assert not any(
            each.waiting for each in files_to_mark(there.book, STAFF, "greeting", anonymous=False)
        )


def test_a_release_counts_for_all_members_in_reach(
    class_of: ClassOf,
) -> None:
    with class_of({**TEAMS, "cem": "red", "dan": "red"}) as there:
        book, desk = there.book, there.desk
        there.hand_in("ada", greeting=HELD, word_count=HELD)
        there.hand_in("bob", word_count=HELD)
        there.hand_in("eve", greeting=HELD)
        there.judge()
        book.keep_student(msgspec.structs.replace(there.students["ada"], ids=SECTION))
        book.keep_student(msgspec.structs.replace(there.students["bob"], ids=SECTION))

        def held(name: str) -> list[str]:
            return [
                entry.student.id
                for entry in book.entries()
                for each in entry.result.exercises
                if each.name == name and each.held
            ]

        def release(asker: Asker, who: str, name: str = "greeting", **more: str) -> list[str]:
            seen = adjusting.state_of(book, who, name)
            return desk.staff.adjust(asker, who, name, seen, release=True, reason="fine", **more)

        everyone = ["ada", "bob", "cem", "dan", "eve"]
        assert (held("greeting"), held("word_count")) == (everyone, ["ada", "bob"])
        some = Asker(Role.ASSISTANT, name="kim", sections=("A",))
        assert release(some, "ada", comment="See me.") == ["bob"]
        assert held("greeting") == ["cem", "dan", "eve"], "cem and dan are in no section of kim"
        assert [(c.student, c.comment) for c in book.corrections()] == [
            ("ada", "See me."),
            ("bob", ""),
        ]
        assert release(STAFF, "cem") == ["dan"]
        assert held("greeting") == ["eve"], "eve has an equal file, but is not in the team"
        assert release(STAFF, "ada", "word_count") == []
        assert held("word_count") == ["bob"], "a file submitted alone is released alone"


@pytest.mark.parametrize("who", ["ada", "bob"])
def test_erasing_one_member_leaves_the_others(class_of: ClassOf, who: str) -> None:
    with class_of() as there:
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        assert "shared" in kept_about(there.book, who).rows
        erase(there.book, who)
        assert kept_about(there.book, who).rows == {}
        (other,) = {"ada", "bob"} - {who}
        assert there.attempts(other) == 1 and there.status(other) == "passed"


def test_a_team_submits_once_on_a_running_server(
    serving: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = {"ada": "A", "bob": "B"}
    roster = "id,name,email,team,section\n" + "".join(
        f"{name},{name.title()},{name}@example.org,{team},{sections.get(name, '')}\n"
        for name, team in TEAMS.items()
    )
    served = term(serving, PROJECT, ALONE, roster=roster)
    assert "Without a team, so they hand in alone: eve." in served.log.read_text()
    home = served.ask("GET", "/", "bob").body.decode()
    assert "You hand in together with <bdi>Ada</bdi>" in home
    assert "You have no team, so you hand in alone" in served.ask("GET", "/", "eve").body.decode()
    taken = served.hand_in("ada", {"greeting.py": SOLUTION})
    assert taken.json["about"]["greeting"].endswith("also for Bob")
    served.judged("ada", taken.json["id"])
    (own,) = served.ask("GET", "/api/standing", "bob").json["submissions"]
    assert served.judged("bob", own["id"])["result"]["score"] == 2.5
    home = served.ask("GET", "/", "bob").body.decode()
    assert "handed in by <bdi>Ada</bdi>" in home
    assert (
        "Handed in last by <bdi>Ada</bdi>"
        in served.ask("GET", "/exercise/greeting", "bob").body.decode()
    )
    assert "by <bdi>ada</bdi>" in served.ask("GET", "/class/students/bob", "staff").body.decode()
    # A file of two sections is for instructors to mark. The assistant's page says so.
    for who, shown, told in (("staff", True, False), ("assistant", False, True)):
        marking = served.ask("GET", "/class/mark/greeting", who).body.decode()
        assert ("1 of 1 file left" in marking) == ("Ada" in marking) == shown, who
        assert ("Instructors mark the others." in marking) == told, who
    reason = {"reason": "it only measures the memory"}

    def hold(source: bytes) -> str:
        served.judged("ada", served.hand_in("ada", {"greeting.py": source}).json["id"])
        shown = page(served, "ada")
        assert "A release counts for <bdi>bob</bdi>, too." in shown
        return seen(shown)

    state = hold(HELD)
    assert change(served, "ada", "staff", state, do="release", **reason).status == 303
    assert "These points are held" not in page(served, "bob")
    hold(HELD + b"# other\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here, run = f"http://127.0.0.1:{served.port}", CliRunner().invoke
    login = run(main, ["login", here], input=f"{served.tokens['owner']}\n")
    assert login.exit_code == 0, login.output
    words = ["ada", "greeting", "--release", "--reason", reason["reason"]]
    done = run(main, ["adjust", "--server", here, *words])
    assert "ada (Ada) greeting: released, also for bob" in done.output, done.output
    assert "These points are held" not in page(served, "bob")
