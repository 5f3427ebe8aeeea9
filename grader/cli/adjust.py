"""`grade adjust`: change the points of a student or, by a test, of the whole class."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from grader.cli.border import Command, tell_unfinished
from grader.cli.extension import extend_in_book, extend_on_server, take_extension_back, until_of
from grader.cli.on_server import (
    class_points_on,
    correct_class_on,
    correct_on,
    points_on,
    signed_in,
)
from grader.cli.options import EXISTING_FOLDER, login_name, server_option
from grader.cli.results import named_student
from grader.cli.terminal.console import called, open_console
from grader.cli.terminal.policy import (
    Points,
    points_of,
    show_corrections,
    show_effect,
    show_outdated,
)
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.adjusting import (
    corrections_of,
    exercise_named,
    new_correction,
    released_mates,
    with_mates,
)
from grader.gradebook.corrections import Correction, correction_words
from grader.results import ExerciseResult
from grader.serve.messages import ClassState
from grader.student.client import Server
from grader.text import clean, listed_names, number

_LONGEST = 1000
_WITHOUT_EFFECT = (
    "It changes nothing now: points stay between 0 and the maximum, and --points is final."
)
_GIVE_INSTEAD = "--give instead would take points from no student."
# Options that need a gradebook in a folder.
_NOT_ON_SERVER = ("author", "number", "listed")


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="RESULTS [STUDENT] [EXERCISE]")
@server_option
@click.option(
    "--points", type=float, metavar="N", help="Set the score to N, overriding everything else."
)
@click.option("--add", type=float, metavar="N", help="Add N points; a negative N takes points off.")
@click.option("--drop", metavar="TEST", help="With --all: do not count this test.")
@click.option("--give", metavar="TEST", help="With --all: let every judged student pass this test.")
@click.option(
    "--release",
    is_flag=True,
    help="Count held points: you have looked at the file.",
)
@click.option(
    "--until",
    metavar="TIME",
    help="Give STUDENT until TIME for EXERCISE. EXERCISE may be an assignment, or left out for all exercises.",
)
@click.option("--all", "for_all", is_flag=True, help="Adjust EXERCISE for the whole class.")
@click.option(
    "--reason",
    metavar="TEXT",
    default="",
    help="The reason, which every output shows to students and staff.",
)
@click.option(
    "--comment",
    metavar="TEXT",
    default="",
    help="A remark for the student, with or without a change.",
)
@click.option(
    "--author", metavar="NAME", help="The person who decides. By default your login name."
)
@click.option("--undo", is_flag=True, help="Remove the newest of these corrections.")
@click.option(
    "--number",
    type=click.IntRange(1),
    metavar="N",
    help="With --undo: the one with this number in --list.",
)
@click.option("--list", "listed", is_flag=True, help="List every correction.")
def adjust(words: tuple[str, ...], address: str | None, **options: Any) -> None:
    """Change the points of STUDENT for EXERCISE, or of the whole class by a test, or give STUDENT more time.

    RESULTS is the folder that `grade batch` wrote. Points are computed in this order: the judge's score with
    dropped and given tests, the policy, --add, and --points, which is final. They stay between 0 and the
    points of the exercise. A correction survives a regrade, and every output shows its reason. A TIME
    without an offset is in the time zone of the policy. Corrections and extensions are kept in
    RESULTS/corrections.toml, which you may edit.

    \b
    Examples:
      grade adjust results zoe relu --points 8 --reason "shown in the lab"
      grade adjust results zoe relu --add -1 --reason "copied the tests" --comment "See me."
      grade adjust results zoe relu --undo
      grade adjust results --all relu --give test_inplace --reason "the text did not say it"
      grade adjust results zoe relu --release --reason "ctypes only measures the memory"
      grade adjust results zoe week1 --until 2026-12-03T23:59 --reason "ill"
      grade adjust results --list
      grade adjust --server https://grade.example.org zoe relu --add 1 --reason "shown in the lab"
      grade adjust --server https://grade.example.org --all relu --give test_inplace --reason "unclear"
    """
    if address is not None:
        _correct_on_server(address, words, options)
        return
    if not words:
        raise click.UsageError("Name RESULTS, the folder that `grade batch` wrote, or a --server.")
    results, names = EXISTING_FOLDER.convert(words[0], None, click.get_current_context()), words[1:]
    _refuse_mixtures(names, options)
    # Open it to read first: opening it to write would create a gradebook in a folder without one.
    with Gradebook.open(results) as book:
        if options["listed"]:
            tell_unfinished(book)
            console = open_console()
            show_corrections(console, book)
            show_outdated(console, book)
            return
    with Gradebook.open_to_write(results) as book:
        tell_unfinished(book)
        if options["undo"]:
            _undo(book, names, options)
        elif options["until"] is not None:
            author = (options["author"] or "").strip() or login_name()
            until = until_of(options["until"])
            extend_in_book(book, names, until, options["reason"], author)
        else:
            _correct(book, names, options)


def _correct_on_server(address: str, names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Change the points of a student on a running server, and print the effect."""
    is_undo_of_one = options["undo"] and not options["for_all"]
    unsupported = [name for name in _NOT_ON_SERVER if options[name] not in (None, False)]
    if unsupported or is_undo_of_one:
        option = unsupported[0].replace("listed", "list") if unsupported else "undo"
        raise click.UsageError(
            f"--{option} does not go with --server: the author is your token's, and a student's page lists "
            "changes and takes them back."
        )
    _refuse_mixtures(names, options)
    server = signed_in(address)
    if options["for_all"]:
        _correct_class_on_server(server, names[0], options)
        return
    if options["until"] is not None:
        extend_on_server(server, names, until_of(options["until"]), options["reason"])
        return
    student, exercise = names[0], Path(names[1].removesuffix(".py")).name
    before = points_on(server, student, exercise)
    changes = {name: options[name] for name in ("points", "add", "release")}
    texts = {name: options[name] for name in ("reason", "comment")}
    after = correct_on(server, before, **changes, **texts)
    stays = "as before, " if before.score == after.score else f"{number(before.score)} to "
    who = called(after.student, {after.student: after.name} if after.name else {})
    released = f": released{_also_for(after.mates)}" if options["release"] else ""
    click.echo(f"{who} {after.exercise}{released}")
    click.echo(f"{stays}{number(after.score)} of {number(after.max_score)} points")
    if options["add"] and before.score == after.score:
        click.echo(_WITHOUT_EFFECT)


