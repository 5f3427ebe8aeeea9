"""Mail a class its feedback: plan the mails that differ from the last ones, and send them.

The text is the one that `grade export --format mailmerge` writes. The gradebook keeps the id of each student's
last mail, a digest of text and address, so a second run sends only changed feedback.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from grader.exports.disclosure import disclosed
from grader.exports.formats.feedback import plain_feedback
from grader.exports.mail import post
from grader.exports.mail.letter import Letter, closing, email_of
from grader.exports.mail.mail_file import MailFile, MailServer, is_address
from grader.exports.mail.post import NotTaken, Post, PostError
from grader.exports.verdicts import unjudged, why_open
from grader.gradebook import Gradebook, outbox
from grader.gradebook.outbox import Feedback, State
from grader.results import Disclosure
from grader.text import clean

# Give up when this many students in a row are refused for now.
_MAX_LATER = 3


class Planned(NamedTuple):
    """A student's mail; `first` is false if there was one before."""

    student: str
    letter: Letter
    first: bool


class ClassPlan(msgspec.Struct):
    """The mails to send, and the students who get none.

    `already_sent` students have this text, and `absent` ones handed in nothing. `without` lists students
    without an address, and `left` has a sentence about each student with an unjudged exercise.
    """

    mails: list[Planned] = []
    already_sent: int = 0
    absent: int = 0
    without: list[str] = []
    left: list[str] = []


class Sent(msgspec.Struct):
    """The number of mails that arrived, and a sentence about each of the others."""

    arrived: int = 0
    failures: list[str] = []


def planned(
    book: Gradebook,
    file: MailFile,
    work: str,
    *,
    students: Collection[str] = (),
    absent: bool = False,
    disclose: Disclosure | None = None,
) -> ClassPlan:
    """Compare a class's feedback with the last mails; nothing is sent.

    `work` is an assignment, or empty for the whole course. `absent` includes students who handed in nothing;
    if `students` are given, only they get mail.
    """
    plan, before = ClassPlan(), outbox.mailed(book, work)
    not_open = book.not_open
    for entry in book.entries():
        student = entry.student
        if students and student.id not in students:
            continue
        if entry.absent and not absent:
            plan.absent += 1
        elif unjudged(entry.result):
            plan.left.append(f"{student.id} gets no mail yet: {why_open(entry)}")
        elif not is_address(student.email):
            plan.without.append(student.id)
        else:
            title = book.work_title
            text = plain_feedback(disclosed(entry, disclose, not_open), title)
            id_ = outbox.mail_id(book, "feedback", student.id, student.email, work, title, text)
            if before.get(student.id) == Feedback(id_, State.SENT):
                plan.already_sent += 1
                continue
            letter = Letter(id_, student.email, f"{title}: your result", f"{text}\n{closing(file)}")
            plan.mails.append(Planned(student.id, letter, student.id not in before))
    return plan


def send(
    plan: ClassPlan,
    book: Gradebook,
    server: MailServer,
    work: str,
    tell: Callable[[], None] = lambda: None,
) -> Sent:
    """Send every mail of a plan; `tell` is called after each one.

    Raises PostError if no more can be sent; a new plan then has the rest.
    """
    sent, later = Sent(), 0
    with contextlib.ExitStack() as stack:
        connection: Post | None = None
        for each in plan.mails:
            connection = connection or stack.enter_context(post.opened(server))
            try:
                try:
                    _send(each, book, connection, server, work)
                except PostError as error:
                    # Many mail servers take only so many mails over one connection.
                    if error.is_unclear or not sent.arrived:
                        raise
                    stack.close()
                    connection = stack.enter_context(post.opened(server))
                    _send(each, book, connection, server, work)
            except NotTaken as error:
                later = 0 if error.for_good else later + 1
                again = "" if error.for_good else " Run the command again later."
                address = clean(each.letter.to)
                sent.failures.append(
                    f"{each.student} cannot be reached at {address}: {error.said}.{again}"
                )
                if later == _MAX_LATER:
                    raise _ended(
                        plan, sent, f"{server.name} accepts no mail now: {error.said}."
                    ) from error
            except PostError as error:
                raise _ended(plan, sent, str(error)) from error
            else:
                later = 0
                sent.arrived += 1
            tell()
    return sent


def _send(mail: Planned, book: Gradebook, connection: Post, server: MailServer, work: str) -> None:
    """Send one mail, and keep its state before and after."""
    student, letter = mail.student, mail.letter

    def keep(state: State) -> None:
        feedback = Feedback(letter.id, state)
        outbox.keep_mailed(book, student, work, feedback, letter.to, time.time())

    keep(State.SENDING)
    try:
        connection.send(email_of(letter, server.file))
    except NotTaken:
        keep(State.REFUSED)
        raise
    keep(State.SENT)


def _ended(plan: ClassPlan, sent: Sent, reason: str) -> PostError:
    return PostError(
        f"{reason} Sent so far: {sent.arrived} of {len(plan.mails)}. Run the command again to send the rest."
    )
