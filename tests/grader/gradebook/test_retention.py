"""How long a class is kept: reported when that time has passed, and erased only by a person."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.gradebook import Gradebook, tokens
from grader.gradebook.backup import make_backup
from grader.gradebook.corrections import Correction
from grader.gradebook.facts import MarkDraft, Remarks
from grader.gradebook.policy import Extension, NamedPolicy, Rules
from grader.gradebook.retention import (
    backups_of,
    old_backup_words,
    passed_words,
    retention_of,
)
from grader.gradebook.times import Span
from grader.gradebook.tokens import Role
from grader.results import StudentInfo

from .conftest import School

LAST = datetime.datetime(2024, 11, 29, 23, 30, tzinfo=datetime.UTC)
KEPT = Rules(
    timezone="Europe/Warsaw",
    keep="2 years",
    extension=(Extension(student="ann", by=Span(days=1), reason="illness of ann"),),
)


# Traces of each student, and texts about them.
SIGNS = (b"ann.zip", b"bob.zip", b"Eve of the list", b"zoe", b"a word to ann", b"illness of ann")


@pytest.fixture
def kept(school: School) -> School:
    """Return a class with backups, to be kept until 2026-11-30 in Warsaw."""
    backups = school.results.with_name("backups")
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, policy=KEPT)
        for student, at in (("ann", "2024-11-29T23:30:00Z"), ("bob", "2024-10-01T08:00:00Z")):
            source = f"# of {student}\n".encode()
            school.keep(book, school.hand_in(book, student, source, at), 8, source)
        book.keep_student(StudentInfo(id="eve", name="Eve of the list"))
        book.finish(())
        book.correct(
            Correction(student="ann", exercise="task", add=1, reason="s", author="me", time=LAST)
        )
        book.change(
            backups=str(backups),
            mark_drafts=(MarkDraft("task", (), "abc", Remarks(("s",), ("a word to ann",))),),
            named_policy=NamedPolicy("named.toml", KEPT),
        )
        book.write_result("ann")
    with tokens.changing_tokens(school.results) as book:
        tokens.make_token(book, Role.STUDENT, "zoe", 0.0)
        tokens.make_token(book, Role.INSTRUCTOR, "prof", 0.0)
    return school


def grade(*arguments: object, typed: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], input=typed)
    return done.exit_code, done.output


def test_an_expired_class_is_reported_from_its_last_day(kept: School) -> None:
    with Gradebook.open(kept.results) as book:
        retention = retention_of(book)
        assert retention is not None and retention.last == LAST
        # The last submission was on 30 November in Warsaw.
        until = datetime.datetime(2026, 11, 29, 23, 30, tzinfo=datetime.UTC)
        assert retention.until == until
        assert passed_words(book, until - datetime.timedelta(seconds=1)) == ""
        words = passed_words(book, until)
    assert "for 2 years after its last submission on 2024-11-30, until 2026-11-30" in words
    assert f"grade erase {kept.results} --expired" in words


def test_without_a_rule_or_a_submission_nothing_expires(kept: School, tmp_path: Path) -> None:
    far = datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)
    with Gradebook.open_to_write(kept.results) as book:
        book.set_policy(Rules())
        assert retention_of(book) is None
        assert passed_words(book, far) == old_backup_words(book, far) == ""
    status, output = grade("erase", kept.results, "--expired", "--yes")
    assert status == 2 and 'keep = "2 years"' in output
    with Gradebook.open_to_write(tmp_path / "empty") as book:
        book.set_policy(KEPT)
        assert passed_words(book, far) == ""


def test_without_submission_times_the_first_verdict_dates_the_class(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, policy=KEPT)
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.keep(book, attempt, 8)
        with book.transaction():
            book.tables.connection.execute("UPDATE grades SET graded_at = '2024-01-01T00:00:00Z'")
        book.finish(())
        book.begin(school.course)
        school.keep(book, attempt, 10)
        book.finish(())
        retention = retention_of(book)
    assert retention is not None and retention.last.year == 2024


def test_an_expired_class_is_listed_and_erased_after_confirmation(kept: School) -> None:
    made = make_backup(kept.results, kept.results.with_name("backups"), LAST)
    (kept.results / "report").mkdir()
    command = ("erase", kept.results, "--expired")
    status, output = grade(*command, "--dry-run")
    assert status == 0 and "ann, bob, eve, zoe" in output
    status, output = grade(*command, typed="n\n")
    assert status == 1
    with Gradebook.open(kept.results) as book:
        assert len(book.students()) == 3
    status, output = grade(*command, typed="y\n")
    assert status == 0, output
    assert "Erased 4 students" in output and "report" in output and made.path.name in output
    files = [path for path in kept.results.rglob("*") if path.is_file()]
    everything = b"".join(path.read_bytes() for path in files)
    assert [sign for sign in SIGNS if sign in everything] == []
    assert not (kept.results / "corrections.toml").exists()
    with Gradebook.open_to_write(kept.results) as book:
        assert (book.facts.title, book.policy.rules.keep) == (kept.course.title, "2 years")
        assert tokens.holders(book, Role.INSTRUCTOR) == {"prof"}
        assert backups_of(book) == [made]
    # The backup still has all of them.
    backup = (made.path / "gradebook.sqlite").read_bytes()
    assert [sign for sign in SIGNS if sign not in backup] == []


def test_a_class_is_not_erased_before_it_expires(kept: School) -> None:
    with Gradebook.open_to_write(kept.results) as book:
        kept.hand_in(book, "bob", b"z = 1\n", "2026-11-01T00:00:00Z")
    status, output = grade("erase", kept.results, "--expired", "--yes")
    assert status == 2 and "until 2028-11-01" in output
    for wrong in (["ann", "--expired"], ["ann", "--dry-run"], []):
        assert grade("erase", kept.results, *wrong)[0] == 2
    with Gradebook.open(kept.results) as book:
        assert len(book.students()) == 3


def test_a_report_mentions_the_expiry_and_names_old_backups(kept: School, tmp_path: Path) -> None:
    old = make_backup(kept.results, kept.results.with_name("backups"), LAST)
    make_backup(
        kept.results, kept.results.with_name("backups"), datetime.datetime.now(datetime.UTC)
    )
    # A backup of another class is not subject to this policy.
    with Gradebook.open_to_write(tmp_path / "other"):
        pass
    make_backup(tmp_path / "other", kept.results.with_name("backups"), LAST)
    status, output = grade("report", kept.results, "-o", tmp_path / "report")
    assert status == 0
    assert "--expired" in output
    assert (
        f"1 backup older than 2 years, for which the policy keeps this class: delete {old.path.name}."
        in output
    )
    status, output = grade("policy", kept.results)
    assert "kept for 2 years" in output


def test_a_student_is_erased_in_every_backup(kept: School, tmp_path: Path) -> None:
    folder = kept.results.with_name("backups")
    first = make_backup(kept.results, folder, LAST)
    status, output = grade("erase", kept.results, "ann", "--yes")
    assert status == 0 and f"grade erase {folder} ann" in output and first.path.name in output
    make_backup(kept.results, folder, LAST + datetime.timedelta(hours=1))
    status, output = grade("erase", folder, "ann", typed="y\n")
    assert status == 0 and output.count("Erased ann") == 1, output
    with Gradebook.open(first.path) as book:
        assert [student.id for student in book.students()] == ["bob", "eve"]
    assert b"# of ann" not in b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    status, output = grade("erase", folder, "ann", "--yes")
    assert status == 2 and "2 backups" in output
