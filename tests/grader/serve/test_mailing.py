"""Mail of a running server: each event once, retries, limits, and no delay for others."""

from __future__ import annotations

import datetime
import html
import re
import threading
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.course.manifest import Course, load_course
from grader.exports.mail.mail_file import read_mail_file
from grader.gradebook import Gradebook, outbox
from grader.gradebook.corrections import Correction
from grader.results import StudentInfo, Visibility
from grader.serve import letters, mailing
from grader.serve.mailing import Mailing
from tests.grader.exports.mailbox import OK, QUIET, Mailbox, mail_toml, text_of
from tests.grader.exports.mailbox import serving as serving_mailbox
from tests.grader.serve.conftest import (
    PATIENCE_SECONDS,
    PLAIN,
    ROSTER,
    SOLUTION,
    STUDENTS,
    Served,
    marked,
    sql,
)
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_term import HOUR, NOW, assignment, term_course

pytestmark = QUIET
WRONG = (PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py").read_bytes()
FILES = {"greeting.py": SOLUTION, "word_count.py": WRONG}
ALL = '["verdicts", "answers", "changes"]'


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    with serving_mailbox(made):
        yield made


def hand_in(served: Served, who: str, source: bytes = SOLUTION) -> None:
    served.judged(who, served.hand_in(who, {"greeting.py": source}).json["id"])


def mailing_server(served: Served, mailbox: Mailbox, *options: str, **keys: str) -> Served:
    """Start the server with mail: all events, sent at once, unless `keys` say otherwise."""
    given = {"send": ALL, "gather": '"0 seconds"', **keys}
    file = mail_toml(served.folder, mailbox.port, **given)
    return served.start("--mail", str(file), *options)


def page(served: Served, who: str = "staff") -> str:
    answer = served.ask("GET", "/class", who)
    assert answer.status == 200, answer
    return " ".join(html.unescape(re.sub(r"</?\w[^>]*>", "", answer.body.decode())).split())


def mail_in(page: str) -> str:
    """The sentence of the class page that counts mails."""
    found = re.search(r"\d+ sent; .* not reached\.", page)
    return found[0] if found else page


def until(holds: Callable[[], Any], told: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def arrived(served: Served, mailbox: Mailbox, count: int) -> None:
    """Wait for `count` mails, and until the server has recorded that they arrived."""
    mailbox.wait_for(count, PATIENCE_SECONDS)
    until(
        lambda: sql(served, "SELECT count(*) FROM outbox WHERE state = 'sending'") == [(0,)],
        lambda: served.log_tail,
    )


def test_a_mail_explains_late_points_and_leaves_practice_out(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    served = serving()
    policy = "[late]\nper_day = 20\n"
    week1 = assignment("week1", ["greeting"], due=NOW - 30 * HOUR)
    served.course = term_course(served.folder / "course", week1, policy=policy)
    mailing_server(served, mailbox)
    served.judged("ada", served.hand_in("ada", FILES).json["id"])
    arrived(served, mailbox, 1)
    text = " ".join(text_of(mailbox.messages[0]).split())
    assert "A greeting [of a kind]: 2.5 of 2.5 points (passed)" in text
    assert "What counts now: A greeting [of a kind]: 1.5 of 2.5 points. Handed in 1 day" in text
    # The points that count come first.
    assert text.index("What counts now") < text.index("2.5 of 2.5")
    assert "40 % of the points are lost." in text
    assert "Your points in all assignments now: 1.5 of 2.5." in text


def test_verdicts_answers_and_changes_are_mailed_without_hidden_values(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    served = mailing_server(serving(), mailbox, "--address", "https://grade.example.org")
    served.judged("ada", served.hand_in("ada", FILES).json["id"])
    arrived(served, mailbox, 1)
    (message,) = mailbox.messages
    assert (message["To"], message["Auto-Submitted"]) == ("ada@example.org", "auto-generated")
    assert message["Subject"] == "Plain Python and NumPy: word_count and greeting judged"
    text = text_of(message)
    assert "For Ada Test." in text and "https://grade.example.org/" in text
    assert "A greeting [of a kind]: 2.5 of 2.5 points (passed)" in text
    assert "Your points for all exercises now: " in text
    # No value of a hidden test is in it.
    with Gradebook.open_beside_writer(served.results) as book:
        (attempt,) = book.tables.attempts_of("ada")
        verdict = book.work(StudentInfo(id="ada")).verdicts["word_count"][attempt.id].result
    hidden = [t for t in verdict.tests if t.visibility is Visibility.HIDDEN and t.message]
    values = {v for t in hidden if t.finding for v in t.finding.values.values() if len(v) > 4}
    assert values, "the gradebook has values of hidden tests"
    assert [value for value in values if value in text] == []
    assert [t.message for t in hidden if t.message in text and t.finding] == []
    assert not any(token in text for token in served.tokens.values())

    form(served, "/requests", "ada", exercise="greeting", message="Why?\x1b[2J")
    form(served, "/class/requests", "staff", number="1", answer="Because <it> is.")
    arrived(served, mailbox, 2)
    assert mailbox.messages[1]["Subject"] == (
        "Plain Python and NumPy: your request on greeting answered"
    )
    text = text_of(mailbox.messages[1])
    assert "Answer: Because <it> is." in text and "\x1b" not in text and "Counting" not in text

    seen = re.search(r'name="seen" value="([^"]+)"', student_page(served, "ada"))
    assert seen is not None
    fields = {"exercise": "greeting", "how": "points", "points": "1", "reason": "Copied."}
    done = form(served, "/class/students/ada", "staff", do="adjust", seen=seen[1], **fields)
    assert done.status == 303, done
    arrived(served, mailbox, 3)
    assert mailbox.messages[2]["Subject"].endswith(": your points for greeting")
    text = text_of(mailbox.messages[2])
    assert "1 point counts, not 2.5." in text and "Copied." in text
    assert "Because" in text, "the mail has everything that the page shows"
    assert mailbox.addresses() == ["ada@example.org"] * 3
    assert len({message["Message-ID"] for message in mailbox.messages}) == 3
    assert "3 sent; 0 students have mail waiting" in page(served)
    log = served.log.read_text()
    assert '"sent": 1' in log and "example.org" not in log


def student_page(served: Served, who: str) -> str:
    page = served.ask("GET", f"/class/students/{who}", "staff").body.decode()
    start = page.index('id="ex-greeting"')
    return page[start:]


@pytest.mark.thorough
def test_only_listed_kinds_are_mailed_and_nothing_from_before(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    served = serving().start()
    hand_in(served, "ada")
    form(served, "/requests", "ada", exercise="greeting", message="Why?")
    form(served, "/class/requests", "staff", number="1", answer="So.")
    assert "Mail" not in page(served)
    served.stop()
    mailing_server(served, mailbox, send='["answers"]')
    hand_in(served, "ada", marked(1))
    form(served, "/requests", "ada", exercise="greeting", message="And why that?")
    form(served, "/class/requests", "staff", number="2", answer="Read again.")
    arrived(served, mailbox, 1)
    served.stop()
    # Verdicts from before `verdicts` was on are not mailed. Answers given while the server is down are.
    status = CliRunner().invoke(
        main,
        [
            "requests",
            str(served.results),
            "1",
            "--answer",
            "So it is.",
            "--author",
            "ben",
        ],
    )
    assert status.exit_code == 0, status.output
    mailing_server(served, mailbox)
    arrived(served, mailbox, 2)
    assert "So it is." in text_of(mailbox.messages[1])
    hand_in(served, "bob", marked(2))
    arrived(served, mailbox, 3)
    assert [each["Subject"].rpartition(": ")[2] for each in mailbox.messages] == [
        "your request on greeting answered",
        "your request on greeting answered",
        "greeting judged",
    ]
    # Events while mail is off are never mailed.
    served.stop()
    served.start()
    hand_in(served, "eve", marked(3))
    served.stop()
    mailing_server(served, mailbox)
    hand_in(served, "bob", marked(4))
    arrived(served, mailbox, 4)
    assert mailbox.addresses()[2:] == ["bob@example.org"] * 2


@pytest.mark.thorough
def test_a_killed_server_loses_no_mail_and_repeats_only_unconfirmed_ones(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    served = mailing_server(serving(), mailbox)
    killed = threading.Event()

    def kill(message: EmailMessage) -> str:
        # Kill the server after it sends the second mail, before it gets the confirmation.
        if len(mailbox.messages) == 1 and not killed.is_set():
            served.kill()
            killed.set()
        return OK

    mailbox.to_data = kill
    for who in STUDENTS:
        try:
            hand_in(served, who)
        except (OSError, AssertionError):
            assert killed.wait(PATIENCE_SECONDS)
            break
    assert killed.wait(PATIENCE_SECONDS)
    mailing_server(served, mailbox)
    for who in STUDENTS:
        if not served.ask("GET", "/api/standing", who).json["submissions"]:
            hand_in(served, who)
    until(lambda: {*mailbox.addresses()} == {f"{who}@example.org" for who in STUDENTS})
    arrived(served, mailbox, 4)
    _, cut, again, *rest = mailbox.messages
    # The unconfirmed mail is repeated with the same id.
    assert cut["Message-ID"] == again["Message-ID"] and cut["To"] == again["To"]
    assert len({message["Message-ID"] for message in mailbox.messages}) == len(STUDENTS)
    assert len(rest) == 1 and "3 sent" in page(served)


@pytest.mark.thorough
def test_a_hanging_mail_server_delays_neither_submissions_nor_the_stop(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    goes_on, is_met = threading.Event(), threading.Event()

    def hang(message: EmailMessage) -> str:
        is_met.set()
        goes_on.wait(PATIENCE_SECONDS)
        return OK

    served = mailing_server(serving(), mailbox)
    mailbox.to_data = hang
    try:
        hand_in(served, "ada")
        assert is_met.wait(PATIENCE_SECONDS)
        for number in range(3):
            hand_in(served, "bob", marked(number))
        assert "1 student has mail waiting" in page(served) or "2 students" in page(served)
        assert served.stop() == 0
    finally:
        goes_on.set()


@pytest.mark.thorough
def test_staff_sees_unreached_students_and_a_corrected_address_gets_the_mail(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    mailbox.to_recipient = lambda to: "550 no <such> user" if to.startswith("bob") else OK
    served = serving()
    roster = served.folder / "class.csv"
    roster.write_text(ROSTER.replace("eve@example.org", "eve at home"), encoding="utf-8")
    mailing_server(served, mailbox)
    assert "Without a usable address: Eve Test (eve)." in page(served)
    for who in STUDENTS:
        hand_in(served, who)
    until(lambda: "2 students not reached" in page(served), lambda: page(served))
    arrived(served, mailbox, 1)
    shown = page(served)
    assert "Bob Test (bob), bob@example.org: 550 no <such> user" in shown
    assert "Eve Test (eve), eve at home: This is not an address to which mail can be sent." in shown
    assert "&lt;such&gt;" in served.ask("GET", "/class", "staff").body.decode()
    # An assistant sees only their section.
    own = page(served, "assistant")
    assert "Bob" not in own and "Eve" not in own
    assert mail_in(own) == "1 sent; 0 students have mail waiting; 0 students not reached."
    assert mailbox.addresses() == ["ada@example.org"]
    served.stop()
    roster.write_text(ROSTER.replace("bob@example.org", "robert@example.org"), encoding="utf-8")
    mailing_server(served, mailbox)
    arrived(served, mailbox, 3)
    assert {*mailbox.addresses()[1:]} == {"robert@example.org", "eve@example.org"}
    assert "0 students not reached" in page(served)


@pytest.mark.thorough
def test_staff_sees_that_the_mail_server_cannot_be_used(
    serving: Callable[..., Served], mailbox: Mailbox
) -> None:
    served = mailing_server(serving(), mailbox, security='"starttls"')
    hand_in(served, "ada")
    until(lambda: "does not offer STARTTLS, so nothing was sent" in page(served))
    assert "1 student has mail waiting" in page(served)
    assert mailbox.tries == []
    served.stop()
    mailing_server(served, mailbox)
    arrived(served, mailbox, 1)


def test_a_name_adds_no_header(serving: Callable[..., Served], mailbox: Mailbox) -> None:
    served = serving()
    text = ROSTER.replace("Ada Test", '"Ada\r\nBcc: eve@example.org\r\n\r\nHello"')
    (served.folder / "class.csv").write_bytes(text.encode())
    mailing_server(served, mailbox)
    hand_in(served, "ada")
    arrived(served, mailbox, 1)
    (message,) = mailbox.messages
    assert mailbox.tries == ["ada@example.org"]
    assert message["Bcc"] is None and message["To"] == "ada@example.org"
    assert "Bcc: eve@example.org" in text_of(message)


# --- the thread without a server ----------------------------------------------------------------------


@pytest.fixture
def judged(serving: Callable[..., Served], mailbox: Mailbox) -> Iterator[Callable[..., Mailing]]:
    """Make a mailing thread with events of Ada and Bob, by default two submissions each."""
    served = serving().start()
    hand_in(served, "eve")
    served.stop()
    threads: list[Mailing] = []

    def make(submissions: int = 2, **keys: str) -> Mailing:
        file = mail_toml(
            served.folder, mailbox.port, **{"send": ALL, "gather": '"0 seconds"', **keys}
        )
        server = read_mail_file(file)
        served.start()
        # This server started without mail, which turned all kinds off.
        with outbox.opened_beside_writer(served.results) as book:
            outbox.turn_on(book, server.file.send, time.time())
        for number in range(submissions):
            for who in ("ada", "bob"):
                hand_in(served, who, marked(number))
        served.stop()
        threads.append(Mailing(served.results, load_course(PLAIN), server, ""))
        return threads[-1]

    yield make
    for thread in threads:
        thread.close()


def test_a_temporary_refusal_is_retried_and_the_mail_arrives_once(
    judged: Callable[..., Mailing], mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailing, "_LATER_SECONDS", (0.05, 0.1))
    monkeypatch.setattr(mailing, "_PAUSES_SECONDS", (0.05,))
    refused: list[str] = []

    def busy(message: EmailMessage) -> str:
        refused.append(str(message["Message-ID"]))
        return OK if len(refused) > 3 else "451 try again later"

    mailbox.to_data = busy
    thread = judged()
    thread.start()
    mailbox.wait_for(2, PATIENCE_SECONDS)
    until(lambda: thread.fault == "")
    assert sorted(mailbox.addresses()) == ["ada@example.org", "bob@example.org"]
    assert len({*refused}) == 2, "a repeated mail keeps its id"
    # Each mail has both submissions of its student.
    for message in mailbox.messages:
        assert text_of(message).count("A greeting [of a kind]: 2.5 of 2.5") == 2


@pytest.mark.thorough
def test_events_beyond_the_limit_are_gathered_in_one_mail(
    judged: Callable[..., Mailing], mailbox: Mailbox
) -> None:
    thread = judged(submissions=5, most_per_hour="1")
    thread.start()
    mailbox.wait_for(2, PATIENCE_SECONDS)
    for message in mailbox.messages:
        assert text_of(message).count("A greeting [of a kind]: 2.5 of 2.5") == 3
        assert "Before that, 2 submissions were judged" in text_of(message)
    folder = thread._folder
    for number in range(6):
        with Gradebook.open_to_write(folder) as book:
            book.correct(correction("ada", float(number)))
        thread.wake()
        until(lambda: waiting_of(folder, "ada"))
    assert len(mailbox.messages) == 2
    assert [event.about for event in waiting_of(folder, "ada")] == ["greeting"]
    with outbox.opened_beside_writer(folder) as book, book.transaction():
        book.tables.connection.execute("UPDATE outbox_mails SET sent_at = sent_at - 3600")
    thread.wake()
    mailbox.wait_for(3, PATIENCE_SECONDS)
    assert mailbox.addresses()[2] == "ada@example.org"
    assert "shown in the lab" in text_of(mailbox.messages[2])


def waiting_of(folder: Path, student: str) -> list[outbox.Event]:
    with Gradebook.open_beside_writer(folder) as book:
        return outbox.waiting(book).get(student, [])


def correction(student: str, points: float) -> Correction:
    return Correction(
        student=student,
        exercise="greeting",
        points=min(points, 2.5),
        reason="shown in the lab",
        author="ben",
        time=datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC),
    )


def test_a_fault_in_one_mail_delays_no_other_student(
    judged: Callable[..., Mailing], mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = letters.text_about

    def broken(book: Gradebook, course: Course, student: StudentInfo, events: Any) -> Any:
        if student.id == "ada":
            raise ZeroDivisionError
        return written(book, course, student, events)

    monkeypatch.setattr(mailing, "text_about", broken)
    thread = judged()
    thread.start()
    mailbox.wait_for(1, PATIENCE_SECONDS)
    assert mailbox.addresses() == ["bob@example.org"]
    with Gradebook.open_beside_writer(thread._folder) as book:
        until(lambda: outbox.counts(book).undelivered)
        (told,) = outbox.counts(book).undelivered
    assert told.student == "ada" and "fault of the grader" in told.said
