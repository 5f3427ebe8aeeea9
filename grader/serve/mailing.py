"""The thread of a server that mails students verdicts, answers and changed points.

The gradebook (`grader.gradebook.outbox`) knows of each mail before and after it is sent, so the server may be
killed at any moment. A mail that may have arrived is sent again under the same Message-ID. The thread has its
own connections to the gradebook and to the mail server: no hand-in waits for a mail.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import NamedTuple

from grader.course.manifest import Course
from grader.errors import GraderError
from grader.exports.mail import post
from grader.exports.mail.letter import Letter, closing, email_of
from grader.exports.mail.mail_file import MailServer, is_address
from grader.exports.mail.post import NotTaken, Post, PostError
from grader.gradebook import Gradebook, outbox
from grader.gradebook.corrections_file import corrections_text
from grader.gradebook.outbox import Counts, Event
from grader.results import StudentInfo
from grader.serve.letters import text_about
from grader.serve.roles import Asker
from grader.serve.threads import pause_after

log = logging.getLogger("grader.serve")

# The least time between two rounds.
_BETWEEN_SECONDS = 2.0
# The most time between two rounds: some events do not wake the thread.
_IDLE_SECONDS = 15.0
# Pauses before the next try: while no mail can be sent, and while one student is refused for now.
_PAUSES_SECONDS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_LATER_SECONDS = (60.0, 300.0, 900.0, 1800.0, 3600.0)
# Give up a round when this many students in a row are refused for now.
_MAX_LATER = 3
_HOUR_SECONDS = 3600.0
# Do not wait longer for a running mail: the thread may be killed at any moment.
_JOIN_SECONDS = 1.0

_NO_ADDRESS = "There is no address in the class list."
_FAULT = "The mail could not be composed. This is a fault of the grader; its log has more."
_BAD_ADDRESS = "This is not an address to which mail can be sent."


class Mailing:
    """The thread, from `start` until `close`; without a mail server, nothing is sent."""

    def __init__(
        self, folder: Path, course: Course, server: MailServer | None, address: str
    ) -> None:
        """Prepare to mail about the gradebook in a folder; the server's `address` may be empty."""
        self._folder, self._course, self._server, self._address = folder, course, server, address
        self._changed = threading.Condition()
        self._is_woken = self._closing = False
        self._failed = 0
        # The file of corrections as last read.
        self._corrections: str | None = None
        # For students who are refused for now: the number of tries, and when the next is due.
        self._later: dict[str, tuple[int, float]] = {}
        self.fault = ""
        self._thread = threading.Thread(target=self._work, name="mail", daemon=True)

    @property
    def is_on(self) -> bool:
        """Whether anything is mailed."""
        return self._server is not None

    def start(self) -> None:
        """Turn the kinds of the file on and others off, and start the thread."""
        kinds = () if self._server is None else self._server.file.send
        with outbox.opened_beside_writer(self._folder) as book:
            outbox.turn_on(book, kinds, time.time())
        if self.is_on:
            self._thread.start()

    def close(self) -> None:
        """Begin no more mails, and wait briefly for a running one to end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def wake(self) -> None:
        """Look for new events soon; call it from any thread."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def _work(self) -> None:
        while not self._closing:
            try:
                wait = self._round()
            except PostError as error:
                self.fault = str(error)
                log.error("mail cannot be sent", extra={"fault": self.fault})
                wait = self._pause()
            except GraderError as error:
                self.fault = str(error)
                log.error("mail cannot read the gradebook", extra={"fault": type(error).__name__})
                wait = self._pause()
            except Exception:
                # The thread goes on, and staff sees the fault.
                log.exception("mail failed")
                self.fault = "This is a fault of the grader; its log has more."
                wait = self._pause()
            else:
                self.fault, self._failed = "", 0
            self._rest(wait, is_paused=bool(self.fault))

    def _pause(self) -> float:
        self._failed += 1
        return pause_after(self._failed, _PAUSES_SECONDS)

    def _rest(self, seconds: float, *, is_paused: bool) -> None:
        """Wait for `seconds`, or until something is new; news do not shorten a pause after a failure."""
        until = time.monotonic() + seconds
        soon = time.monotonic() + min(_BETWEEN_SECONDS, seconds)
        with self._changed:
            while not self._closing:
                is_woken = self._is_woken and not is_paused
                left = (min(soon, until) if is_woken else until) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_woken = False

    # --- a round ----------------------------------------------------------------------------------

    def _round(self) -> float:
        """Find new events, and send the mails that are due; return the seconds until the next round."""
        with outbox.opened_beside_writer(self._folder) as book:
            text = corrections_text(self._folder)
            outbox.notice(book, time.time(), corrections=text != self._corrections)
            self._corrections = text
            due, wait = self._due(book)
            if not due:
                return wait
            self._send_all(book, due)
        return 0.0

    def _due(self, book: Gradebook) -> tuple[list[tuple[StudentInfo, list[Event]]], float]:
        """Return the students with a due mail and its events, and the seconds until the next mail is due."""
        assert self._server is not None
        file, now = self._server.file, time.time()
        due, wait = [], _IDLE_SECONDS
        for name, waiting in outbox.waiting(book).items():
            student = book.student(name)
            if student is None:
                continue
            _, again_at = self._later.get(name, (0, 0.0))
            events = [event for event in waiting if event.mail == waiting[0].mail]
            # A clock that was set back makes no student wait longer.
            ready_at = min(events[0].noticed_at, now) + file.gather.total_seconds()
            if events[0].mail:
                ready_at = now
            sent = outbox.sent_times(book, name, now - _HOUR_SECONDS, now)
            if len(sent) >= file.most_per_hour:
                ready_at = max(ready_at, sent[-file.most_per_hour] + _HOUR_SECONDS)
            left = max(ready_at - now, again_at - time.monotonic())
            if left <= 0:
                due.append((student, events))
            else:
                wait = min(wait, left)
        return due, wait

    def _send_all(self, book: Gradebook, due: Sequence[tuple[StudentInfo, list[Event]]]) -> None:
        """Send each student's mail, all over one connection."""
        assert self._server is not None
        sent = not_now = 0
        with contextlib.ExitStack() as stack:
            connection: Post | None = None
            for student, events in due:
                if self._closing:
                    break
                composed = self._composed(book, student, events)
                if composed is None:
                    continue
                letter, message = composed
                if connection is None:
                    connection = stack.enter_context(post.opened(self._server))
                outbox.begin(book, events, letter.id, letter.to)
                try:
                    connection.send(message)
                except NotTaken as error:
                    not_now = 0 if error.for_good else not_now + 1
                    self._not_taken(book, letter, events, error)
                    if not_now == _MAX_LATER:
                        # The server's words may name a student, and this goes to the log.
                        raise PostError(
                            f"{self._server.name} accepts no mail now; it answered {error.said[:3]}."
                        ) from error
                    continue
                except PostError as error:
                    if not error.is_unclear:
                        outbox.put_back(book, events, "")
                    raise
                outbox.arrived(book, events, letter.id, time.time())
                self._later.pop(student.id, None)
                not_now = 0
                sent += 1
        if sent:
            log.info("mailed", extra={"sent": sent})

    def _composed(
        self, book: Gradebook, student: StudentInfo, events: Sequence[Event]
    ) -> tuple[Letter, EmailMessage] | None:
        """Compose a student's mail; None if there is no news, or no address."""
        assert self._server is not None
        if not is_address(student.email):
            why = _BAD_ADDRESS if student.email else _NO_ADDRESS
            outbox.refused(book, events, student.email, why)
            return None
        try:
            told = text_about(book, self._course, student, events)
            if told is None:
                outbox.pass_over(book, events)
                return None
            parts = sorted(
                f"{event.kind.value} {event.about} {event.noticed_at}" for event in events
            )
            id_ = events[0].mail or outbox.mail_id(book, student.id, *parts)
            text = f"{told.text}\n{closing(self._server.file, self._address)}"
            letter = Letter(id_, student.email, told.subject, text)
            return letter, email_of(letter, self._server.file)
        except (GraderError, sqlite3.Error):
            raise
        except Exception:
            # Other students still get theirs.
            log.exception("a mail cannot be composed")
            outbox.refused(book, events, student.email, _FAULT)
            return None

    def _not_taken(
        self, book: Gradebook, letter: Letter, events: Sequence[Event], error: NotTaken
    ) -> None:
        student = events[0].student
        if error.for_good:
            outbox.refused(book, events, letter.to, error.said)
            log.warning("a mail was refused for good")
            return
        outbox.put_back(book, events, error.said)
        tries = self._later.get(student, (0, 0.0))[0] + 1
        self._later[student] = tries, time.monotonic() + pause_after(tries, _LATER_SECONDS)


# --- the class page ---------------------------------------------------------------------------------


class MailView(NamedTuple):
    """The mail section of the class page; `fault` is the reason if no mail can be sent.

    `without` are the students without an address who missed no mail so far.
    """

    counts: Counts
    names: dict[str, str]
    without: list[StudentInfo]
    fault: str


def mail_view(book: Gradebook, asker: Asker, mailing: Mailing) -> MailView | None:
    """Return the mail section for a member of staff; None if mail is off."""
    if not mailing.is_on:
        return None
    students = book.students()
    counts = outbox.counts(book, asker.reach(students))
    missed = {each.student for each in counts.undelivered}
    without = [
        each
        for each in students
        if asker.sees(each) and each.id not in missed and not is_address(each.email)
    ]
    return MailView(counts, book.names(), without, mailing.fault)
