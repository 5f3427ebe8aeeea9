"""Rounds of the mailing thread, without a server: mail ids, the hourly limit, and counts for staff."""

from __future__ import annotations

import contextlib
import time
from email.message import EmailMessage
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.exports.mail import post
from grader.exports.mail.mail_file import read_mail_file
from grader.exports.mail.post import PostError
from grader.gradebook import Gradebook, outbox
from grader.gradebook.outbox import Counts, Kind
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.mailing import Mailing, mail_view
from grader.serve.roles import Asker
from tests.grader.exports.mailbox import mail_toml
from tests.grader.serve.conftest import marked
from tests.grader.serve.test_teams import STAFF, Class
from tests.grader.serve.test_term import assignment, term_course


def test_a_mails_id_is_kept_before_it_is_sent_and_the_hourly_limit_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids: list[str] = []

    class Connection:
        """Takes mails, but breaks off during the first."""

        def send(self, message: EmailMessage) -> None:
            ids.append(outbox.waiting(book)["ada"][0].mail)
            if len(ids) == 1:
                raise PostError("broken off", is_unclear=True)

    monkeypatch.setattr(post, "opened", lambda _: contextlib.nullcontext(Connection()))
    folder = term_course(tmp_path / "course", assignment("week1", ["greeting"]))

    def thread(gather: str) -> Mailing:
        keys = {"send": '["verdicts"]', "gather": f'"{gather}"', "most_per_hour": "1"}
        file = read_mail_file(mail_toml(tmp_path, 25, **keys))
        return Mailing(tmp_path / "results", load_course(folder), file, "")

    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, load_course(folder), {"ada": "", "bob": ""})
        with book.transaction():
            book.keep_student(StudentInfo(id="ada", name="Ada", email="ada@example.org"))
        outbox.turn_on(book, [Kind.VERDICTS], time.time())
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        assert thread("1 hour")._round() > 0 and ids == []
        at_once = thread("0 seconds")
        with pytest.raises(PostError):
            at_once._round()
        there.hand_in("ada", greeting=marked(2))
        there.judge()
        at_once._round()
        # The first mail may have arrived, so it is repeated with the same id and no newer events.
        assert len(ids) == 2 and ids[0] and ids[0] == ids[1]
        assert at_once._round() > 0 and len(ids) == 2

        def read_by(asker: Asker) -> tuple[Counts, list[str]]:
            view = mail_view(book, asker, at_once)
            assert view is not None
            return view.counts, [student.id for student in view.without]

        assert read_by(STAFF) == (Counts(1, 1, ()), ["bob"])
        other = Asker(Role.ASSISTANT, name="kim", sections=("B",))
        assert read_by(other) == (Counts(0, 0, ()), [])
