"""The outbox of a gradebook: events to mail to students, and the state of each.

Theory of operation. An `Event` is a judged submission, an answer to a regrade request, or an exercise whose
points a person changed, by a correction or by an extension. `notice` finds new events by comparing the
gradebook with the known ones, so no event is lost while no server runs or no mail server answers. Rows hold
no text: a mail is composed when it is sent. `begin` first keeps its id on the disk, so that a mail
interrupted by a kill is sent again under the same id.

`grade mail` keeps the last feedback of each student in the same table. Only this module has the SQL of these
tables, which are made if missing. Functions that write make their own transaction.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import hashlib
import hmac
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from grader.gradebook import queue
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction, GivenExtension, rejudged
from grader.gradebook.database import FILE, only_writer, opened, opened_to_add
from grader.gradebook.policy import Extension
from grader.gradebook.queue import JobState
from grader.gradebook.standing import choices, entry_of
from grader.gradebook.work import Request
from grader.results import Entry
from grader.text import utc

_TABLES = """
CREATE TABLE IF NOT EXISTS outbox (
    student TEXT NOT NULL REFERENCES students (id),
    kind TEXT NOT NULL,
    about TEXT NOT NULL,            -- a submission, a request and the number of its answer, an exercise
    state TEXT NOT NULL,
    noticed_at REAL NOT NULL,       -- seconds since 1970
    mail TEXT NOT NULL,             -- the id of its mail, empty before the first try
    address TEXT NOT NULL,          -- of that mail
    said TEXT NOT NULL,             -- why it did not arrive
    PRIMARY KEY (student, kind, about)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (state) WHERE state IN ('waiting', 'sending');
CREATE TABLE IF NOT EXISTS outbox_mails (   -- mails sent by a server
    mail TEXT PRIMARY KEY,
    student TEXT NOT NULL,
    sent_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outbox_mails_by_student ON outbox_mails (student, sent_at);
CREATE TABLE IF NOT EXISTS outbox_corrections (     -- corrections already noticed
    student TEXT NOT NULL,                  -- empty for the class
    exercise TEXT NOT NULL,
    digest TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (student, exercise, digest)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox_extensions (      -- extensions already noticed
    student TEXT NOT NULL,
    exercises TEXT NOT NULL,                -- JSON
    until TEXT NOT NULL,                    -- ISO 8601
    PRIMARY KEY (student, exercises, until)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox_kinds (   -- the kinds that are on; submissions up to `since` are known
    kind TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) WITHOUT ROWID;
"""
# The kind of rows of `grade mail`; a server sends events of the other kinds.
_FEEDBACK = "feedback"
_OF_SERVER = f"kind <> '{_FEEDBACK}'"
_LOCK = "mail.lock"


class Kind(enum.Enum):
    """The kind of an event; the value is its name in mail.toml."""

    VERDICTS = "verdicts"
    ANSWERS = "answers"
    CHANGES = "changes"


class State(enum.Enum):
    """The state of an event; a `known` one happened before mail was turned on, and is never sent."""

    KNOWN = "known"
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    REFUSED = "refused"


class Event(NamedTuple):
    """News for a student.

    `about` is the id of a submission, the numbers of a request and of its answer, or an exercise. `mail` is the
    id of a mail about it that may have arrived, else empty.
    """

    student: str
    kind: Kind
    about: str
    noticed_at: float
    mail: str = ""

    @classmethod
    def of_answer(cls, request: Request, now: float) -> Event:
        """Return the event of the newest answer to a request."""
        about = f"{request.number} {len(request.answers)}"
        return cls(request.student, Kind.ANSWERS, about, now)

    @property
    def request(self) -> int:
        """The number of the request whose answer this is."""
        return int(self.about.partition(" ")[0])


class Undelivered(NamedTuple):
    """A student whose mail was refused, and the reason."""

    student: str
    address: str
    said: str


class Counts(NamedTuple):
    """The number of mails sent and of students with waiting events, and the students whose mail was refused."""

    sent: int
    waiting: int
    undelivered: tuple[Undelivered, ...]


def prepare(book: Gradebook) -> None:
    """Make the tables if there are none."""
    # Earlier versions mailed corrections but not extensions, so treat existing extensions as known.
    is_older = _has(book, "outbox_kinds") and not _has(book, "outbox_extensions")
    known = _given(book) if is_older else set()
    book.tables.connection.executescript(_TABLES)
    if known:
        with book.transaction():
            _keep_extensions(book, known)


@contextlib.contextmanager
def opened_beside_writer(folder: Path) -> Iterator[Gradebook]:
    """Open the gradebook of a running server, in its process, to read it and to write the outbox."""
    with opened_to_add(folder / FILE) as tables:
        yield Gradebook(folder, tables)


@contextlib.contextmanager
def mailing(folder: Path, assignment: str | None = None) -> Iterator[Gradebook]:
    """Open the gradebook in a folder for `grade mail`, also while a server writes to it.

    Raises GraderError while another `grade mail` has it open.
    """
    with (
        only_writer(folder, _LOCK, "Another `grade mail` reads"),
        opened(folder / FILE, create=True) as tables,
    ):
        book = Gradebook(folder, tables, assignment or "")
        prepare(book)
        yield book


def mail_id(book: Gradebook, *parts: str) -> str:
    """Return the id of a mail: the same for the same parts, which it does not reveal."""
    text = "\n".join(("mail", *parts))
    return hmac.new(book.facts.secret.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]


# --- kinds ------------------------------------------------------------------------------------------


def turn_on(book: Gradebook, kinds: Collection[Kind], now: float) -> None:
    """Mail events of these kinds from now on, and no others.

    A kind that was off begins with the events from now on. Waiting events of other kinds are dropped. Refused
    events wait again if the student has a new address.
    """
    prepare(book)
    before, connection = turned_on(book), book.tables.connection
    with book.transaction():
        for kind in set(before) - set(kinds):
            connection.execute("DELETE FROM outbox_kinds WHERE kind = ?", (kind.value,))
            connection.execute(
                "DELETE FROM outbox WHERE kind = ? AND state IN ('waiting', 'sending')",
                (kind.value,),
            )
        for kind in (kind for kind in Kind if kind in kinds and kind not in before):
            newest = queue.newest(book, 1)
            since = newest[0].number if newest else 0
            connection.execute("INSERT INTO outbox_kinds VALUES (?, ?)", (kind.value, since))
            if kind is Kind.ANSWERS:
                _add(book, _answers(book, now), State.KNOWN)
            elif kind is Kind.CHANGES:
                _keep_corrections(book, book.corrections())
                _keep_extensions(book, _given(book))
        connection.execute(
            "UPDATE outbox SET state = 'waiting', mail = '', said = ''"  # noqa: S608 (ours)
            f" WHERE state = 'refused' AND {_OF_SERVER}"
            " AND address <> (SELECT email FROM students WHERE id = outbox.student)"
        )


def turned_on(book: Gradebook) -> dict[Kind, int]:
    """Return the kinds that are on, each with the number of the last submission that is known."""
    rows = book.tables.connection.execute("SELECT kind, since FROM outbox_kinds").fetchall()
    return {Kind(kind): since for kind, since in rows}


# --- new events -------------------------------------------------------------------------------------


def notice(book: Gradebook, now: float, *, corrections: bool = True) -> None:
    """Add the new events of the kinds that are on.

    Pass `corrections=False` if their file, the slowest to read, is unchanged. Raises CorrectionsError if it has
    a mistake.
    """
    kinds = turned_on(book)
    if Kind.VERDICTS in kinds:
        since, judged = _judged(book, kinds[Kind.VERDICTS], now)
        if since > kinds[Kind.VERDICTS]:
            with book.transaction():
                book.tables.connection.execute(
                    "UPDATE outbox_kinds SET since = ? WHERE kind = 'verdicts'", (since,)
                )
                _add(book, judged, State.WAITING)
        else:
            _add_new(book, judged)
    if Kind.ANSWERS in kinds:
        _add_new(book, _answers(book, now))
    if Kind.CHANGES in kinds and corrections:
        _notice_changes(book, now)


def _judged(book: Gradebook, since: int, now: float) -> tuple[int, list[Event]]:
    """Return the judged submissions after a number, and the number up to which none is still waiting."""

    judged, open_since = list[Event](), 0
    for handed, states in queue.submissions_after(book, since):
        if states & {JobState.WAITING, JobState.RUNNING}:
            open_since = open_since or handed.number
            continue
        if not open_since:
            since = handed.number
        # If newer files replaced all of it, there is no verdict.
        if JobState.DONE in states:
            judged.append(Event(handed.student, Kind.VERDICTS, handed.id, now))
    return since, judged


def _answers(book: Gradebook, now: float) -> list[Event]:
    return [Event.of_answer(request, now) for request in book.requests() if request.answers]


def _notice_changes(book: Gradebook, now: float) -> None:
    """Add an event for each exercise of a student whose corrections were added or removed.

    An extension is an event where it changes points.
    """
    corrections = book.corrections()
    before, after = _known_corrections(book), _counted(corrections)
    known_extensions, given = _known_extensions(book), _given(book)
    if before == after and known_extensions == given:
        return
    by_digest = {_digest(made): made for made in corrections}
    touched: dict[tuple[str, str], None] = {}
    for change in (after - before) + (before - after):
        if change.student:
            touched[change.student, change.exercise] = None
            continue
        made = by_digest.get(change.digest)
        touched |= dict.fromkeys(
            (student, change.exercise) for student in _touched_by_class(book, change.exercise, made)
        )
    touched |= dict.fromkeys(_touched_by_extensions(book, known_extensions, given))
    known = {student.id for student in book.students()}
    with book.transaction():
        _keep_corrections(book, corrections)
        _keep_extensions(book, given)
        new = [
            Event(student, Kind.CHANGES, exercise, now)
            for student, exercise in touched
            if student in known
        ]
        _add(book, new, State.WAITING, again=True)


def _touched_by_class(book: Gradebook, exercise: str, made: Correction | None) -> Iterator[str]:
    """Yield the students whose points a correction for the class changes; all judged ones if it was removed."""
    counts, rules = book.attempt_counts(), book.rules()
    for student in book.students():
        if student.id not in counts:
            continue
        work = book.work(student)
        choice = choices(work, rules).get(exercise)
        if choice is None or choice.judged_as is None:
            continue
        verdict = work.verdicts[exercise][choice.judged_as]
        if verdict.judged is None:
            continue
        if made is None or not made.test:
            yield student.id
            continue
        result = verdict.result
        if rejudged(result, [made]).score != result.score:
            yield student.id


class KnownExtension(NamedTuple):
    """The fields of a `GivenExtension` that change points."""

    student: str
    exercises: tuple[str, ...]
    until: datetime.datetime

    @classmethod
    def of(cls, given: GivenExtension) -> KnownExtension:
        """Return what is known of an extension; times are kept in whole seconds."""
        return cls(
            given.student, given.exercises, datetime.datetime.fromisoformat(utc(given.until))
        )

    @property
    def rule(self) -> Extension:
        """The same as an extension of a policy."""
        return Extension(student=self.student, exercises=self.exercises, until=self.until)


def _touched_by_extensions(
    book: Gradebook, before: set[KnownExtension], after: set[KnownExtension]
) -> Iterator[tuple[str, str]]:
    """Yield the students and exercises whose points differ between the extensions before and after."""
    rules = book.rules()
    given = tuple(extension.rule for extension in sorted(before))
    policy = msgspec.structs.replace(rules.policy, given=given)
    rules_before = msgspec.structs.replace(rules, policy=policy)
    for name in sorted({extension.student for extension in before ^ after}):
        if (student := book.student(name)) is None:
            continue
        work = book.work(student)
        was, now = (
            {} if (entry := entry_of(work, each)) is None else _points(entry)
            for each in (rules_before, rules)
        )
        yield from ((name, exercise) for exercise in now if now[exercise] != was.get(exercise))


def _points(entry: Entry) -> dict[str, float]:
    return {exercise.name: exercise.score for exercise in entry.result.exercises}


def _given(book: Gradebook) -> set[KnownExtension]:
    return {KnownExtension.of(extension) for extension in book.extensions()}


def _known_extensions(book: Gradebook) -> set[KnownExtension]:
    rows = _rows(book, "SELECT student, exercises, until FROM outbox_extensions")
    return {
        KnownExtension(
            student,
            tuple(msgspec.json.decode(exercises)),
            datetime.datetime.fromisoformat(until),
        )
        for student, exercises, until in rows
    }


def _keep_extensions(book: Gradebook, given: Iterable[KnownExtension]) -> None:
    """Replace the known extensions, within a transaction."""
    connection = book.tables.connection
    connection.execute("DELETE FROM outbox_extensions")
    connection.executemany(
        "INSERT INTO outbox_extensions VALUES (?, ?, ?)",
        [
            (known.student, msgspec.json.encode(known.exercises).decode(), utc(known.until))
            for known in given
        ],
    )


class _KnownCorrection(NamedTuple):
    """A correction that was noticed; `student` is empty for the class."""

    student: str
    exercise: str
    digest: str


def _known_corrections(book: Gradebook) -> Counter[_KnownCorrection]:
    query = "SELECT student, exercise, digest, count FROM outbox_corrections"
    rows = book.tables.connection.execute(query).fetchall()
    return Counter({_KnownCorrection(*key): count for *key, count in rows})


def _counted(corrections: Iterable[Correction]) -> Counter[_KnownCorrection]:
    return Counter(
        _KnownCorrection(made.student, made.exercise, _digest(made)) for made in corrections
    )


def _digest(made: Correction) -> str:
    return hashlib.sha256(msgspec.json.encode(made)).hexdigest()[:32]


def _keep_corrections(book: Gradebook, corrections: Iterable[Correction]) -> None:
    """Replace the known corrections, within a transaction."""
    connection = book.tables.connection
    connection.execute("DELETE FROM outbox_corrections")
    connection.executemany(
        "INSERT INTO outbox_corrections VALUES (?, ?, ?, ?)",
        [(*key, count) for key, count in _counted(corrections).items()],
    )


def _add_new(book: Gradebook, events: Sequence[Event]) -> None:
    """Add events that are missing; takes no lock if there are none."""
    find = "SELECT 1 FROM outbox WHERE student = ? AND kind = ? AND about = ?"
    new = [e for e in events if not _rows(book, find, e.student, e.kind.value, e.about)]
    if new:
        with book.transaction():
            _add(book, new, State.WAITING)


def _add(book: Gradebook, events: Iterable[Event], state: State, *, again: bool = False) -> None:
    """Add events, within a transaction. Existing ones stay as they are, or with `again` wait again."""
    conflict = "NOTHING"
    if again:
        conflict = "UPDATE SET state = excluded.state, noticed_at = excluded.noticed_at, mail = ''"
    book.tables.connection.executemany(
        f"INSERT INTO outbox VALUES (?, ?, ?, ?, ?, '', '', '') ON CONFLICT DO {conflict}",  # noqa: S608 (ours)
        [(e.student, e.kind.value, e.about, state.value, e.noticed_at) for e in events],
    )


# --- sending ----------------------------------------------------------------------------------------


def waiting(book: Gradebook) -> dict[str, list[Event]]:
    """Return the waiting events by student: first those whose mail may have arrived, then the oldest."""
    rows = _rows(
        book,
        "SELECT student, kind, about, noticed_at, mail FROM outbox"  # noqa: S608 (ours)
        f" WHERE state IN ('waiting', 'sending') AND {_OF_SERVER} ORDER BY state, noticed_at, kind, about",
    )
    events: dict[str, list[Event]] = {}
    for student, kind, about, noticed_at, mail in rows:
        event = Event(student, Kind(kind), about, noticed_at, mail)
        events.setdefault(student, []).append(event)
    return events


def begin(book: Gradebook, events: Iterable[Event], mail: str, address: str) -> None:
    """Keep the id of a mail before it is sent; it is on the disk when this returns."""
    change = "UPDATE outbox SET state = 'sending', mail = ?, address = ?, said = ''"
    _change(book, events, change, mail, address)


def arrived(book: Gradebook, events: Sequence[Event], mail: str, now: float) -> None:
    """Record that the mail server accepted a mail."""
    with book.transaction():
        book.tables.connection.execute(
            "INSERT OR REPLACE INTO outbox_mails VALUES (?, ?, ?)", (mail, events[0].student, now)
        )
        _change(book, events, "UPDATE outbox SET state = 'sent', mail = ?", mail)


def refused(book: Gradebook, events: Iterable[Event], address: str, said: str) -> None:
    """Record that the address gets no mail about these events, and why."""
    change = "UPDATE outbox SET state = 'refused', address = ?, said = ?"
    _change(book, events, change, address, said)


def put_back(book: Gradebook, events: Iterable[Event], said: str) -> None:
    """Let events wait again after their mail did not arrive."""
    _change(book, events, "UPDATE outbox SET state = 'waiting', mail = '', said = ?", said)


def pass_over(book: Gradebook, events: Iterable[Event]) -> None:
    """Drop events about something that no longer exists."""
    _change(book, events, "UPDATE outbox SET state = 'known', mail = ''")


def sent_times(book: Gradebook, student: str, since: float, until: float) -> list[float]:
    """Return the times between two moments at which a student was sent a mail, oldest first."""
    query = (
        "SELECT sent_at FROM outbox_mails WHERE student = ? AND sent_at > ? AND sent_at <= ?"
        " ORDER BY sent_at"
    )
    return [row[0] for row in _rows(book, query, student, since, until)]


def counts(book: Gradebook, reach: Collection[str] | None = None) -> Counts:
    """Count the mail to these students, by default to the class."""
    among = "" if reach is None else "AND student IN (SELECT value FROM json_each(?))"
    students = () if reach is None else (msgspec.json.encode(sorted(reach)).decode(),)
    sent = f"SELECT count(*) FROM outbox_mails WHERE true {among}"  # noqa: S608 (ours)
    open_ones = (
        "SELECT count(DISTINCT student) FROM outbox"  # noqa: S608
        f" WHERE state IN ('waiting', 'sending') AND {_OF_SERVER} {among}"
    )
    lost = (
        "SELECT student, address, said, max(noticed_at) FROM outbox WHERE state = 'refused'"  # noqa: S608
        f" AND {_OF_SERVER} {among} GROUP BY student ORDER BY student"
    )
    return Counts(
        _rows(book, sent, *students)[0][0],
        _rows(book, open_ones, *students)[0][0],
        tuple(Undelivered(*row[:3]) for row in _rows(book, lost, *students)),
    )


def _change(book: Gradebook, events: Iterable[Event], change: str, *values: Any) -> None:
    where = "WHERE student = ? AND kind = ? AND about = ?"
    with book.transaction():
        book.tables.connection.executemany(
            f"{change} {where}",
            [(*values, each.student, each.kind.value, each.about) for each in events],
        )


def _has(book: Gradebook, table: str) -> bool:
    return bool(_rows(book, "SELECT 1 FROM sqlite_master WHERE name = ?", table))


def _rows(book: Gradebook, query: str, *values: Any) -> list[Any]:
    return book.tables.connection.execute(query, values).fetchall()


# --- the feedback of `grade mail` -------------------------------------------------------------------


class Feedback(NamedTuple):
    """The id of the last mail with feedback to a student, and its state."""

    mail: str
    state: State


def mailed(book: Gradebook, work: str) -> dict[str, Feedback]:
    """Return the last feedback on a work by student; the work is an assignment, or empty for the course."""
    if not _has(book, "outbox"):
        return {}
    query = "SELECT student, mail, state FROM outbox WHERE kind = ? AND about = ?"
    return {
        student: Feedback(mail, State(state))
        for student, mail, state in _rows(book, query, _FEEDBACK, work)
    }


def keep_mailed(
    book: Gradebook, student: str, work: str, feedback: Feedback, address: str, now: float
) -> None:
    """Replace the last feedback of a student; it is on the disk when this returns."""
    row = (student, _FEEDBACK, work, feedback.state.value, now, feedback.mail, address, "")
    with book.transaction():
        book.tables.connection.execute(
            "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )
