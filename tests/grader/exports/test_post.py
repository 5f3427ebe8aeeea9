"""Sending by SMTP: mails are encrypted or not sent, and answers of a mail server are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exports.mail import post
from grader.exports.mail.letter import Letter, closing, email_of
from grader.exports.mail.mail_file import MailServer, read_mail_file
from grader.exports.mail.post import NotTaken, PostError
from tests.grader.exports.mailbox import (
    QUIET,
    USER,
    WORD,
    Mailbox,
    certificate_in,
    mail_toml,
    serving,
    text_of,
)

pytestmark = QUIET
LETTER = Letter("0f" * 16, "ada@example.org", "Your result", "Grüße, 你好\n" + "x" * 2000 + "\n")
LOGIN = {"user": f'"{USER}"', "password_file": '"word.txt"'}


def send(server: MailServer, letter: Letter = LETTER) -> None:
    with post.opened(server) as connection:
        connection.send(email_of(letter, server.file))


def server_of(folder: Path, port: int, **keys: str) -> MailServer:
    (folder / "word.txt").write_text(f"{WORD}\n", encoding="utf-8")
    return read_mail_file(mail_toml(folder, port, **keys))


def test_a_mail_arrives_as_it_was_written(tmp_path: Path) -> None:
    with serving(Mailbox()) as mailbox:
        server = server_of(tmp_path, mailbox.port, reply_to='"staff@example.org"')
        send(server)
        send(server)
    first, second = mailbox.messages
    assert text_of(first) == LETTER.text
    assert {name: str(first[name]) for name in ("From", "To", "Reply-To", "Subject")} == {
        "From": "Plain Course <course@example.org>",
        "To": "ada@example.org",
        "Reply-To": "staff@example.org",
        "Subject": "Your result",
    }
    assert first["Auto-Submitted"] == "auto-generated" and first["Date"]
    assert first["Message-ID"] == second["Message-ID"] == f"<{LETTER.id}@example.org>"
    assert "Replies go to the staff" in closing(server.file)
    assert "https://grade.example.org/" in closing(server.file, "https://grade.example.org")


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_is_sent_encrypted_after_signing_in(tmp_path: Path, security: str) -> None:
    certificate = certificate_in(tmp_path)
    keys = {"security": f'"{security}"', "ca_file": f'"{certificate.name}"', **LOGIN}
    with serving(Mailbox(), certificate, at_once=security == "tls") as mailbox:
        send(server_of(tmp_path, mailbox.port, **keys))
        assert mailbox.connections == [(security == "starttls", USER)]
        (tmp_path / "word.txt").write_text("other\n", encoding="utf-8")
        wrong = read_mail_file(tmp_path / "mail.toml")
        with pytest.raises(PostError, match=r"refuses the `user` or the password: 535") as error:
            send(wrong)
    assert WORD not in str(error.value) and "other" not in str(error.value)
    assert len(mailbox.messages) == 1


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_nothing_is_sent_if_the_certificate_is_not_trusted(tmp_path: Path, security: str) -> None:
    certificate = certificate_in(tmp_path)
    with serving(Mailbox(), certificate, at_once=security == "tls") as mailbox:
        server = server_of(tmp_path, mailbox.port, security=f'"{security}"', **LOGIN)
        with pytest.raises(PostError, match=r"not trusted .*ca_file = "):
            send(server)
    assert mailbox.tries == [] and mailbox.messages == []


def test_without_starttls_nothing_is_sent_in_the_clear(tmp_path: Path) -> None:
    with serving(Mailbox()) as mailbox:
        server = server_of(tmp_path, mailbox.port, security='"starttls"', **LOGIN)
        with pytest.raises(PostError, match="does not offer STARTTLS, so nothing was sent"):
            send(server)
    assert mailbox.tries == [] and mailbox.messages == []


def test_a_port_without_tls_is_reported(tmp_path: Path) -> None:
    with serving(Mailbox()) as mailbox:
        server = server_of(tmp_path, mailbox.port, security='"tls"')
        with pytest.raises(PostError, match='needs security = "starttls"'):
            send(server)


def test_an_unreachable_mail_server_is_reported(tmp_path: Path) -> None:
    with serving(Mailbox()) as mailbox:
        pass
    with pytest.raises(PostError, match=rf"127\.0\.0\.1:{mailbox.port} cannot be reached: "):
        send(server_of(tmp_path, mailbox.port))


@pytest.mark.parametrize("where", ["recipient", "data"])
@pytest.mark.parametrize(("answer", "for_good"), [("550 no such user", True), ("451 later", False)])
def test_permanent_and_temporary_refusals_are_told_apart(
    tmp_path: Path, where: str, answer: str, for_good: bool
) -> None:
    mailbox = Mailbox()
    setattr(mailbox, f"to_{where}", lambda _: answer)
    with serving(mailbox):
        server = server_of(tmp_path, mailbox.port)
        with post.opened(server) as connection:
            with pytest.raises(NotTaken, match=answer) as error:
                connection.send(email_of(LETTER, server.file))
            assert error.value.for_good is for_good
            # The connection can still be used.
            setattr(mailbox, f"to_{where}", lambda _: "250 OK")
            connection.send(email_of(LETTER, server.file))
    assert len(mailbox.messages) == 1


def test_a_connection_ended_by_the_mail_server_is_reported(tmp_path: Path) -> None:
    mailbox = Mailbox()
    mailbox.to_recipient = lambda address: f"421 too busy for {address}"
    with serving(mailbox), pytest.raises(PostError, match="with 421") as error:
        send(server_of(tmp_path, mailbox.port))
    assert "ada" not in str(error.value), "the message goes to the log"
    assert not error.value.is_unclear


@pytest.mark.parametrize("evil", ["Ada\r\nBcc: eve@example.org", "Ada\nX-Evil: 1", "A\u2028B: c"])
def test_no_text_adds_a_header(tmp_path: Path, evil: str) -> None:
    with serving(Mailbox()) as mailbox:
        letter = LETTER._replace(subject=f"{evil} and more {'ä' * 300}", text=f"{evil}\n.\n.x\n")
        send(server_of(tmp_path, mailbox.port), letter)
    (message,) = mailbox.messages
    known = {"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"}
    assert {*message} - known == {"Content-Type", "Content-Transfer-Encoding"}
    assert mailbox.tries == ["ada@example.org"]
    assert text_of(message).splitlines()[-2:] == [".", ".x"]
