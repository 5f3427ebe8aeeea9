"""The outbox: each event once, of the kinds that are turned on, and none from before that."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from grader.gradebook import Gradebook, outbox, queue
from grader.gradebook.corrections import Correction, GivenExtension
from grader.gradebook.outbox import Counts, Feedback, Kind, KnownExtension, State, Undelivered
from grader.gradebook.policy import Due, Late, Rules
from grader.gradebook.queue import Job, JobState
from grader.gradebook.requests import answer, ask
from grader.results import Outcome, Status, StudentInfo
from tests.grader.builders import checked, exercise
from tests.grader.gradebook.conftest import HERE, School, key_of

NOW = 1_000_000.0
ALL = tuple(Kind)


class Class:
    """A gradebook of a server with two students."""

    def __init__(self, school: School) -> None:
        self.school = school

    def hand_in(self, book: Gradebook, student: str, source: bytes) -> queue.Submission:
        attempt = self.school.hand_in(book, student, source)
        with book.transaction():
            queue.queue_job(book, attempt.id, "task", JobState.WAITING, NOW)
            return queue.add_submission(book, student, attempt.id, f"{student} {source!r}", NOW)

    def judge(self, book: Gradebook, handed: queue.Submission, score: float = 5) -> None:
        (attempt,) = (a for a in book.tables.attempts_of(handed.student) if a.id == handed.attempt)
        self.school.keep(book, attempt, score, source=f"{attempt.id}".encode())
        with book.transaction():
            queue.end_job(book, Job(handed.attempt, "task", handed.student), NOW)


@pytest.fixture
def here(school: School) -> Class:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        queue.prepare(book, ["task"])
        outbox.prepare(book)
        with book.transaction():
            for name in ("ada", "bob"):
                book.keep_student(StudentInfo(id=name, email=f"{name}@example.org"))
    return Class(school)


def noticed(book: Gradebook, now: float = NOW) -> list[tuple[str, Kind, str]]:
    """Notice new events and return everything that waits."""
    outbox.notice(book, now)
    return [(e.student, e.kind, e.about) for of in outbox.waiting(book).values() for e in of]


def delivered(book: Gradebook, mail: str = "m", now: float = NOW) -> None:
    """Deliver everything that waits, one mail for each student."""
    for student, events in outbox.waiting(book).items():
        outbox.begin(book, events, f"{mail} {student}", f"{student}@example.org")
        outbox.arrived(book, events, f"{mail} {student}", now)


def corrected(student: str, reason: str = "shown", **fields: object) -> Correction:
    time = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
    given = {"student": student, "exercise": "task", "author": "ben", "time": time, **fields}
    return Correction(reason=reason, **given)  # type: ignore[arg-type]


def test_a_submission_is_an_event_when_all_of_it_is_judged(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        before = here.hand_in(book, "ada", b"x = 0\n")
        outbox.turn_on(book, ALL, NOW)
        first, second = (here.hand_in(book, who, b"x = 1\n") for who in ("ada", "bob"))
        assert noticed(book) == []
        here.judge(book, before)
        here.judge(book, second)
        assert noticed(book) == [("bob", Kind.VERDICTS, second.id)]
        assert outbox.turned_on(book)[Kind.VERDICTS] == before.number
        delivered(book)
        assert noticed(book) == []
        here.judge(book, first)
        assert noticed(book) == [("ada", Kind.VERDICTS, first.id)]
        assert outbox.turned_on(book)[Kind.VERDICTS] == second.number
        delivered(book, "n")
        # A regrade is not a submission.
        with book.transaction():
            queue.queue_job(book, first.attempt, "task", JobState.WAITING, NOW, priority=1)
        here.judge(book, first, 3)
        assert noticed(book) == []


def test_a_replaced_submission_is_not_an_event(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        outbox.turn_on(book, ALL, NOW)
        older, newer = (here.hand_in(book, "ada", source) for source in (b"x = 1\n", b"x = 2\n"))
        with book.transaction():
            queue.replace_job(book, older.attempt, "task", NOW)
        here.judge(book, newer)
        assert noticed(book) == [("ada", Kind.VERDICTS, newer.id)]


def test_each_answer_is_an_event(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        request = ask(book, "ada", "task", "Why?", "a file")
        answer(book, request, "So.", "ben")
        outbox.turn_on(book, ALL, NOW)
        assert noticed(book) == []
        answer(book, request, "Otherwise.", "ben")
        assert noticed(book) == [("ada", Kind.ANSWERS, f"{request.number} 2")]
        assert outbox.waiting(book)["ada"][0].request == request.number
        delivered(book)
        assert noticed(book) == []


def test_adding_changing_or_removing_a_correction_is_an_event(here: Class) -> None:
    change = ("ada", Kind.CHANGES, "task")
    with Gradebook.open_to_write(here.school.results) as book:
        for who in ("ada", "bob"):
            here.judge(book, here.hand_in(book, who, b"x = 1\n"))
        book.correct(corrected("ada", points=1.0))
        outbox.turn_on(book, ALL, NOW)
        assert noticed(book) == []
        for made in ((corrected("ada", points=2.0),), (corrected("ada", points=2.0),), ()):
            book.correct(*made, replacing=() if made else (0,))
            assert noticed(book) == [change]
            delivered(book, f"{len(book.corrections())} {made}")
        # A change joins the mail of an earlier one that still waits.
        book.correct(corrected("ada", comment="Well done.", reason=""))
        assert noticed(book, NOW) == [change]
        book.correct(corrected("ada", add=1.0))
        assert noticed(book, NOW + 1) == [change]
        assert outbox.waiting(book)["ada"][0].noticed_at == NOW + 1


def test_a_correction_for_the_class_is_an_event_for_students_whose_points_change(
    here: Class,
) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        here.judge(book, here.hand_in(book, "ada", b"x = 1\n"))
        outbox.turn_on(book, [Kind.CHANGES], NOW)
        book.correct(corrected("", add=1.0))
        assert noticed(book) == [("ada", Kind.CHANGES, "task")], "bob handed in nothing"
        delivered(book)
        # A test that ada passed and bob failed is given to all.
        attempt = here.school.hand_in(book, "bob", b"x = 2\n")
        failed = checked("test_value", Outcome.FAILED), checked("test_other")
        judged = exercise(*failed, name="task", status=Status.PARTIAL, worth=10.0)
        with book.transaction():
            book.keep(attempt, key_of(b"x = 2\n"), 0, judged, HERE)
        book.correct(corrected("", give="test_value"))
        assert noticed(book) == [("bob", Kind.CHANGES, "task")]


def test_adding_or_removing_an_extension_is_an_event_if_points_change(
    school: School,
) -> None:
    due = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
    rules = Rules(due=(Due(at=due),), late=Late(per_day=20))
    days = [due + datetime.timedelta(days=day) for day in range(3)]
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, policy=rules)
        queue.prepare(book, ["task"])
        for who, day in (("ada", days[1]), ("bob", days[0])):
            school.keep(book, school.hand_in(book, who, b"x = 1\n", f"{day:%Y-%m-%dT%H:%M:%SZ}"), 5)
        outbox.turn_on(book, ALL, NOW)
        for who in ("ada", "bob"):
            book.extend(
                GivenExtension(student=who, until=days[2], reason="ill", author="ben", time=due)
            )
        assert noticed(book) == [("ada", Kind.CHANGES, "task")], "bob was in time"
        delivered(book)
        assert noticed(book) == []
        book.extend(removing=(0,))
        assert noticed(book) == [("ada", Kind.CHANGES, "task")]


def test_extensions_from_before_the_outbox_table_are_not_events(school: School) -> None:
    due = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
    later = due + datetime.timedelta(days=1)
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, policy=Rules(due=(Due(at=due),), late=Late(per_day=20)))
        queue.prepare(book, ["task"])
        outbox.turn_on(book, ALL, NOW)
        school.keep(book, school.hand_in(book, "ada", b"x = 1\n", f"{later:%Y-%m-%dT%H:%M:%SZ}"), 5)
        # As in a gradebook of a grader without this table.
        book.tables.connection.execute("DROP TABLE outbox_extensions")
        book.extend(
            GivenExtension(student="ada", until=later, reason="ill", author="ben", time=due)
        )
        outbox.turn_on(book, ALL, NOW)
        assert noticed(book) == []


def test_every_field_of_an_extension_that_changes_points_is_known() -> None:
    without_effect = {"reason", "author", "time"}
    assert {*KnownExtension._fields} == {*GivenExtension.__struct_fields__} - without_effect


def test_a_mail_being_sent_keeps_its_events_until_put_back(
    here: Class,
) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        outbox.turn_on(book, ALL, NOW)
        here.judge(book, here.hand_in(book, "ada", b"x = 1\n"))
        outbox.notice(book, NOW)
        first = outbox.waiting(book)["ada"]
        outbox.begin(book, first, "m1", "ada@example.org")
        book.correct(corrected("ada", add=1.0))
        outbox.notice(book, NOW - 9)
        assert [event.mail for event in outbox.waiting(book)["ada"]] == ["m1", ""]
        outbox.put_back(book, first, "451 later")
        assert [event.mail for event in outbox.waiting(book)["ada"]] == ["", ""]
        delivered(book)
        assert outbox.waiting(book) == {}
        assert outbox.sent_times(book, "ada", NOW - 1, NOW) == [NOW]
        assert outbox.counts(book) == Counts(1, 0, ())
        assert outbox.counts(book, ["bob"]) == Counts(0, 0, ())


def test_a_refused_mail_waits_for_another_address(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        outbox.turn_on(book, ALL, NOW)
        here.judge(book, here.hand_in(book, "ada", b"x = 1\n"))
        outbox.notice(book, NOW)
        outbox.refused(book, outbox.waiting(book)["ada"], "ada@example.org", "550 unknown")
        undelivered = Undelivered("ada", "ada@example.org", "550 unknown")
        assert outbox.counts(book) == Counts(0, 0, (undelivered,))
        outbox.turn_on(book, ALL, NOW)
        assert outbox.waiting(book) == {}
        with book.transaction():
            book.keep_student(StudentInfo(id="ada", email="lovelace@example.org"))
        outbox.turn_on(book, ALL, NOW)
        assert outbox.counts(book) == Counts(0, 1, ())


def test_turning_a_kind_off_drops_its_events(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        outbox.turn_on(book, ALL, NOW)
        here.judge(book, here.hand_in(book, "ada", b"x = 1\n"))
        book.correct(corrected("bob", points=1.0))
        assert len(noticed(book)) == 2
        outbox.turn_on(book, [Kind.CHANGES], NOW)
        assert noticed(book) == [("bob", Kind.CHANGES, "task")]
        outbox.turn_on(book, (), NOW)
        book.correct(corrected("bob", points=2.0))
        outbox.turn_on(book, ALL, NOW)
        assert noticed(book) == []


def test_a_mail_id_is_stable_and_reveals_nothing(here: Class) -> None:
    with Gradebook.open_to_write(here.school.results) as book:
        ids = [outbox.mail_id(book, *parts) for parts in (("ada", "1"), ("ada", "1"), ("ada", "2"))]
        assert ids[0] == ids[1] != ids[2] and "ada" not in ids[0]


def test_feedback_is_kept_by_assignment_and_apart_from_a_servers_mail(
    here: Class, tmp_path: Path
) -> None:
    with outbox.mailing(here.school.results) as book:
        outbox.keep_mailed(book, "ada", "week1", Feedback("m1", State.SENDING), "a@b.org", NOW)
        assert outbox.waiting(book) == {} and outbox.counts(book) == Counts(0, 0, ())
        outbox.keep_mailed(book, "ada", "week1", Feedback("m1", State.SENT), "a@b.org", NOW)
        assert outbox.mailed(book, "week1") == {"ada": Feedback("m1", State.SENT)}
        assert outbox.mailed(book, "week2") == {}
        assert outbox.waiting(book) == {} and outbox.counts(book) == Counts(0, 0, ())
    with Gradebook.open_to_write(tmp_path / "new") as book:
        assert outbox.mailed(book, "") == {}, "nothing was ever mailed"
