"""A gradebook loses nothing that it kept: after a kill, on a full disk, or with a damaged file."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.cli.memory import Memory, remembered
from grader.errors import GraderError, SubmissionError
from grader.gradebook import Attempt, Gradebook
from grader.gradebook.review import Attention, Reason
from grader.results import StudentInfo

from .conftest import School

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="needs fork"), pytest.mark.thorough]

FILE = "gradebook.sqlite"
# Everything in a gradebook except times and its secret, in an order independent of how it is stored.
TABLES = (
    "SELECT json_remove(facts, '$.secret') FROM facts",
    "SELECT * FROM students ORDER BY id",
    "SELECT * FROM attempts ORDER BY id",
    "SELECT * FROM sources ORDER BY digest",
    "SELECT * FROM files ORDER BY 1, 2",
    "SELECT * FROM environments ORDER BY id",
    "SELECT attempt, exercise, key, source, status, score, environment, result FROM grades ORDER BY 1, 2",
    "SELECT revision, attempt, exercise, result FROM replaced ORDER BY 1, 2, 3",
)
Known = list[list[tuple[object, ...]]]


def known(file: Path) -> Known:
    """Read everything from a sound gradebook file. A file without tables gives an empty list."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
            return []
        return [connection.execute(table).fetchall() for table in TABLES]


def steps(school: School, book: Gradebook) -> Iterator[None]:
    """Grade twice, yielding after each transaction. Zoë hands in another file for the second grading."""
    attempts: dict[str, tuple[Attempt, bytes]] = {}
    for revision, score in ((1, 4.0), (2, 10.0)):
        book.begin(school.course)
        yield
        for student in ("ann", "Zoë 東"):
            source = f"x = '{student}'\n".encode() * (1 if student == "ann" else revision)
            attempt = school.hand_in(book, student, source)
            attempts[student] = (attempt, source)
            yield
            school.wait_for(book, attempt, source)
            yield
        for student in ("ann", "Zoë 東"):
            attempt, source = attempts[student]
            school.keep(book, attempt, score, source)
            yield
        with book.transaction():
            book.keep_student(StudentInfo(id="mia", name="Mia", ids={"canvas_id": str(revision)}))
        yield
        book.finish((Attention(Reason.TIMEOUT, "ann", ("task",), f"in {revision}"),))
        yield


def grade(school: School, *, done: Callable[[], object] = lambda: None) -> None:
    with Gradebook.open_to_write(school.results) as book:
        for _ in steps(school, book):
            done()


def in_a_child(act: Callable[[], None]) -> int:
    """Run `act` in a fork of this process and return its exit code as os.waitstatus_to_exitcode gives it."""
    child = os.fork()
    if not child:
        try:
            act()
        except BaseException:  # noqa: BLE001  # the exit code tells
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def snapshots(school: School) -> list[Known]:
    """Return the contents before the first step and after each one of an undisturbed grading."""
    reference = School(school.course, school.results.with_name("undisturbed"))
    after: list[Known] = [[]]
    grade(reference, done=lambda: after.append(known(reference.results / FILE)))
    return after


def test_a_kill_at_any_statement_loses_no_transaction_and_leaves_no_half(
    school: School, snapshots: list[Known], memory_path: Path
) -> None:
    """One child process is killed at each SQL statement of two gradings."""
    school = School(school.course, memory_path / "results")
    died_within, number = set(), 0
    while True:
        number += 1
        shutil.rmtree(school.results, ignore_errors=True)
        reader, writer = os.pipe()

        def act(deadly: int = number, writer: int = writer) -> None:
            left = deadly

            def count(_: str) -> None:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

            with Gradebook.open_to_write(school.results) as book:
                book.tables.connection.set_trace_callback(count)
                for _ in steps(school, book):
                    os.write(writer, b".")

        status = in_a_child(act)
        os.close(writer)
        done = len(os.read(reader, 1000))
        os.close(reader)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        left = known(school.results / FILE)
        died_within.add(done)
        assert _between(left, snapshots[done], snapshots[done + 1]), (number, done)
        if number % 20 == 0:
            # Grading again ends in the same state as an undisturbed grading.
            grade(school)
            assert _final(school) == _entries(snapshots[-1])
    assert died_within == set(range(len(snapshots) - 1)), "each transaction was hit"
    assert number > 100


def _between(left: Known, before: Known, after: Known) -> bool:
    """Whether this is the state before a step or after it. Before the first, an empty gradebook may exist."""
    is_made = before == [] and left[1:] == [[]] * 7
    return is_made or left in (before, after)


def _final(school: School) -> object:
    return _entries(known(school.results / FILE))


