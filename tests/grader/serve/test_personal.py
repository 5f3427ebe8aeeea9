"""The data of one student can be handed over as readable files, and erased without a trace."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.errors import GraderError
from grader.gradebook import Gradebook, outbox, platforms, pushed, sessions, tokens
from grader.gradebook.corrections import Correction, GivenExtension
from grader.gradebook.facts import MarkDraft, Remarks
from grader.gradebook.personal import beside, erase, kept_about
from grader.gradebook.pushed import Pushed
from grader.gradebook.review import Attention, Reason
from grader.gradebook.tokens import Role
from grader.results import Result, StudentInfo
from grader.submissions.source import code_digest
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served, marked, sql
from tests.grader.serve.test_drafts import save
from tests.grader.serve.test_requests import form

WRONG = (PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py").read_bytes()
WINDOWS = SOLUTION.replace(b"\n", b"\r\n") + b"# of ada\r\n"
POLICY = """
[[due]]
at = 2036-12-01T23:59:00Z
[[extension]]
student = "ada"
by = "30 days"
reason = "operation"
[[extension]]
students = ["ada", "bob"]
by = "1 day"
reason = "storm"
"""
NOW = datetime.datetime(2036, 11, 1, tzinfo=datetime.UTC)
MESSAGE = "Please look at my word count again."


@pytest.fixture
def results(serving: Callable[..., Served]) -> Path:
    """A results folder whose tables all have rows of ada, and most of bob."""
    served = serving(policy=POLICY).start()
    for who in ("ada", "bob"):
        # Both submit the same files. Ada also submits others.
        files = {"greeting.py": SOLUTION, "word_count.py": WRONG}
        served.judged(who, served.hand_in(who, files).json["id"])
        form(served, "/requests", who, exercise="word_count", message=MESSAGE)
    for source in (marked(7), WINDOWS):
        served.judged("ada", served.hand_in("ada", {"greeting.py": source}).json["id"])
    form(served, "/class/requests", "staff", number="1", answer="It is as it should be.")
    for number, text in enumerate(("# first of ada\n", "# second of ada\n")):
        assert save(served, "ada", text, number, keep=True).status == 200
    assert save(served, "bob", "# of bob\n", 0).status == 200
    assert served.stop() == 0
    for student, user in (("ada", "user-4711"), ("bob", "user-4712")):
        with pushed.pushing(served.results, "https://platform.example/1") as memory:
            memory.keep(user, Pushed(student=student, points=2.0))
        with platforms.changing_platforms(served.results) as book:
            link = platforms.Link(issuer="https://lms.example.edu", client_id="7", deployment="1")
            platforms.keep_launch(book, link, user, student)
        with tokens.changing_tokens(served.results) as book:
            sessions.start_session(book, Role.STUDENT, student, "a university", 0.0, 1e10)
    with Gradebook.open_to_write(served.results) as book:
        for student in ("ada", "bob"):
            book.correct(
                Correction(
                    student=student,
                    exercise="greeting",
                    add=-0.5,
                    reason=f"told by {student}",
                    author="prof",
                    time=NOW,
                )
            )
            book.extend(
                GivenExtension(
                    student=student, until=NOW, reason=f"ill: {student}", author="prof", time=NOW
                )
            )
        # As if a team shared one of her files. See test_teams for teams themselves.
        book.tables.connection.execute(
            "INSERT INTO shared SELECT min(id), max(id) FROM attempts WHERE student = 'ada'"
        )
        outbox.turn_on(book, tuple(outbox.Kind), 0.0)
        for student in ("ada", "bob"):
            event = outbox.Event(student, outbox.Kind.ANSWERS, "1 1", 0.0)
            outbox.refused(book, [event], f"{student}@example.org", f"550 {student} is unknown")
            outbox.arrived(book, [event], f"mail to {student}", 0.0)
        own = MarkDraft("greeting", (), code_digest(marked(7)), Remarks(("style",)))
        other = MarkDraft("greeting", (), "other", Remarks(("style",)))
        # Drafts about a file that bob has, too.
        same = code_digest(SOLUTION)
        shared = [
            MarkDraft("greeting", (who,), same, Remarks(("style",), (f"line 1 of {who}",)))
            for who in ("ada", "bob")
        ]
        of_team = MarkDraft("word_count", ("ada", "bob"), same, Remarks(("style",)))
        book.change(mark_drafts=(own, other, *shared, of_team))
        looks = [
            Attention(Reason.ODD_CODE, who, ("greeting",), f"line 1 of {who}")
            for who in ("ada", "bob")
        ]
        book.finish((*book.facts.attention, *looks))
    return served.results


def grade(*arguments: str, typed: str = "") -> tuple[int, str]:
    found = CliRunner().invoke(main, [*arguments], input=typed)
    return found.exit_code, found.output


def zipped(results: Path, folder: Path, student: str) -> dict[str, bytes]:
    path = folder / f"{student}.zip"
    status, said = grade("personal-data", str(results), student, "-o", str(path))
    assert status == 0, said
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.thorough
def test_a_students_data_is_handed_over_and_erased(results: Path, tmp_path: Path) -> None:
    of_bob = zipped(results, tmp_path, "bob")
    files = zipped(results, tmp_path, "ada")
    records = json.loads(files["records.json"])
    # Each table about students has a row of hers.
    with Gradebook.open(results) as book:
        tables = {
            name
            for (name,) in book.tables.connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        }
        bob_before = book.entry_of("bob")
    about_nobody = {"facts", "sources", "environments"}
    about_nobody |= {"platforms", "platform_links", "platform_passback", "token_sections"}
    about_nobody |= {"outbox_kinds", "platform_invitations", "platforms_waiting"}
    assert set(records["tables"]) == tables - about_nobody - {"replaced"}
    assert files["attempts/0001/greeting.py"] == SOLUTION
    assert files["attempts/0002/greeting.py"] == marked(7)
    assert files["attempts/0003/greeting.py"] == WINDOWS, "line endings are kept"
    assert files["drafts/greeting.py"] == b"# second of ada\n"
    assert b"# first of ada\n" in {data for name, data in files.items() if "-version-" in name}
    assert [made["reason"] for made in records["corrections"]] == ["told by ada"]
    assert {each["reason"] for each in records["extensions"]} == {"operation", "storm", "ill: ada"}
    assert "greeting: line 1 of ada" in records["to_look_at"]
    assert records["tables"]["answers"][0]["text"] == "It is as it should be."
    # The verdicts have only what she may read. Nothing is about bob.
    verdict = json.loads(files["attempts/0001/verdict.json"])
    hidden = [t for e in verdict["exercises"] for t in e["tests"] if t["visibility"] == "hidden"]
    assert hidden and all(t["printed"] == "" and t["duration_seconds"] == 0 for t in hidden)
    with Gradebook.open(results) as book:
        (first, *_), known = book.tables.attempts_of("ada"), book.work(StudentInfo(id="ada"))
        raw = known.verdicts["word_count"][first.id].result
    told = [e for e in msgspec.convert(verdict, Result).exercises if e.name == "word_count"]
    assert told != [raw], "the gradebook has more than she may read"
    everything = b"".join(files.values())
    assert b"told by bob" not in everything and b"# of bob" not in everything

    status, said = grade("erase", str(results), "ada", typed="n\n")
    assert status != 0 and sql_of(results, "SELECT count(*) FROM students WHERE id = 'ada'") == 1
    status, said = grade("erase", str(results), "ad", "--yes")
    assert status == 2 and "whole id" in said
    (results / "report").mkdir()
    status, said = grade("erase", str(results), "ada", "--yes")
    assert status == 0, said
    assert "report" in said and "drafts" in said and "backups" in said
    assert traces_of_ada(results) == []
    assert [path.name for path in beside(results)] == ["report"]
    with Gradebook.open(results) as book:
        kept = kept_about(book, "ada")
        assert kept == ({}, (), (), ())
        same = code_digest(SOLUTION)
        assert [(d.exercise, d.students, d.digest) for d in book.facts.mark_drafts] == [
            ("greeting", (), "other"),
            ("greeting", ("bob",), same),
            ("word_count", ("bob",), same),
        ]
        assert book.entry_of("bob") == bob_before
        assert [each.students for each in book.policy.rules.extension] == [("bob",)]
        assert [each.student for each in book.extensions()] == ["bob"]
        assert "ada" not in book.facts.totals
    assert b'"ada"' not in b"".join(of_bob.values()), "no other student's name is handed over"
    again = zipped(results, tmp_path, "bob")
    # README.txt has the time, which differs.
    assert {**again, "README.txt": b""} == {**of_bob, "README.txt": b""}
    assert grade("personal-data", str(results), "ada", "-o", str(tmp_path / "x.zip"))[0] == 2


def sql_of(results: Path, query: str) -> object:
    with Gradebook.open(results) as book:
        return book.tables.connection.execute(query).fetchone()[0]


def traces_of_ada(results: Path) -> list[tuple[str, bytes]]:
    """The traces of ada in the bytes of all files of the results folder."""
    own = (marked(7), WINDOWS, b"# first of ada\n", b"# second of ada\n")
    signs = [
        b"ada@example.org",
        b"Ada Test",
        b"told by ada",
        b"ill: ada",
        b"operation",
        b'"ada"',
        # Four digits alone may occur in a digest by chance.
        b"user-4711",
        b"line 1 of ada",
        b"550 ada",
    ]
    signs += [hashlib.sha256(source).hexdigest().encode() for source in own]
    signs += [zlib.compress(source) for source in own]
    files = [path for path in results.rglob("*") if path.is_file()]
    assert {"gradebook.sqlite", "corrections.toml", "bob.json"} <= {path.name for path in files}
    return [(path.name, sign) for path in files for sign in signs if sign in path.read_bytes()]


@pytest.mark.thorough
def test_traces_are_found_before_the_student_is_erased(results: Path) -> None:
    """Otherwise the test above could not fail."""
    found = {sign for _, sign in traces_of_ada(results)}
    assert len(found) >= 9, found


def test_an_unknown_table_is_refused_before_anything_is_erased(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with Gradebook.open_to_write(results) as book:
        book.tables.connection.execute("CREATE TABLE moods (id TEXT, mood TEXT)")
        before = sql_dump(results)
    (results / "corrections.toml").write_text("# of nobody\n", encoding="utf-8")
    with Gradebook.open_to_write(results) as book, pytest.raises(GraderError, match="moods"):
        erase(book, "ada")
    assert sql_dump(results) == before


def sql_dump(results: Path) -> list[str]:
    connection = sqlite3.connect(results / "gradebook.sqlite")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_running_server_prevents_erasing_but_not_handing_over(
    served: Served, tmp_path: Path
) -> None:
    status, said = grade("erase", str(served.results), "eve", "--yes")
    assert status == 3 and "Another grading writes" in said
    assert sql(served, "SELECT count(*) FROM students WHERE id = 'eve'") == [(1,)]
    assert "records.json" in zipped(served.results, tmp_path, "eve")