def _correct_class_on_server(server: Server, name: str, options: dict[str, Any]) -> None:
    """Change the points of the whole class on a running server, or take a change back; print the effect."""
    undone, exercise = options["undo"], Path(name.removesuffix(".py")).name
    before = class_points_on(server, exercise)
    after = correct_class_on(
        server,
        before,
        undo=undone,
        add=options["add"],
        **{name: options[name] or "" for name in ("drop", "give", "reason", "comment")},
    )
    click.echo(
        f"all {after.exercise}: {'taken back: ' if undone else ''}{clean(after.said, _LONGEST)}"
    )
    names = {each.student: each.name for each in after.students if each.name}
    effect = show_effect(open_console(), _points_in(before), _points_in(after), names)
    if options["drop"] and not undone and effect.lost:
        click.echo(_GIVE_INSTEAD, err=True)


def _points_in(state: ClassState) -> dict[str, Points]:
    return {e.student: Points(e.score, e.max_score, e.is_open) for e in state.students}


def _refuse_mixtures(names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Raise a usage error for options that cannot be combined."""
    changes = [name for name in ("points", "add", "drop", "give") if options[name] is not None]
    changes += ["release"] * options["release"]
    extends = options["until"] is not None
    changes += ["until"] * extends
    listed, undo, for_all = options["listed"], options["undo"], options["for_all"]
    numbered = options["number"] is not None
    wanted = 0 if listed or (undo and numbered) else 1 if for_all else 2
    what = ("no names", "EXERCISE alone with --all", "STUDENT and EXERCISE")[wanted]
    says = not (listed or undo)
    points = [options[name] for name in ("points", "add") if options[name] is not None]
    complaints = (
        (
            undo and not numbered and bool(names) and names[-1].isdecimal(),
            f"Give a number with --number: --undo --number {names[-1] if names else 1}.",
        ),
        (listed and (changes or undo), "--list changes nothing: give it without other options."),
        (len(changes) > 1, f"Give only one at a time of --{' and --'.join(changes)}."),
        (numbered and not undo, "--number is for --undo."),
        (
            for_all and "points" in changes,
            "--points is for one student; for the class, use --add, --drop or --give.",
        ),
        (
            for_all and "release" in changes,
            "--release is for one student's file: name STUDENT and EXERCISE.",
        ),
        (
            not for_all and {"drop", "give"} & set(changes),
            "A test is dropped or given for the whole class: add --all, and no STUDENT.",
        ),
        (
            extends and (for_all or bool(options["comment"])),
            "--until is for one student, and has no --comment.",
        ),
        (
            len(names) != wanted and not (extends and len(names) == 1),
            f"Name {'a STUDENT' if extends else what}; here: {' '.join(names) or 'nothing'}.",
        ),
        (
            says and not (changes or options["comment"].strip()),
            "Say what to change: --points, --add, --drop, --give, --release, --until, --comment or --undo.",
        ),
        (
            says and changes and not options["reason"].strip(),
            'Give a reason with --reason "…": it is shown with the points.',
        ),
        (says and not all(map(math.isfinite, points)), "Points are a number."),
    )
    for is_so, complaint in complaints:
        if is_so:
            raise click.UsageError(complaint)


def _target(
    book: Gradebook, names: tuple[str, ...], options: dict[str, Any]
) -> tuple[str, ExerciseResult]:
    """Return the student's id, empty for the whole class, and the exercise as a blank result."""
    student = "" if options["for_all"] else named_student(book.students(), names[0]).id
    # A shell completes the path of the file, chapter/exercise.py.
    return student, exercise_named(book, Path(names[-1].removesuffix(".py")).name)


def _correct(book: Gradebook, names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Make one correction, of a student or of the class, and print its effect."""
    author = (options["author"] or "").strip() or login_name()
    student, exercise = _target(book, names, options)
    correction = new_correction(
        book,
        student,
        exercise,
        author=author,
        reason=options["reason"],
        comment=options["comment"],
        points=options["points"],
        add=options["add"],
        drop=options["drop"] or "",
        give=options["give"] or "",
        release=options["release"],
    )
    mates = released_mates(book, student, exercise.name) if correction.release else []
    corrections = with_mates(book, correction, mates)
    lost = _show_change(book, correction, lambda: book.correct(*corrections), _also_for(mates))
    if correction.drop and lost:
        click.echo(_GIVE_INSTEAD, err=True)


def _also_for(mates: Sequence[str]) -> str:
    """Name the others of a team for whom a release counts."""
    return f", also for {listed_names(mates)}" if mates else ""


def _undo(book: Gradebook, names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Take back the newest of the named corrections, and print the effect."""
    corrections = book.corrections()
    # In the list, extensions come after the corrections.
    place = (options["number"] or 0) - 1 - len(corrections)
    if 0 <= place < len(book.extensions()):
        take_extension_back(book, place)
        return
    if options["number"] is not None:
        matches = [place for place in range(len(corrections)) if place == options["number"] - 1]
        what = f"with the number {options['number']}"
    else:
        student, exercise = _target(book, names, options)
        test = options["drop"] or options["give"] or ""
        matches = [place for place, _ in corrections_of(book, student, exercise.name, test)]
        what = f"of {student or 'all'} for {exercise.name}"
    if not matches:
        raise _no_correction(book, what)
    *others, place = matches
    _show_change(book, corrections[place], lambda: book.correct(replacing=(place,)), undone=True)
    if others:
        left = ", ".join(str(other + 1) for other in others)
        click.echo(f"Still in effect: {left} of --list.", err=True)


def _no_correction(book: Gradebook, what: str) -> SubmissionError:
    """Return the error for a correction that does not exist."""
    last = len(book.corrections()) + len(book.extensions())
    there = (
        f"Its corrections have the numbers 1 to {last}" if last > 1 else "Its only one is number 1"
    )
    remedy = f"{there}: `grade adjust {book.folder} --list` shows {'them' if last > 1 else 'it'}."
    nothing = "It has no corrections, so there is nothing to take back."
    return SubmissionError(f"{book.folder} has no correction {what}. {remedy if last else nothing}")


def _show_change(
    book: Gradebook,
    correction: Correction,
    change: Callable[[], object],
    also: str = "",
    *,
    undone: bool = False,
) -> int:
    """Make a change and print its effect: a student's points and total, or those of the class.

    Returns how many students lost points.
    """
    student, names = correction.student, book.names()

    def points() -> dict[str, Points]:
        one = book.entry_of(student) if student else None
        entries = book.entries() if not student else [one] if one is not None else []
        return points_of(entries, correction.exercise)

    before = points()
    change()
    after = points()
    words = clean(correction_words(correction), _LONGEST)
    who = called(student, names) if student else "all"
    click.echo(f"{who} {correction.exercise}: {'taken back: ' if undone else ''}{words}{also}")
    if not student:
        return show_effect(open_console(), before, after, names).lost
    was, now = before[student], after[student]
    stays = "as before, " if was == now else f"{'open' if was.is_open else number(was.score)} to "
    counts = f"{number(now.score)} of {number(now.worth)}"
    click.echo(f"{stays}{'not judged, and so open' if now.is_open else counts} points")
    if correction.add and was == now and not now.is_open:
        click.echo(_WITHOUT_EFFECT)
    return 0