def _entries(state: Known) -> object:
    """Select what must be the same however often grading was restarted: students, attempts, files, scores."""
    return [state[1], state[2], state[3], state[4], [row[:6] for row in state[6]]]


def test_a_power_cut_at_any_byte_of_the_log_leaves_an_earlier_state(
    school: School, snapshots: list[Known]
) -> None:
    """A write-ahead log cut at any byte gives exactly the state that was synced before it."""
    with Gradebook.open_to_write(school.results) as book:
        for _ in steps(school, book):
            pass
        log = (school.results / f"{FILE}-wal").read_bytes()
        file = (school.results / FILE).read_bytes()
    seen = set()
    for length in (*range(0, len(log), 1500), len(log)):
        copy = school.results.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        (copy / FILE).write_bytes(file)
        (copy / f"{FILE}-wal").write_bytes(log[:length])
        state = known(copy / FILE)
        places = [
            place
            for place, snapshot in enumerate(snapshots)
            if (not any(state[1:]) and place < 2) or state == snapshot
        ]
        assert places, length
        seen.add(places[0])
    assert len(seen) > 8
    assert state == snapshots[-1]


@pytest.mark.parametrize("room", [0, 8.5, 20.25, 35.5, 45.75])
def test_a_full_disk_is_reported_and_loses_nothing(
    school: School, snapshots: list[Known], room: float
) -> None:
    def act() -> None:
        # As with a quota, no file may grow beyond this.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room * 4096), resource.RLIM_INFINITY))
        os.close(reader)
        try:
            grade(school, done=lambda: os.write(writer, b"."))
        except GraderError as error:
            os.write(writer, str(error).encode())

    reader, writer = os.pipe()
    assert in_a_child(act) == 0
    os.close(writer)
    message = os.read(reader, 10_000).decode()
    os.close(reader)
    done = len(message) - len(message.lstrip("."))
    assert "make room" in message or "when there is room" in message
    assert "move it away" not in message
    if (school.results / FILE).is_file() and done:
        assert _between(known(school.results / FILE), snapshots[done], snapshots[done + 1])
    grade(school)
    assert _final(school) == _entries(snapshots[-1])


def test_a_gradebook_that_cannot_grow_keeps_its_contents(
    school: School, snapshots: list[Known]
) -> None:
    def fill() -> None:
        with Gradebook.open_to_write(school.results) as book:
            for number, _ in enumerate(steps(school, book), 1):
                if number == 7:
                    pages = book.tables.connection.execute("PRAGMA page_count").fetchone()[0]
                    book.tables.connection.execute(f"PRAGMA max_page_count = {pages + 1}")
                    school.keep(book, book.tables.attempts()[0], 1, os.urandom(20_000))

    with pytest.raises(GraderError, match=r"full.*make room"):
        fill()
    assert known(school.results / FILE) == snapshots[7]
    grade(school)
    assert _final(school) == _entries(snapshots[-1])


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture
def gradebook(school: School) -> Path:
    grade(school)
    return school.results / FILE


def read_all(folder: Path) -> object:
    """Read everything that commands read from a gradebook."""
    with Gradebook.open(folder) as book:
        entries = list(book.entries())
        return (
            entries,
            [book.sources(entry) for entry in entries],
            book.students(),
            book.absent(),
            book.attempt_counts(),
            list(book.replaced()),
            book.attention(),
            book.facts,
        )


def test_a_damaged_file_never_gives_a_traceback_and_is_never_recreated(gradebook: Path) -> None:
    sound, expected = gradebook.read_bytes(), read_all(gradebook.parent)
    refused = 0
    for begin in range(0, len(sound), 1024):
        for damage in (
            b"\0" * 1024,
            random.Random(begin).randbytes(1024),
            sound[begin : begin + 1024][::-1],
        ):
            damaged = sound[:begin] + damage + sound[begin + 1024 :]
            gradebook.write_bytes(damaged)
            try:
                read_all(gradebook.parent)
            except GraderError:
                refused += 1
            with contextlib.suppress(GraderError), Gradebook.open_to_write(gradebook.parent):
                pass
            assert gradebook.stat().st_size > 0
    assert refused > 40
    gradebook.write_bytes(sound)
    assert read_all(gradebook.parent) == expected


