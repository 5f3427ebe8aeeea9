"""`grade serve`: a server that judges submissions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.memory import Memory, assigned_course, grading_options_of, remembered
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook import Gradebook, platforms
from grader.gradebook.corrections_file import (
    CORRECTIONS_FILE,
    corrections_text,
    read_file,
    writing,
)
from grader.gradebook.policy import Policy
from grader.gradebook.policy_file import policy_of, refuse_strangers, unknown_students
from grader.gradebook.refusals import refuse_other_roster
from grader.gradebook.times import local
from grader.results import StudentInfo
from grader.student.client import checked_address
from grader.submissions import read_roster
from grader.text import clean, counted, listed

if TYPE_CHECKING:
    # Of the extra `serve`.
    from grader.serve.server import Settings
    from grader.serve.sign_in.university import University

# The packages of the extra `serve`.
_EXTRA = ("starlette", "uvicorn", "jwt", "cryptography", "prometheus_client", "authlib")
# The most people named in one note.
_MAX_NAMES = 10
# The default of --jobs with a cluster: the number of files that its workers have at a time.
_AT_A_CLUSTER = 16


@click.command(cls=Command)
@click.argument(
    "course_path",
    metavar="[COURSE]",
    default=Path(),
    type=shared.EXISTING,
)
@shared.output_option
@shared.roster_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port to listen on.",
)
@click.option(
    "--address",
    metavar="URL",
    help="The server's address as students type it; needed for sign-in at a university, by a platform, or by "
    "a GitHub workflow.",
)
@click.option(
    "--sign-in",
    "sign_in_file",
    metavar="FILE",
    type=shared.FILE,
    help="Let people sign in at a university by OpenID Connect, as this TOML file says. See docs/serve.md.",
)
@click.option(
    "--issuer",
    metavar="URL",
    default="https://token.actions.githubusercontent.com",
    help="The issuer of workflows' tokens; by default GitHub.",
)
@click.option(
    "--release",
    metavar="FOLDER",
    type=shared.EXISTING,
    help="Offer this release, which `grade release` wrote, as a download to work at home.",
)
@click.option(
    "--mail",
    "mail_file",
    metavar="FILE",
    type=shared.FILE,
    help="Mail students their verdicts, answers and changed points, as this TOML file says. See docs/serve.md.",
)
@shared.jobs_option
@shared.scheduler_option
@click.option(
    "--backup",
    metavar="FILE",
    type=shared.FILE,
    help="Only copy the gradebook to FILE, even while a server writes to it.",
)
@click.option(
    "--backups",
    "backups_folder",
    metavar="FOLDER",
    type=shared.FOLDER,
    help="Back the gradebook up to this folder while the server runs, each backup checked.",
)
@click.option(
    "--backup-every",
    metavar="DURATION",
    default="1 day",
    show_default=True,
    help="With --backups: the time between two backups.",
)
@click.option(
    "--keep-backups",
    metavar="N",
    type=click.IntRange(1),
    default=14,
    show_default=True,
    help="With --backups: the number of newest backups to keep.",
)
@shared.assignment_option
@shared.suite_option
@shared.seed_option
@shared.isolation_option
def serve(
    course_path: Path,
    results: Path,
    roster_file: Path | None,
    host: str,
    port: int,
    backup: Path | None,
    **options: Any,
) -> None:
    """Run a server that judges submissions with all suites.

    Students hand in with `grade submit` or in a browser. The suites stay here, and students read as much of
    hidden tests as the course discloses. Verdicts are kept in the gradebook RESULTS, which `grade report` and
    `grade export` can read at any time. Each assignment of the course opens at its time; with --assignment,
    which RESULTS remembers, only its exercises are accepted. Students and staff sign in with tokens from
    `grade tokens`, or at their university (--sign-in). docs/serve.md explains everything.

    \b
    Examples:
      grade serve -o results --roster class.csv
      grade serve -o week1 --roster class.csv --assignment week1
      grade serve -o results --roster class.csv --address https://grade.example.org --sign-in sign-in.toml
      grade serve course/ -o results --roster class.csv --jobs 8 --require-isolation full
      grade serve -o results --roster class.csv --scheduler tcp://10.0.0.1:8786 --jobs 40
      grade serve -o results --roster class.csv --backups /backups/course --backup-every "6 hours"
      grade serve -o results --backup gradebook-today.sqlite
    """
    if backup is not None:
        if backup.exists():
            raise click.UsageError(f"{backup} already exists: name a new file.")
        with Gradebook.open(results) as book, writing(backup):
            book.back_up(backup)
        click.echo(f"The gradebook as it is now: {backup}")
        return
    if roster_file is None and not _has_platform(results):
        raise click.UsageError(
            "Name the class list: --roster CSV. The server starts without one only if a platform is registered."
        )
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise click.UsageError(
            f"The server needs {', '.join(missing)}: pip install 'lab-bench[serve]'."
        )
    from grader.serve.app import serve as serve_until_signal

    settings = _settings(course_path, results, roster_file, **options)

    def ready(listens_at: str, again: int) -> None:
        students = counted(len(settings.students), "student")
        click.echo(f"{settings.course.title}, for {students}: {listens_at}")
        if again:
            click.echo(f"To be judged again, since the server stopped: {counted(again, 'file')}.")

    serve_until_signal(settings, host, port, ready)


def _settings(
    course_path: Path,
    results: Path,
    roster_file: Path | None,
    *,
    assignment: str | None,
    address: str | None,
    sign_in_file: Path | None,
    issuer: str,
    release: Path | None,
    mail_file: Path | None,
    backups_folder: Path | None,
    backup_every: str,
    keep_backups: int,
    scheduler: str | None,
    **options: Any,
) -> Settings:
    """Return the settings of the server, after notes on the policy and the class; raises UsageError."""
    from grader.authoring.handout import zipped_release
    from grader.exports.mail.mail_file import read_mail_file
    from grader.serve.backups import backup_plan
    from grader.serve.identity import GitHub
    from grader.serve.server import Settings

    memory = remembered(results)
    course = assigned_course(shared.open_course(course_path), memory, (), assignment)
    handout = None if release is None else zipped_release(release, course)
    students = () if roster_file is None else read_roster(roster_file).students
    refuse_other_roster(memory.students, students, str(results))
    _tell_of_policy(course, memory, results, students)
    here = "" if address is None else checked_address(address)
    # Without students on GitHub, the address serves another way to sign in, and GitHub is not asked.
    is_on_github = here and any("repository" in student.ids for student in students)
    university = None if sign_in_file is None else _university(sign_in_file, here, students)
    if backups_folder is None and (
        shared.was_given("backup_every") or shared.was_given("keep_backups")
    ):
        raise click.UsageError("--backup-every and --keep-backups need --backups FOLDER.")
    return Settings(
        course=course,
        results=results,
        students=students,
        options=grading_options_of(memory, course, options),
        judges=_AT_A_CLUSTER if scheduler and not shared.was_given("jobs") else options["jobs"],
        scheduler=scheduler or "",
        github=GitHub(here, students, issuer) if is_on_github else None,
        university=university,
        address=here,
        handout=handout,
        mail=None if mail_file is None else read_mail_file(mail_file, is_for_server=True),
        backups=backup_plan(results, backups_folder, backup_every, keep_backups),
    )


def _university(file: Path, address: str, students: Sequence[StudentInfo]) -> University:
    """Return the sign-in at a university that a file describes, for people who come back to this address."""
    if not address:
        raise click.UsageError(
            "--sign-in needs the address to which people come back: --address https://grade.example.org."
        )
    from grader.serve.sign_in.door import CALLBACK
    from grader.serve.sign_in.sign_in_file import read_sign_in
    from grader.serve.sign_in.university import University

    return University(read_sign_in(file), address + CALLBACK, students)


def _tell_of_policy(
    course: Course, memory: Memory, results: Path, students: Sequence[StudentInfo]
) -> None:
    """Print notes on the policy and the class; raises an error if the policy or a correction has a mistake."""
    beside = policy_of(course, memory.facts.named_policy)
    rules = memory.facts.policy if beside is None else beside
    file = read_file(corrections_text(results), results / CORRECTIONS_FILE)
    policy = file.policy(rules, course.chapter_of)
    people = [*students, *memory.students]
    refuse_strangers(policy, people)
    for note in unknown_students(policy, people):
        click.echo(f"The policy: {clean(note, 1000)}", err=True)
    alone = [student.id for student in students if not student.team]
    if alone and any(part.teams for part in course.assignments):
        names = clean(listed(alone, _MAX_NAMES), 1000)
        note = f"Without a team, so they hand in alone: {names}. Write teams into a column `team` of --roster."
        click.echo(note, err=True)
    for note in _extra_time(course, policy, {student.id: student for student in people}.values()):
        click.echo(note, err=True)


def _extra_time(course: Course, policy: Policy, students: Iterable[StudentInfo]) -> Iterator[str]:
    """Yield a note for each exam with the students whom the policy or a person gives more time.

    An extension without `exercises` also gives more time in every exam, which is easily overlooked.
    """
    for assignment in course.assignments:
        if assignment.exam is None:
            continue
        more = []
        for student in students:
            deadlines = [policy.deadline(student, name) for name in assignment.exercises]
            ends = [end.until for end in deadlines if end is not None and end.until > end.due]
            if ends:
                more.append(f"{student.id} until {local(max(ends), policy.zone)}")
        if more:
            names = clean(listed(more, _MAX_NAMES), 1000)
            yield f"Extensions give more time in the exam {assignment.title}: {names}."


def _has_platform(results: Path) -> bool:
    """Whether an LTI platform is registered, which may be asked for the class list after a launch."""
    with contextlib.suppress(SubmissionError), Gradebook.open(results) as book:
        return bool(platforms.platforms(book))
    return False
