"""The texts of mails, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.outbox import Event, Kind
from grader.judge.assignment import Judgment
from grader.results import Outcome, Visibility
from grader.serve.letters import text_about
from tests.grader.builders import checked, exercise
from tests.grader.serve.conftest import SOLUTION
from tests.grader.serve.test_teams import Class
from tests.grader.serve.test_term import assignment, term_course


@pytest.mark.parametrize("kind", [Kind.VERDICTS, Kind.CHANGES])
def test_a_letter_discloses_no_value_of_a_hidden_test(tmp_path: Path, kind: Kind) -> None:
    folder = term_course(tmp_path / "course", assignment("week1", ["greeting"]))
    hidden = checked(
        "test_secret", Outcome.FAILED, visibility=Visibility.HIDDEN, message="It is 8251."
    )
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        handed = there.hand_in("ada", greeting=SOLUTION)
        taken = there.desk.take()
        assert taken is not None
        there.desk.finish(taken, Judgment(exercise(checked(), hidden, name="greeting"), ()))
        entry = book.entry_of("ada")
        assert entry is not None and "8251" in str(entry.result)
        about = handed.id if kind is Kind.VERDICTS else "greeting"
        event = Event("ada", kind, about, 0.0)
        letter = text_about(book, there.course, there.students["ada"], [event])
    assert letter is not None and "test" in letter.text
    assert "8251" not in letter.text


def test_a_letters_total_includes_and_names_extra_credit(tmp_path: Path) -> None:
    more = 'extra_credit = ["greeting"]'
    week1 = assignment("week1", ["greeting", "word_count"], more=more)
    folder = term_course(tmp_path / "course", week1)
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        handed = there.hand_in("ada", greeting=SOLUTION)
        there.judge()
        event = Event("ada", Kind.VERDICTS, handed.id, 0.0)
        letter = text_about(book, there.course, there.students["ada"], [event])
    assert letter is not None
    last = letter.text.strip().splitlines()[-1]
    assert letter.subject == "Plain Python and NumPy, Week1: greeting judged"
    assert "Plain Python and NumPy, Week1: 15 of 15 points" in letter.text
    assert last == "Your points in all assignments now: 15 of 10, with 15 of extra credit."


def test_a_letter_about_two_assignments_names_both(tmp_path: Path) -> None:
    weeks = assignment("week1", ["greeting"]), assignment("week2", ["word_count"])
    folder = term_course(tmp_path / "course", *weeks)
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": ""})
        handed = [there.hand_in("ada", **{n: SOLUTION}) for n in ("greeting", "word_count")]
        there.judge()
        events = [Event("ada", Kind.VERDICTS, each.id, 0.0) for each in handed]
        letter = text_about(book, there.course, there.students["ada"], events)
    assert letter is not None
    assert letter.subject == "Plain Python and NumPy: word_count and greeting judged"
    assert [line for line in letter.text.splitlines() if line.startswith("Plain Python")] == [
        "Plain Python and NumPy, Week2: 15 of 15 points.",
        "Plain Python and NumPy, Week1: 15 of 15 points.",
    ]
