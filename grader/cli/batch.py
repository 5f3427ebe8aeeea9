"""`grade batch` and `grade regrade`: grade a class, and judge it again after a suite changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
import msgspec

from grader.cli import options as shared
from grader.cli.border import Command, tell_unfinished
from grader.cli.memory import Memory, assigned_course, grading_options_of, remembered
from grader.cli.results import tell_passed
from grader.cli.terminal.class_summary import (
    BatchDisplay,
    show_attention,
    show_changes,
    show_class,
    show_dropped,
    show_missing,
    show_summary,
)
from grader.cli.terminal.console import open_console
from grader.cli.terminal.policy import show_outdated
from grader.course.manifest import Course
from grader.errors import ExitCode
from grader.exports.files import open_export
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.batch import BatchSummary, changes
from grader.gradebook.batch import batch as grade_class
from grader.gradebook.batch import regrade as grade_again
from grader.gradebook.policy import NamedPolicy, Policy, Rules
from grader.gradebook.policy_file import (
    name_policy,
    policy_of,
    refuse_strangers,
    unknown_students,
)
from grader.gradebook.refusals import (
    notes_on_known,
    notes_on_two_ids,
    refuse_other_ids,
    refuse_two_ids,
)
from grader.gradebook.requests import open_requests
from grader.gradebook.review import Reason
from grader.judge.assignment import GradingOptions
from grader.judge.pool import LocalPool, Pool
from grader.results import StudentInfo
from grader.submissions import (
    ClassDownload,
    Roster,
    Times,
    find_class,
    joined,
    read_roster,
    read_times,
)
from grader.submissions.download import (
    for_teams,
    likely_matches,
    refuse_unlisted,
    share_in_teams,
)
from grader.text import clean, counted


def _pool_options(command: Any) -> Any:
    """Add the options of commands that judge many exercises."""
    for option in (
        shared.anonymous_option,
        shared.scheduler_option,
        shared.isolation_option,
        shared.seed_option,
        shared.suite_option,
        shared.jobs_option,
    ):
        command = option(command)
    return command


@click.command(cls=Command)
@click.argument(
    "submissions",
    metavar="SUBMISSIONS...",
    nargs=-1,
    required=True,
    type=shared.EXISTING,
)
@shared.output_option
@shared.course_option
@shared.roster_option
@click.option(
    "--times",
    "given_times",
    metavar="TIME|CSV",
    help="Times that the download lacks: one for all submissions, or a list; see docs/intake.md.",
)
@click.option(
    "--policy",
    "policy_file",
    metavar="TOML",
    type=shared.EXISTING_FILE,
    help="Count by this policy from now on, as by `grade policy --file`.",
)
@shared.assignment_option
@click.option(
    "--exercise",
    "exercises",
    metavar="EXERCISE",
    multiple=True,
    help="Grade only this exercise; may be repeated. RESULTS remembers the choice.",
)
@click.option(
    "--all-attempts",
    is_flag=True,
    help="Also grade attempts that cannot count.",
)
@_pool_options
def batch(
    submissions: tuple[Path, ...],
    results: Path,
    course_path: Path,
    roster_file: Path | None,
    given_times: str | None,
    policy_file: Path | None,
    assignment: str | None,
    exercises: tuple[str, ...],
    all_attempts: bool,
    **options: Any,
) -> None:
    """Grade a class and keep every verdict in a gradebook.

    SUBMISSIONS is a folder with a folder or an archive for each student, or the download of your learning
    platform, unchanged. Several of them are one class. Run the command again after an interruption or with
    more submissions: only new files are judged. RESULTS remembers its assignment.

    Exits with 0 when everything is judged, with any points, and with 3 if a fault of the grader left
    something unjudged; run it again to retry. `grade report`, `grade export` and `grade similar` read
    RESULTS.

    \b
    Examples:
      grade batch submissions.zip -o results
      grade batch downloads/ -o results --roster class.csv
      grade batch monday.zip tuesday.zip -o results
      grade batch moodle.zip -o results --times worksheet.csv --policy policy.toml
      grade batch week1.zip -o week1 --assignment week1
      grade batch week1.zip -o week1 --exercise strides --exercise relu
      grade batch clones/ -o results --jobs 8 --require-isolation full
    """
    if assignment is not None and exercises:
        raise click.UsageError("Give --assignment or --exercise, not both.")
    whole, memory = shared.open_course(course_path), remembered(results)
    course = assigned_course(whole, memory, exercises, assignment)

    roster = read_roster(roster_file) if roster_file is not None else None
    # The times of --times are in the time zone of the policy that is going to apply.
    named: NamedPolicy | None = None
    if policy_file is not None:
        named, rules = name_policy(policy_file, course, whole.chapter_of)
    else:
        beside = policy_of(course, memory.facts.named_policy)
        rules = memory.facts.policy if beside is None else beside
    policy = Policy(rules)
    times = read_times(given_times, policy.zone) if given_times is not None else None
    files = [roster_file, policy_file, results, *([Path(given_times)] if given_times else [])]
    own_files = [path for path in files if path is not None]
    downloads = [
        find_class(path, course, roster, times, former=memory.students, given=own_files)
        for path in submissions
    ]
    download = _one_class(downloads, course, memory, roster, times)
    class_ = {attempt.student.id: attempt.student for attempt in download.attempts}
    refuse_strangers(policy, [*class_.values(), *download.missing, *memory.students])
    for note in () if options["anonymous"] else download.notes:
        click.echo(note, err=True)
    if options["anonymous"] and download.notes:
        left_out = counted(len(download.notes), "note")
        click.echo(f"{left_out} on the download left out, since they may name students.", err=True)
    grading = grading_options_of(memory, course, options)
    with (
        Gradebook.open_to_write(results) as gradebook,
        _pool(course, grading, options) as pool,
        BatchDisplay(anonymous=options["anonymous"]) as display,
    ):
        if exercises or assignment is not None:
            gradebook.assign(course)
        if named is not None:
            gradebook.set_policy(rules, named)
        with _saying_unfinished(gradebook, display, options):
            summary = grade_class(
                download,
                gradebook,
                course,
                pool,
                grading,
                all_attempts=all_attempts,
                progress=display,
            )
        display.__exit__()
        book = _shown(gradebook, options)
        summary = book.shown(summary)
        _show(book, summary, book.absent())
        show_attention(open_console(), summary.attention, book.names())
        tell_unfinished(book)
    _exit(summary)


@contextlib.contextmanager
def _saying_unfinished(
    book: Gradebook, display: BatchDisplay, options: dict[str, Any]
) -> Iterator[None]:
    """Say how to go on after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        display.__exit__()
        tell_unfinished(_shown(book, options))
        raise


