"""`grade mail` sends each student their own feedback once, and again only if it changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import Result

from grader.gradebook import Gradebook, outbox
from grader.gradebook.facts import AssignmentPart
from grader.results import Disclosure, Status, StudentInfo
from tests.grader.builders import checked, exercise, result
from tests.grader.command import invoke
from tests.grader.exports.classroom_of_push import (
    FIRST,
    LAST,
    SECOND,
    SECRET,
    THIRD,
    School,
    scores,
)
from tests.grader.exports.conftest import school
from tests.grader.exports.mailbox import CUT, OK, QUIET, Mailbox, mail_toml, serving, text_of

__all__ = ["school"]

pytestmark = QUIET
FEW = 3


class Mails:
    """A class with addresses, a mail server, and `grade mail` from one to the other."""

    def __init__(self, school: School, mailbox: Mailbox) -> None:
        self.school, self.mailbox = school, mailbox
        school.grade(scores(FEW))
        self.addresses(FIRST, SECOND, THIRD)
        self.file = mail_toml(school.results.parent, mailbox.port)

    def addresses(self, *users: int, domain: str = "example.org", **ids: str) -> None:
        with Gradebook.open_to_write(self.school.results) as book, book.transaction():
            for user in users:
                name, email = f"First{user}", f"s{user}@{domain}"
                book.keep_student(StudentInfo(id=f"s{user}", name=name, email=email, ids=ids))

    def __call__(self, *more: str) -> Result:
        words = ("mail", str(self.school.results), "--mail", str(self.file), *more)
        return invoke(*words, cwd=self.school.results)

    def got(self) -> list[str]:
        """Return the recipients of the mails since the last call."""
        came = self.mailbox.addresses()
        self.mailbox.messages.clear()
        return came


@pytest.fixture
def mails(school: School) -> Iterator[Mails]:
    with serving(Mailbox()) as mailbox:
        yield Mails(school, mailbox)


def test_each_student_gets_their_own_feedback_once(mails: Mails) -> None:
    done = mails("--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("3 mails sent.\n")
    first, second, _ = mails.mailbox.messages
    assert first["To"] == f"s{FIRST}@example.org" and first["Subject"].endswith(": your result")
    assert f"For First{FIRST}." in text_of(first) and "3.1 of 10 points" in text_of(first)
    assert f"First{FIRST}" not in text_of(second)
    assert not any(SECRET in text_of(each) for each in mails.mailbox.messages)
    assert len(mails.got()) == FEW
    again = mails("--yes")
    assert again.exit_code == 0 and "0 mails to send, 3 have theirs already" in again.stdout
    assert mails.got() == []


def test_an_assignment_that_is_not_open_is_in_no_mail(mails: Mails) -> None:
    parts = {"week1": AssignmentPart("Week 1", ("task",), "2999-01-01T00:00:00Z")}
    with Gradebook.open_to_write(mails.school.results) as book:
        book.change(assignments=parts)
    mails("--yes")
    before = [text_of(each) for each in mails.mailbox.messages]
    assert len(mails.got()) == FEW and not any("points (" in text for text in before)
    with Gradebook.open_to_write(mails.school.results) as book:
        book.change(assignments={})
    mails("--yes")
    assert all("points (" in text_of(each) for each in mails.mailbox.messages)
    assert len(mails.got()) == FEW


def test_a_second_run_sends_only_changed_feedback(mails: Mails) -> None:
    mails("--yes")
    mails.got()
    mails.school.correct(SECOND, points=9.5)
    mails.addresses(THIRD, domain="other.example.org")
    shown = mails("--dry-run")
    assert shown.stdout.count("again: the feedback or the address has changed") == 2
    mails("--yes")
    assert mails.got() == [f"s{SECOND}@example.org", f"s{THIRD}@other.example.org"]


def test_a_dry_run_shows_recipients_and_the_first_mail(mails: Mails) -> None:
    with Gradebook.open_to_write(mails.school.results) as book, book.transaction():
        book.begin(mails.school.course, result(exercise(checked(), name="task")))
        book.finish(())
        book.keep_student(StudentInfo(id="s0", name="Nobody", email="nobody@example.org"))
        for user, email in ((SECOND, ""), (THIRD, "third at home")):
            book.tables.put_student(StudentInfo(id=f"s{user}", name="", email=email))
    done = mails("--dry-run")
    assert done.exit_code == 0, done.output
    assert f"First{FIRST}" in done.stdout and "1 mail to send." in done.stdout
    assert f"To: s{FIRST}@example.org\nSubject: " in done.stdout
    assert "3.1 of 10 points" in done.stdout and "Please do not reply" in done.stdout
    assert f"2 students have no usable address: s{SECOND} and s{THIRD}." in done.stderr
    assert "1 student handed in nothing: --absent mails them, too." in done.stderr
    assert mails.mailbox.tries == []
    with Gradebook.open(mails.school.results) as book:
        assert outbox.mailed(book, "") == {}
    assert mails("--absent", "--yes").exit_code == 0
    assert mails.got() == ["nobody@example.org", f"s{FIRST}@example.org"]


def test_without_an_answer_nothing_is_sent(mails: Mails) -> None:
    done = mails()
    assert done.exit_code == 2 and "There is no terminal to ask on" in done.stderr
    assert mails.mailbox.tries == []


def test_named_students_get_mail_and_no_others(mails: Mails) -> None:
    assert mails(f"s{SECOND}", f"First{THIRD}", "--yes").exit_code == 0
    assert mails.got() == [f"s{SECOND}@example.org", f"s{THIRD}@example.org"]
    wrong = mails("nobody", "--yes")
    assert wrong.exit_code == 2 and "No student here has 'nobody'" in wrong.stderr


def test_disclose_chooses_what_mails_say_about_hidden_tests(mails: Mails) -> None:
    mails("--yes", "--disclose", Disclosure.NOTHING.value)
    little = [text_of(each) for each in mails.mailbox.messages]
    assert not any("test_hidden" in text for text in little)
    mails.got()
    mails("--yes")
    assert all("The title of test_hidden" in text_of(each) for each in mails.mailbox.messages)
    assert len(mails.got()) == FEW


def test_refused_mails_are_reported_and_sent_with_the_next_run(mails: Mails) -> None:
    answers = {f"s{FIRST}@example.org": "550 unknown", f"s{SECOND}@example.org": "451 later"}
    mails.mailbox.to_recipient = lambda to: answers.get(to, OK)
    done = mails("--yes")
    assert done.exit_code == 3 and "1 mail sent." in done.stdout
    assert f"s{FIRST} cannot be reached at s{FIRST}@example.org: 550 unknown." in done.stderr
    assert "451 later. Run the command again later." in done.stderr
    answers.clear()
    assert mails("--yes").exit_code == 0
    assert mails.got() == [
        f"s{THIRD}@example.org",
        f"s{FIRST}@example.org",
        f"s{SECOND}@example.org",
    ]


def test_a_mail_server_may_limit_the_mails_of_one_connection(
    mails: Mails,
) -> None:
    counted: list[str] = []

    def few(to: str) -> str:
        counted.append(to)
        return "421 enough for one connection" if len(counted) == 2 else OK

    mails.mailbox.to_recipient = few
    assert mails("--yes").exit_code == 0
    assert len(mails.got()) == FEW and len(counted) == FEW + 1


def test_a_mail_without_a_confirmation_is_sent_again_under_the_same_id(mails: Mails) -> None:
    mails.mailbox.to_data = lambda message: CUT
    done = mails("--yes")
    assert done.exit_code == 3 and "did not answer" in done.stderr
    assert "Sent so far: 0 of 3. Run the command again to send the rest." in done.stderr
    mails.mailbox.to_data = lambda message: OK
    assert mails("--yes").exit_code == 0
    ids = [message["Message-ID"] for message in mails.mailbox.messages]
    assert ids[0] == ids[1] and len({*ids}) == FEW
    assert len(mails.got()) == FEW + 1


def test_a_student_who_is_not_judged_yet_gets_no_mail(mails: Mails) -> None:
    mails.school.grade({LAST: 0.0}, status=Status.UNJUDGED)
    mails.addresses(LAST)
    done = mails("--yes")
    assert f"s{LAST} gets no mail yet: task could not be judged" in done.stderr
    assert f"s{LAST}@example.org" not in mails.got()


def test_a_test_mail_has_no_result(mails: Mails) -> None:
    assert mails("--test", "me@example.org").exit_code == 0
    (message,) = mails.mailbox.messages
    assert message["To"] == "me@example.org" and "points" not in text_of(message)
    assert mails("--test", "me").exit_code == 2
    mails.mailbox.to_recipient = lambda to: "550 no"
    refused = mails("--test", "me@example.org")
    assert (
        refused.exit_code == 3
        and "does not accept mail to me@example.org: 550 no" in refused.stderr
    )
