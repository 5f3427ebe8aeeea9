"""The mails of a class: the students that a run reaches, and failures that end it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from grader.exports.mail import post
from grader.exports.mail.class_mail import ClassPlan, Planned, send
from grader.exports.mail.letter import Letter, closing, email_of
from grader.exports.mail.mail_file import MailFile, MailServer
from grader.exports.mail.post import NotTaken, PostError
from grader.gradebook import Gradebook, outbox
from grader.gradebook.outbox import State

FILE = MailFile(host="smtp.example.org", sender="Deep Learning <ml@example.org>")
SERVER = MailServer(FILE, 587, "", None)
FULL = NotTaken("mailbox full", for_good=False)
UNKNOWN = NotTaken("no such user", for_good=True)
CLOSED = PostError("The connection ended.")
LOST = PostError("The connection ended after the mail.", is_unclear=True)


class Mailbox:
    """A mailbox. The next mails end as `ends` says, and all later ones arrive."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.connections = 0
        self.is_open = False
        self.ends: list[Exception | None] = []

    def send(self, message: EmailMessage) -> None:
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        self.got.append(message["To"])

    @contextlib.contextmanager
    def opened(self, server: MailServer) -> Iterator[Mailbox]:
        assert server is SERVER and not self.is_open
        self.connections += 1
        self.is_open = True
        try:
            yield self
        finally:
            self.is_open = False


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    made = Mailbox()
    monkeypatch.setattr(post, "opened", made.opened)
    return made


@pytest.fixture
def book(memory_path: Path) -> Iterator[Gradebook]:
    with Gradebook.open_to_write(memory_path / "results") as book:
        outbox.prepare(book)
        yield book


def plan_of(*students: str) -> ClassPlan:
    letters = [
        Letter(f"id-{name}", f"{name}@example.org", "Result", "Well done.") for name in students
    ]
    return ClassPlan(
        mails=[Planned(name, letter, True) for name, letter in zip(students, letters, strict=True)]
    )


def states(book: Gradebook) -> dict[str, State]:
    return {student: feedback.state for student, feedback in outbox.mailed(book, "week1").items()}


def test_every_mail_is_sent_over_one_connection_and_kept(book: Gradebook, mailbox: Mailbox) -> None:
    told: list[None] = []
    sent = send(plan_of("ada", "ben"), book, SERVER, "week1", lambda: told.append(None))
    assert (sent.arrived, sent.failures, len(told)) == (2, [], 2)
    assert mailbox.got == ["ada@example.org", "ben@example.org"]
    assert mailbox.connections == 1
    assert states(book) == {"ada": State.SENT, "ben": State.SENT}
    assert outbox.mailed(book, "week1")["ada"].mail == "id-ada"


def test_without_a_mail_there_is_no_connection(book: Gradebook, mailbox: Mailbox) -> None:
    assert send(ClassPlan(), book, SERVER, "week1").arrived == 0
    assert mailbox.connections == 0


def test_a_closed_connection_is_opened_again(book: Gradebook, mailbox: Mailbox) -> None:
    mailbox.ends = [None, CLOSED, None]
    assert send(plan_of("ada", "ben"), book, SERVER, "week1").arrived == 2
    assert mailbox.got == ["ada@example.org", "ben@example.org"]
    assert mailbox.connections == 2


@pytest.mark.parametrize(
    ("ends", "arrived", "told"),
    [
        ([CLOSED], 0, "The connection ended. Sent so far: 0 of 2. Run the command again"),
        ([None, CLOSED, CLOSED], 1, "The connection ended. Sent so far: 1 of 2."),
        ([None, LOST], 1, "ended after the mail. Sent so far: 1 of 2."),
    ],
    ids=["the first", "twice", "perhaps sent"],
)
def test_a_server_that_accepts_no_mail_ends_the_run(
    book: Gradebook, mailbox: Mailbox, ends: list[Exception | None], arrived: int, told: str
) -> None:
    mailbox.ends = ends
    with pytest.raises(PostError) as raised:
        send(plan_of("ada", "ben"), book, SERVER, "week1")
    assert told in str(raised.value)
    assert len(mailbox.got) == arrived
    assert mailbox.ends == [], "a mail that may have arrived is not sent twice"
    assert list(states(book).values())[-1] is State.SENDING


def test_a_refused_address_does_not_stop_the_others(book: Gradebook, mailbox: Mailbox) -> None:
    mailbox.ends = [UNKNOWN, FULL, None]
    sent = send(plan_of("ada", "ben", "cy"), book, SERVER, "week1")
    assert sent.arrived == 1
    assert sent.failures == [
        "ada cannot be reached at ada@example.org: no such user.",
        "ben cannot be reached at ben@example.org: mailbox full. Run the command again later.",
    ]
    assert states(book) == {"ada": State.REFUSED, "ben": State.REFUSED, "cy": State.SENT}


def test_three_temporary_refusals_in_a_row_end_the_run(book: Gradebook, mailbox: Mailbox) -> None:
    mailbox.ends = [FULL, FULL, UNKNOWN, FULL, FULL, None, FULL, FULL, FULL]
    names = [f"s{number}" for number in range(12)]
    with pytest.raises(
        PostError, match=r"accepts no mail now: mailbox full\. Sent so far: 1 of 12"
    ):
        send(plan_of(*names), book, SERVER, "week1")
    assert mailbox.ends == [] and mailbox.got == ["s5@example.org"]


# --- one mail -------------------------------------------------------------------------------------


def test_a_mail_has_a_sender_an_id_and_no_injected_header() -> None:
    letter = Letter(
        "d1gest", "ada@example.org", "Week 1\r\nBcc: all@example.org: " + "x" * 200, "Grüße\udce4\n"
    )
    message = email_of(letter, FILE)
    assert message["From"] == "Deep Learning <ml@example.org>"
    assert (message["To"], message["Reply-To"], message["Bcc"]) == ("ada@example.org", None, None)
    assert message["Message-ID"] == "<d1gest@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Subject"].startswith("Week 1 Bcc: all@example.org: xxx")
    assert len(message["Subject"]) == 150
    assert message.get_content() == "Grüße?\n"
    assert message["Content-Transfer-Encoding"] == "quoted-printable"
    assert message["Date"].datetime.tzinfo is not None


def test_replies_go_where_the_file_says() -> None:
    file = MailFile(host="smtp.example.org", sender="ml@example.org", reply_to="staff@example.org")
    assert (
        email_of(Letter("1", "ada@example.org", "a", "b"), file)["Reply-To"] == "staff@example.org"
    )
    assert closing(file) == "-- \nReplies go to the staff of your course.\n"
    assert closing(FILE, "https://grade.example.org") == (
        "-- \nYour page: https://grade.example.org/\n"
        "Please do not reply: a program wrote this mail. Ask the staff of your course.\n"
    )