def test_a_truncated_file_is_reported(gradebook: Path) -> None:
    sound = gradebook.read_bytes()
    for length in (*range(512, len(sound), 1024), len(sound) - 1):
        gradebook.write_bytes(sound[:length])
        for opened in (Gradebook.open, Gradebook.open_to_write):
            with pytest.raises(GraderError, match=FILE):
                opened(gradebook.parent).__enter__()
        assert gradebook.read_bytes() == sound[:length]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("grades", "result"),
        ("replaced", "result"),
        ("sources", "deflated"),
        ("environments", "environment"),
        ("students", "ids"),
        ("facts", "facts"),
    ],
)
@pytest.mark.parametrize("damage", [b"", b"{", b"\x78\x9c\x03\x00\x00\x00\x00\x02", b"[1]", None])
def test_an_unreadable_cell_is_reported(
    gradebook: Path, table: str, column: str, damage: bytes | None
) -> None:
    with contextlib.closing(sqlite3.connect(gradebook)) as connection:
        value = 7 if damage is None else damage
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
        connection.commit()
    with pytest.raises(GraderError, match="damaged"):
        read_all(gradebook.parent)


def test_a_gradebook_of_a_newer_format_is_left_unchanged(gradebook: Path) -> None:
    with contextlib.closing(sqlite3.connect(gradebook)) as connection:
        connection.execute("PRAGMA user_version = 5")
        connection.execute("ALTER TABLE grades ADD COLUMN moderated INTEGER NOT NULL DEFAULT 0")
    before = gradebook.read_bytes()
    for opened in (Gradebook.open, Gradebook.open_to_write):
        with pytest.raises(GraderError, match="has format 5, this grader reads 4"):
            opened(gradebook.parent).__enter__()
    assert gradebook.read_bytes() == before


@pytest.mark.parametrize("has_log", [False, True])
def test_a_file_without_tables_after_a_kill_is_not_a_gradebook_yet(
    tmp_path: Path, has_log: bool
) -> None:
    (tmp_path / FILE).touch()
    if has_log:
        with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(SubmissionError, match="There is no gradebook"):
        Gradebook.open(tmp_path).__enter__()
    assert remembered(tmp_path) == Memory(tmp_path)
    with Gradebook.open_to_write(tmp_path) as book:
        assert book.facts.secret
    with Gradebook.open(tmp_path) as book:
        assert book.facts.secret


def test_the_file_of_another_program_is_left_unchanged(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE marks (student TEXT)")
    before = (tmp_path / FILE).read_bytes()
    for opened in (Gradebook.open, Gradebook.open_to_write):
        with pytest.raises(GraderError, match="format 0"):
            opened(tmp_path).__enter__()
    assert (tmp_path / FILE).read_bytes() == before


# --- other processes and users --------------------------------------------------------------------


def test_a_second_writer_is_refused_until_the_first_one_ends(
    school: School,
) -> None:
    ready, begun = os.pipe()
    child = os.fork()
    if not child:
        with Gradebook.open_to_write(school.results) as book:
            next(steps(school, book))
            os.write(begun, b".")
            signal.pause()
    try:
        os.read(ready, 1)
        with (
            pytest.raises(GraderError, match="Another grading writes to"),
            Gradebook.open_to_write(school.results),
        ):
            pass
        with Gradebook.open(school.results) as reader:
            assert "did not finish" in reader.unfinished
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(begun)
    grade(school)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """Return a folder that every user may read. Those of pytest are private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_a_reader(act: Callable[[], None]) -> int:
    """Run `act` as a user without write permission here."""

    def without_rights() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        act()

    return in_a_child(without_rights)


def test_a_read_only_folder_can_be_read(school: School, shelf: Path) -> None:
    grade(school)
    expected = read_all(school.results)
    shutil.copytree(school.results, shelf / "results")
    for path in (*(shelf / "results").rglob("*"), shelf / "results"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(shelf.rglob("*"))

    def act() -> None:
        assert read_all(shelf / "results") == expected
        with (
            pytest.raises(GraderError, match="written"),
            Gradebook.open_to_write(shelf / "results"),
        ):
            pass

    assert as_a_reader(act) == 0
    assert sorted(shelf.rglob("*")) == before


def test_verdicts_that_are_only_in_the_log_are_never_skipped(school: School, shelf: Path) -> None:
    """Results of a killed batch, copied to a read-only folder, are refused rather than read with old scores."""
    with Gradebook.open_to_write(school.results) as book:
        for _ in steps(school, book):
            pass
        assert (school.results / f"{FILE}-wal").stat().st_size
        shutil.copytree(school.results, shelf / "results")
    (shelf / "results" / f"{FILE}-shm").unlink(missing_ok=True)
    for path in (*(shelf / "results").rglob("*"), shelf / "results"):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def act() -> None:
        with (
            pytest.raises(GraderError, match="Nothing can be written"),
            Gradebook.open(shelf / "results"),
        ):
            pass

    assert as_a_reader(act) == 0
