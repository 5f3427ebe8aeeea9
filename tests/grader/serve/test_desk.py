"""The desk without a server: extensions, retries, rate limits, drafts, and what each role sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.course.manifest import load_course
from grader.gradebook import Gradebook, drafts
from grader.gradebook.extending import state_of
from grader.gradebook.review import Reason, stub_after_work
from grader.gradebook.tokens import Role
from grader.gradebook.verdicts import Questions
from grader.judge.assignment import GradingOptions
from grader.results import Outcome
from grader.serve.hand_in import HandInReader, NotNow, Submission
from grader.serve.http import Refusal
from grader.serve.roles import Asker
from grader.serve.staff import student_view
from tests.grader.serve.conftest import PLAIN, SOLUTION, in_json, marked
from tests.grader.serve.test_teams import STAFF, Class
from tests.grader.serve.test_term import COUNTING, DAY, NOW, assignment, term_course

NOTHING = "Nothing was accepted."


def test_the_seed_of_hidden_tests_is_kept_from_students(tmp_path: Path) -> None:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(PLAIN), {"ada": ""}, GradingOptions(seed=823123))
        handed = there.hand_in("ada", greeting=marked(1))
        there.judge()
        entry, answer = book.entry_of("ada"), there.views.submission(handed, {})
    assert entry is not None and entry.result.seed == 823123
    assert answer.result is not None and answer.result.seed == 0


def test_taking_an_extension_back_judges_the_file_that_counts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer file replaced it, but that one is late without the extension."""
    due = NOW - 2 * DAY
    week = assignment("week1", ["greeting"], due=due)
    folder = term_course(tmp_path / "course", week, policy='[late]\ncloses = "1 hour"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": "", "bob": ""})
        ada = there.students["ada"]
        for student in ("bob", "ada"):
            state = state_of(book, there.students[student])
            there.desk.staff.extend(STAFF, student, "", state, until=NOW, reason="ill")
        for number, at in ((1, due - DAY), (2, due + DAY)):
            monkeypatch.setattr(there.desk, "_clock", at.timestamp)
            there.hand_in("ada", greeting=marked(number))
        # Refused: an assistant of another section, and the number of another student's extension.
        state = state_of(book, ada)
        for asker, number in ((Asker(Role.ASSISTANT, name="kim", sections=("B",)), 0), (STAFF, 1)):
            with pytest.raises(Refusal):
                there.desk.staff.take_extension_back(asker, "ada", state, number)
        assert [each.student for each in book.extensions()] == ["bob", "ada"]
        there.desk.staff.take_extension_back(STAFF, "ada", state, 0)
        assert [each.student for each in book.extensions()] == ["bob"]
        there.judge()
        assert there.status("ada") == "passed"


def test_a_file_that_came_too_late_does_not_say_that_it_counts(tmp_path: Path) -> None:
    week = assignment("week1", ["greeting"], due=NOW - 2 * DAY)
    folder = term_course(tmp_path / "course", week, policy='[late]\ncloses = "1 hour"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        view = student_view(book, STAFF, "ada")
    assert view is not None
    (part,) = (part for part in view.exercises if part.result.name == "greeting")
    (row,) = part.attempts
    assert (row.counts, row.note) == (False, "too late to count")


def test_a_retry_after_the_end_of_an_exam_gets_the_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exam = assignment("midterm", ["greeting"], NOW - DAY, NOW, "exam = {}")
    folder = term_course(tmp_path / "course", exam, assignment("lab", ["word_count"]))
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        ada = there.students["ada"]
        reader = HandInReader(there.course, Questions(there.course, GradingOptions()))
        read = reader.read(ada, in_json({"greeting.py": SOLUTION, "word_count.py": COUNTING}))
        for at in (NOW - DAY / 2, NOW + DAY):
            monkeypatch.setattr(there.desk, "_clock", at.timestamp)
            assert there.desk.accept(ada, read, "key").refused == {}
        assert [*there.desk.accept(ada, read, "another").refused] == ["greeting"]


def test_the_last_file_of_one_second_counts_even_if_it_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right, broken, right again: the newest file is the right one, not the broken one between."""
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(PLAIN), {"ada": ""})
        monkeypatch.setattr(there.desk, "_clock", NOW.timestamp)
        for source, counts in ((SOLUTION, "passed"), (b"x =", "error"), (SOLUTION, "passed")) * 2:
            there.hand_in("ada", greeting=source)
            there.judge()
            assert there.status("ada") == counts
        attempts = len(book.work(there.students["ada"]).attempts)
        there.hand_in("ada", greeting=marked(1))
        there.hand_in("ada", greeting=marked(1))  # a double click is one attempt
        assert len(book.work(there.students["ada"]).attempts) == attempts + 1


def test_an_assistant_sees_only_students_of_their_section(tmp_path: Path) -> None:
    folder = term_course(tmp_path / "course", assignment("week1", ["greeting"]))
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": "", "bob": ""})
        book.keep_student(msgspec.structs.replace(there.students["ada"], ids={"section": "A"}))
        for student in ("ada", "bob"):
            greeting = there.course.exercise("greeting")
            book.replace_attention(student, "greeting", [stub_after_work(student, greeting)])
        some = Asker(Role.ASSISTANT, name="kim", sections=("A",))
        seen = [[each.student for each in there.views.attention(asker)] for asker in (STAFF, some)]
    assert seen == [["ada", "bob"], ["ada"]]


def test_cool_down_and_daily_limit_end_when_the_refusal_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = 'most_submissions = 2\ncool_down = "1 hour"\n'
    folder = term_course(tmp_path / "course", assignment("week1", ["greeting"]), policy=policy)
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there, now = Class(book, load_course(folder), {"ada": ""}), int(NOW.timestamp())

        def told(after: int) -> tuple[str, str]:
            """Submit a file `after` seconds after the first. Return the time to wait and why, if refused."""
            monkeypatch.setattr(there.desk, "_clock", lambda: float(now + after))
            try:
                there.hand_in("ada", greeting=marked(after))
            except Refusal as refused:
                headers = refused.headers or {}
                return headers.get("Retry-After", ""), refused.detail
            return "0", ""

        assert told(0) == ("0", "")
        assert told(3599) == ("1", f"{NOTHING} greeting was handed in a moment ago; wait 1 second.")
        assert told(3600) == ("0", "")
        often = f"{NOTHING} greeting was handed in 2 times within 24 hours, the limit."
        assert told(7200) == ("79200", often)
        assert told(86_399) == ("1", often)
        assert told(86_401) == ("0", "")


def test_if_no_file_is_accepted_all_reasons_and_the_shortest_wait_are_told() -> None:
    read = Submission((), {}, {"one": NotNow("The exam ended.")})
    with pytest.raises(Refusal) as ended:
        read.without({"two": NotNow("The exam ended.")})
    assert (ended.value.status_code, ended.value.detail) == (403, f"{NOTHING} The exam ended.")
    with pytest.raises(Refusal) as often:
        read.without({"two": NotNow("Wait.", 9), "three": NotNow("Wait a little.", 5)})
    assert (often.value.status_code, (often.value.headers or {})["Retry-After"]) == (429, "5")
    assert often.value.detail == f"{NOTHING} The exam ended. Wait. Wait a little."


def test_a_mistake_in_the_corrections_refuses_no_newer_file_and_every_file_is_judged(
    tmp_path: Path,
) -> None:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(PLAIN), {"ada": ""})
        (tmp_path / "results" / "corrections.toml").write_text("[[correction]]\nodd = 1\n")
        for number in range(2):
            there.hand_in("ada", greeting=marked(number))
        assert there.judge() == [("ada", "greeting")] * 2


def test_a_file_without_code_stays_listed_while_an_older_one_gets_its_verdict(
    tmp_path: Path,
) -> None:
    """With the best attempt, both are judged."""
    week = assignment("week1", ["greeting"], due=NOW)
    folder = term_course(tmp_path / "course", week, policy='attempts = "best"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})

        def listed() -> list[Reason]:
            return [entry.kind for entry in book.attention()]

        there.hand_in("ada", greeting=b"x = 1\n")
        there.hand_in("ada", greeting=b"def f(:\n")
        assert listed() == [Reason.NO_POINTS]
        there.judge(Outcome.FAILED)
        assert listed() == [Reason.NO_POINTS]
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        assert listed() == []


@pytest.mark.parametrize(
    ("attempts", "kinds"),
    [("best", []), ("average", [Reason.NO_POINTS]), ("newest", [Reason.NO_POINTS])],
)
def test_a_file_without_code_after_work_is_listed_if_it_costs_points(
    tmp_path: Path, attempts: str, kinds: list[Reason]
) -> None:
    week = assignment("week1", ["greeting"], due=NOW)
    folder = term_course(tmp_path / "course", week, policy=f'attempts = "{attempts}"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        there.hand_in("ada", greeting=b"def f(:\n")
        assert [entry.kind for entry in book.attention()] == kinds


def test_a_late_verdict_of_an_older_file_keeps_the_entries_of_the_newer_one(tmp_path: Path) -> None:
    week = assignment("week1", ["greeting"], due=NOW)
    folder = term_course(tmp_path / "course", week, policy='attempts = "best"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        there.hand_in("ada", greeting=marked(1))
        there.hand_in("ada", greeting=b"{\\rtf1\\ansi def greeting(name): return name}")
        before = book.attention()
        assert [entry.kind for entry in before] == [Reason.UNREADABLE]
        there.judge(Outcome.TIMEOUT)
        assert book.attention() == before


@pytest.mark.parametrize(("attempts", "is_listed"), [("best", True), ("newest", False)])
def test_odd_code_stays_listed_while_its_file_may_count(
    tmp_path: Path, attempts: str, is_listed: bool
) -> None:
    week = assignment("week1", ["greeting"], due=NOW)
    folder = term_course(tmp_path / "course", week, policy=f'attempts = "{attempts}"\n')
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        there.hand_in("ada", greeting=b"import ctypes\n" + SOLUTION)
        there.judge()
        assert [entry.kind for entry in book.attention()] == [Reason.ODD_CODE]
        there.hand_in("ada", greeting=marked(1))
        there.judge(Outcome.FAILED)
        assert [entry.kind for entry in book.attention()] == [Reason.ODD_CODE] * is_listed


def test_a_file_without_code_is_listed_even_with_a_mistake_in_the_corrections(
    tmp_path: Path,
) -> None:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(PLAIN), {"ada": ""})
        (tmp_path / "results" / "corrections.toml").write_text("[[correction]]\nodd = 1\n")
        there.hand_in("ada", greeting=b"# later\n")
        there.judge(Outcome.FAILED)
        assert [entry.kind for entry in book.facts.attention] == [Reason.NO_POINTS]


def test_submitted_drafts_cost_a_students_page_no_extra_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = term_course(tmp_path / "course", assignment("week1", ["greeting", "word_count"]))
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there, now = Class(book, load_course(folder), {"ada": ""}), NOW.timestamp()
        ada = there.students["ada"]
        read: list[str] = []

        def noting(name: str) -> Callable[..., Any]:
            real = getattr(Gradebook, name)

            def noted(*given: Any) -> Any:
                read.append(name)
                return real(*given)

            return noted

        for name in ("work", "files_of"):
            monkeypatch.setattr(Gradebook, name, noting(name))

        def save(name: str, source: bytes, after: int) -> None:
            with book.transaction():
                drafts.save_draft(book, "ada", name, source, now + after)

        def page() -> tuple[list[str], list[str]]:
            """The exercises with a draft that is not submitted, and the names of the reads made."""
            read.clear()
            exercises = there.views.standing(ada, {}).exercises
            return [each.name for each in exercises if each.draft_at], sorted(read)

        monkeypatch.setattr(there.desk, "_clock", lambda: now)
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        left, without = page()
        assert left == [] and "files_of" not in without
        save("greeting", marked(1), -9)
        save("word_count", b"# begun", -9)
        assert page() == ([], without)
        save("greeting", marked(2), 9)
        assert page() == (["greeting"], ["files_of", *without])
        save("greeting", marked(1), 10)
        assert page()[0] == []