def _shown(book: Gradebook, options: dict[str, Any]) -> Gradebook | AnonymousBook:
    """Return the gradebook as it is shown, without names if the command is `--anonymous`."""
    return AnonymousBook(book) if options["anonymous"] else book


def _one_class(
    downloads: Sequence[ClassDownload],
    course: Course,
    memory: Memory,
    roster: Roster | None,
    times: Times | None,
) -> ClassDownload:
    """Return the downloads as one class, with notes on them.

    Raises SubmissionError if they do not fit the roster, the times or the gradebook.
    """
    refuse_two_ids(downloads)
    ids = notes_on_two_ids(downloads)
    download = joined(downloads)
    if roster is not None:
        refuse_unlisted(download, roster, memory.students)
    of_times: Iterable[str] = ()
    if times is not None:
        handed_in = [attempt.student for attempt in download.attempts]
        of_times = times.unmatched(download.timed, handed_in)
    download = _shared(download, course, memory.students)
    notes = [*download.notes, *of_times, *ids, *likely_matches(download)]
    if memory.students:
        with Gradebook.open(memory.results) as before:
            refuse_other_ids(before, download)
            notes += notes_on_known(before, download)
    return msgspec.structs.replace(download, notes=tuple(notes))


def _shared(
    download: ClassDownload, course: Course, former: Sequence[StudentInfo]
) -> ClassDownload:
    """Return the download with the files that members of a team share, in an assignment or a whole course."""
    if not (parts := for_teams(course)):
        return download
    return share_in_teams(download, former, parts if course.assignment is None else ())


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="RESULTS")
@shared.server_option
@shared.course_option
@shared.assignment_option
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=shared.FILE,
    callback=shared.writable,
    help="Write the changes as JSON too.",
)
@_pool_options
def regrade(
    words: tuple[str, ...],
    address: str | None,
    course_path: Path,
    assignment: str | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Judge again after a suite, a stub or the grader changed, and show the difference.

    Judges the files that the gradebook keeps, so nothing needs to be handed in again. Shows students who
    gained or lost, with the test responsible. With --assignment, RESULTS becomes the gradebook of this
    assignment, and points of other exercises no longer count in it. With --server, the arguments are exercises,
    by default all, and a running server judges their files after all that students hand in.

    \b
    Examples:
      grade regrade results
      grade regrade results --assignment week1
      grade regrade results --json changes.json
      grade regrade --server https://grade.example.org glu
    """
    if address is not None:
        _regrade_on_server(address, words)
        return
    if len(words) != 1:
        raise click.UsageError("Name RESULTS, the folder that `grade batch` wrote, or a --server.")
    results = shared.EXISTING_FOLDER.convert(words[0], None, click.get_current_context())
    course, memory = shared.open_course(course_path), remembered(results)
    course = assigned_course(course, memory, (), assignment)

    with Gradebook.open(results) as _:
        pass
    grading = grading_options_of(memory, course, options)
    with (
        Gradebook.open_to_write(results) as gradebook,
        _pool(course, grading, options) as pool,
        BatchDisplay(anonymous=options["anonymous"]) as display,
    ):
        if assignment is not None:
            gradebook.assign(course)
        with _saying_unfinished(gradebook, display, options):
            summary = grade_again(gradebook, course, pool, grading, progress=display)
        display.__exit__()
        differences = list(changes(gradebook))
        book = _shown(gradebook, options)
        summary, differences = book.shown(summary), book.shown(differences)
        console = open_console()
        try:
            _show(book, summary)
            show_changes(console, differences, book.names())
            show_attention(console, summary.attention, book.names())
            tell_unfinished(book)
        finally:
            # Also if nobody reads on, as with `| head`: the next regrade does not find these changes again.
            if json_file is not None:
                with open_export(json_file) as out:
                    out.write(
                        msgspec.json.format(msgspec.json.encode(differences), indent=2) + b"\n"
                    )
    _exit(summary)


def _regrade_on_server(address: str, exercises: tuple[str, ...]) -> None:
    """Have a running server judge again, and print how many files it judges."""
    for option in click.get_current_context().params:
        if option not in ("words", "address") and shared.was_given(option):
            raise click.UsageError(
                "With --server, give only exercises: the server has the course and its options."
            )
    from grader.cli.on_server import regrade_on, signed_in

    queued = regrade_on(signed_in(address), exercises)
    waiting = f"{counted(queued, 'file')} in the queue, after all that students hand in."
    click.echo(waiting if queued else "Every file that counts has a verdict of these suites.")


def _pool(
    course: Course, grading: GradingOptions, options: dict[str, Any]
) -> AbstractContextManager[Pool]:
    """Return a pool of judges on this machine, or on a cluster."""
    if options["scheduler"] is not None:
        from grader.gradebook.cluster import ClusterPool

        return ClusterPool(
            course, options["scheduler"], grading, lambda text: click.echo(text, err=True)
        )

    return LocalPool(course, options["jobs"], grading)


def _show(
    book: Gradebook | AnonymousBook, summary: BatchSummary, missing: Sequence[StudentInfo] = ()
) -> None:
    """Print the class, a summary, and notes about its policy, requests and corrections."""
    console = open_console()
    whole = book.book if isinstance(book, AnonymousBook) else book
    show_class(console, book.entries())
    show_dropped(console, whole.dropped())
    show_missing(console, missing)
    show_summary(console, summary, book.names())
    facts = whole.facts
    if facts.policy != Rules():
        named = ""
        if facts.named_policy is not None:
            file = clean(facts.named_policy.file, 1000)
            named = f" of {file}, which --policy or `grade policy --file` named"
        shows = f"`grade policy {whole.folder}` shows it, --explain STUDENT its effect."
        click.echo(f"Points follow its policy{named}: {shows}")
    if waiting := open_requests(whole.requests()):
        listing = f"`grade requests {whole.folder}` lists them"
        click.echo(f"{counted(len(waiting), 'regrade request')} without an answer: {listing}.")
    tell_passed(whole)
    if isinstance(book, AnonymousBook):  # both name students
        return
    show_outdated(console, whole)
    for note in unknown_students(whole.policy, whole.students()):
        click.echo(f"The policy: {clean(note, 1000)}", err=True)


def _exit(summary: BatchSummary) -> None:
    faults = any(entry.kind is Reason.FAULT for entry in summary.attention)
    click.get_current_context().exit(ExitCode.FAULT if faults else ExitCode.FULL_MARKS)
