"""`grade requests`: students' regrade requests, and the answers to them."""

from __future__ import annotations

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import named_student, open_book, refuse_ungraded
from grader.cli.terminal.console import open_console
from grader.cli.terminal.student_result import (
    points_words,
    requested_points,
    show_request,
    show_requests,
)
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.requests import answer as answer_all
from grader.gradebook.requests import ask, numbered, open_requests
from grader.text import clean, listed

_ORIGIN = "grade requests"


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[RESULTS] [NUMBER]")
@shared.server_option
@click.option("--answer", metavar="TEXT", help="Answer request NUMBER: its student reads it.")
@click.option(
    "--ask",
    "asked",
    nargs=3,
    metavar="STUDENT EXERCISE TEXT",
    help="Add a request that reached you in another way, such as by mail.",
)
@click.option("--all", "with_answered", is_flag=True, help="Also list answered requests.")
@click.option(
    "--author", metavar="NAME", default="", help="Who answers; by default your login name."
)
@shared.anonymous_option
def requests(
    words: tuple[str, ...],
    address: str | None,
    answer: str | None,
    asked: tuple[str, str, str] | None,
    with_answered: bool,
    author: str,
    anonymous: bool,
) -> None:
    """List the unanswered regrade requests of a class; with NUMBER, show one with its verdict.

    Students ask with a file EXERCISE.request.txt beside their work, or on the page of `grade serve`. Answers
    appear in the feedback and in every output. They change no points; `grade adjust` does. A new answer
    replaces the earlier one, which NUMBER still shows.

    \b
    Examples:
      grade requests results
      grade requests results 3
      grade requests results 3 --answer "You are right: the text did not say it. One point more."
      grade requests results --ask zoe glu "My gate is on the second half."
      grade requests --server https://grade.example.org 3 --answer "You are right."
    """
    if address is None and not words:
        raise click.UsageError("Name RESULTS, the folder that `grade batch` wrote, or a --server.")
    number = _number_in(words if address is not None else words[1:])
    if answer is not None and number is None:
        raise click.UsageError("Give the NUMBER of the request to answer.")
    if asked is not None and (number is not None or with_answered or anonymous):
        raise click.UsageError("--ask adds a request: give it without other options.")

    if address is not None:
        if asked is not None or anonymous or author:
            raise click.UsageError("--ask, --anonymous and --author do not go with --server.")
        _requests_on_server(address, number, answer, with_answered=with_answered)
        return
    results = shared.EXISTING_FOLDER.convert(words[0], None, click.get_current_context())
    # Open it to read first: opening it to write would create a gradebook in a folder without one.
    with open_book(results, anonymous=anonymous) as book:
        if answer is None and asked is None:
            _show_requests(book, number, with_answered=with_answered, anonymous=anonymous)
            return
    with Gradebook.open_to_write(results) as book:
        if asked is not None:
            student, exercise, text = asked
            refuse_ungraded([exercise], book)
            who = named_student(book.students(), student).id
            added = ask(book, who, exercise, text, _ORIGIN)
            said = f"{who} {exercise}: request {added.number}."
        elif answer is not None and number is not None:
            request = numbered(book.requests(), number)
            answered = answer_all(book, request, answer, author.strip() or shared.login_name())
            said = f"{listed([r.student for r in answered])} {request.exercise}: answered."
    click.echo(clean(said, 300))


def _number_in(words: tuple[str, ...]) -> int | None:
    """Return the number of a request on the command line; raises a usage error."""
    if not words:
        return None
    if len(words) > 1:
        raise click.UsageError(f"Name one NUMBER of a request; here: {' '.join(words)}.")
    if not (words[0].isascii() and words[0].isdecimal() and int(words[0][:9]) > 0):
        raise click.UsageError(f"{words[0]!r} is not the NUMBER of a request.")
    return int(words[0])


def _requests_on_server(
    address: str, number: int | None, answer: str | None, *, with_answered: bool
) -> None:
    """Print the requests on a running server, or the one with this number, or answer it."""
    from grader.cli.on_server import answer_on, requests_on, signed_in

    server = signed_in(address)
    if answer is not None and number is not None:
        request = answer_on(server, number, answer).request
        click.echo(clean(f"{request.student} {request.exercise}: answered.", 300))
        return
    rows, console = requests_on(server, number), open_console()
    if number is not None:
        show_request(console, rows[0].request, rows[0].entry, None)
        return
    points = {row.request.number: points_words(row.score, row.max_score) for row in rows}
    every = [row.request for row in rows]
    chosen = every if with_answered else open_requests(every)
    hidden = len(every) - len(chosen)
    show_requests(console, chosen, lambda request: points[request.number], None, hidden)


def _show_requests(
    book: Gradebook, number: int | None, *, with_answered: bool, anonymous: bool
) -> None:
    """Print the requests, or the one with this number."""
    shown = AnonymousBook(book) if anonymous else book
    every, console, zone = shown.requests(), open_console(), book.policy.zone
    if number is None:
        chosen = every if with_answered else open_requests(every)
        show_requests(
            console,
            chosen,
            lambda request: requested_points(shown.entry_of(request.student), request),
            zone,
            len(every) - len(chosen),
        )
    else:
        request = numbered(every, number)
        show_request(console, request, shown.entry_of(request.student), zone)
