"""One mail as plain text; no name or text of a student can add a header."""

from __future__ import annotations

import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import NamedTuple

from grader.exports.mail.mail_file import MailFile, sender_of
from grader.exports.texts import one_line

_LONGEST_SUBJECT = 150


class Letter(NamedTuple):
    """A mail to one address; the same `id` means the same mail, sent again."""

    id: str
    to: str
    subject: str
    text: str


def email_of(letter: Letter, mail: MailFile) -> EmailMessage:
    """Return a letter as a message from the `sender` of mail.toml.

    The text is quoted-printable UTF-8, which every mail server accepts. `To` is an address without a name.
    """
    name, sender = sender_of(mail.sender)
    message = EmailMessage(policy=SMTP)
    message["From"] = Address(display_name=name, addr_spec=sender)
    message["To"] = Address(addr_spec=letter.to)
    if mail.reply_to:
        message["Reply-To"] = Address(addr_spec=mail.reply_to)
    message["Subject"] = one_line(letter.subject)[:_LONGEST_SUBJECT]
    message["Date"] = datetime.datetime.now(datetime.UTC)
    message["Message-ID"] = f"<{letter.id}@{sender.rpartition('@')[2]}>"
    # Vacation responders do not answer such mails (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_encodable(letter.text), charset="utf-8", cte="quoted-printable")
    return message


def closing(mail: MailFile, address: str = "") -> str:
    """Return the last lines of a letter, with the server's address if known."""
    lines = ["-- "]
    if address:
        lines.append(f"Your page: {address}/")
    lines.append(
        "Replies go to the staff of your course."
        if mail.reply_to
        else "Please do not reply: a program wrote this mail. Ask the staff of your course."
    )
    return "\n".join(lines) + "\n"


def _encodable(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")
