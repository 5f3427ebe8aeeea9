"""How long a class is kept: said when it has passed, and erased by a person only."""

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


# Of each student, and texts about them.
SIGNS = (b"ann.zip", b"bob.zip", b"Eve of the list", b"zoe", b"a word to ann", b"illness of ann")


@pytest.fixture
def kept(school: School) -> School:
    """A class that was to be kept until 2026-11-30 in Warsaw, with backups."""
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


def test_it_is_told_from_the_day_on(kept: School) -> None:
    with Gradebook.open(kept.results) as book:
        retention = retention_of(book)
        assert retention is not None and retention.last == LAST
        # The last submission was on 30 November in Warsaw.
        until = datetime.datetime(2026, 11, 29, 23, 30, tzinfo=datetime.UTC)
        assert retention.until == until
        assert passed_words(book, until - datetime.timedelta(seconds=1)) == ""
        told = passed_words(book, until)
    assert "for 2 years after its last submission on 2024-11-30, until 2026-11-30" in told
    assert f"grade erase {kept.results} --expired" in told


def test_without_a_rule_or_a_submission_nothing_passes(kept: School, tmp_path: Path) -> None:
    far = datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)
    with Gradebook.open_to_write(kept.results) as book:
        book.set_policy(Rules())
        assert retention_of(book) is None
        assert passed_words(book, far) == old_backup_words(book, far) == ""
    status, said = grade("erase", kept.results, "--expired", "--yes")
    assert status == 2 and 'keep = "2 years"' in said
    with Gradebook.open_to_write(tmp_path / "empty") as book:
        book.set_policy(KEPT)
        assert passed_words(book, far) == ""


def test_without_times_the_first_verdict_counts_and_no_regrade(school: School) -> None:
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


def test_an_expired_class_is_listed_and_erased_after_a_yes(kept: School) -> None:
    made = make_backup(kept.results, kept.results.with_name("backups"), LAST)
    (kept.results / "report").mkdir()
    command = ("erase", kept.results, "--expired")
    status, said = grade(*command, "--dry-run")
    assert status == 0 and "ann, bob, eve, zoe" in said
    status, said = grade(*command, typed="n\n")
    assert status == 1
    with Gradebook.open(kept.results) as book:
        assert len(book.students()) == 3
    status, said = grade(*command, typed="y\n")
    assert status == 0, said
    assert "Erased 4 students" in said and "report" in said and made.path.name in said
    files = [path for path in kept.results.rglob("*") if path.is_file()]
    everything = b"".join(path.read_bytes() for path in files)
    assert [sign for sign in SIGNS if sign in everything] == []
    assert not (kept.results / "corrections.toml").exists()
    with Gradebook.open_to_write(kept.results) as book:
        assert (book.facts.title, book.policy.rules.keep) == (kept.course.title, "2 years")
        assert tokens.holders(book, Role.INSTRUCTOR) == {"prof"}
        assert backups_of(book) == [made]
    # The signs were there.
    backup = (made.path / "gradebook.sqlite").read_bytes()
    assert [sign for sign in SIGNS if sign not in backup] == []


def test_a_class_is_not_erased_before_its_time(kept: School) -> None:
    with Gradebook.open_to_write(kept.results) as book:
        kept.hand_in(book, "bob", b"z = 1\n", "2026-11-01T00:00:00Z")
    status, said = grade("erase", kept.results, "--expired", "--yes")
    assert status == 2 and "until 2028-11-01" in said
    for wrong in (["ann", "--expired"], ["ann", "--dry-run"], []):
        assert grade("erase", kept.results, *wrong)[0] == 2
    with Gradebook.open(kept.results) as book:
        assert len(book.students()) == 3


def test_a_report_tells_it_and_names_backups_that_are_older(kept: School, tmp_path: Path) -> None:
    old = make_backup(kept.results, kept.results.with_name("backups"), LAST)
    make_backup(
        kept.results, kept.results.with_name("backups"), datetime.datetime.now(datetime.UTC)
    )
    # That of another class is not this policy's.
    with Gradebook.open_to_write(tmp_path / "other"):
        pass
    make_backup(tmp_path / "other", kept.results.with_name("backups"), LAST)
    status, said = grade("report", kept.results, "-o", tmp_path / "report")
    assert status == 0
    assert "--expired" in said
    assert (
        f"1 backup older than 2 years, for which the policy keeps this class: delete {old.path.name}."
        in said
    )
    status, said = grade("policy", kept.results)
    assert "kept for 2 years" in said


def test_a_student_is_erased_in_every_backup(kept: School, tmp_path: Path) -> None:
    folder = kept.results.with_name("backups")
    first = make_backup(kept.results, folder, LAST)
    status, said = grade("erase", kept.results, "ann", "--yes")
    assert status == 0 and f"grade erase {folder} ann" in said and first.path.name in said
    make_backup(kept.results, folder, LAST + datetime.timedelta(hours=1))
    status, said = grade("erase", folder, "ann", typed="y\n")
    assert status == 0 and said.count("Erased ann") == 1, said
    with Gradebook.open(first.path) as book:
        assert [student.id for student in book.students()] == ["bob", "eve"]
    assert b"# of ann" not in b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    status, said = grade("erase", folder, "ann", "--yes")
    assert status == 2 and "2 backups" in said
