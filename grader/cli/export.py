"""`grade export`: results in the formats of learning platforms, gradebooks and CI systems."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import DoubtfulZeros, open_book
from grader.cli.terminal.console import some_of
from grader.errors import ExitCode
from grader.exports import FORMATS
from grader.exports.files import (
    ClassFormat,
    ClassSource,
    NoVerdict,
    Options,
    StudentFormat,
    folder_at,
    open_export,
    read_result,
)
from grader.exports.verdicts import not_due, time_left
from grader.gradebook import Gradebook
from grader.gradebook.policy import Policy
from grader.judge.scoring import is_provisional
from grader.results import Entry
from grader.submissions import safe_name
from grader.submissions.roster import is_in_group, section_names
from grader.text import clean_lines, listed

_LONGEST_NOTE = 1000
_MAX_NAMES = 10
_FOR_EACH = ", a file for each student"


class _FormatOption(click.Option):
    """An option that only some formats use: its help begins with their names."""

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        """The flag and its help."""
        flag, text = super().get_help_record(context) or ("", "")
        return flag, f"{', '.join(_readers(str(self.name)))}: {text}"


def _readers(option: str) -> list[str]:
    return [name for name, chosen in FORMATS.items() if option in chosen.reads]


def _listed() -> tuple[str, list[tuple[str, str]]]:
    """List the formats for the help; formats of a single file come first."""
    rows = [
        (name, f"{chosen.summary}{_FOR_EACH * isinstance(chosen, StudentFormat)}")
        for name, chosen in FORMATS.items()
    ]
    return "Formats", sorted(rows, key=lambda row: row[1].endswith(_FOR_EACH))


@click.command(cls=Command, listing=_listed)
@click.argument("source", type=shared.EXISTING)
@click.option(
    "--format",
    "name",
    metavar="FORMAT",
    required=True,
    type=click.Choice(tuple(FORMATS)),
    help="One of the formats below; see docs/exports.md.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=click.Path(path_type=Path, allow_dash=True),
    default=shared.STDOUT,
    help="The file to write; for a format with a file for each student, the folder. '-' is stdout.",
)
@click.option(
    "--template",
    cls=_FormatOption,
    metavar="FILE",
    type=shared.EXISTING_FILE,
    help="the file that the platform exported, to be filled in.",
)
@click.option(
    "--column",
    cls=_FormatOption,
    metavar="NAME",
    default="",
    help="the name of the assignment, or the template's column for the grade.",
)
@click.option(
    "--out-of",
    cls=_FormatOption,
    metavar="POINTS",
    type=shared.FiniteRange(0, 1_000_000, min_open=True),
    help="scale the total to this many points.",
)
@click.option(
    "--excel",
    cls=_FormatOption,
    is_flag=True,
    help="begin with a byte order mark, so that Excel reads UTF-8.",
)
@click.option(
    "--submission",
    cls=_FormatOption,
    metavar="PATH",
    type=shared.EXISTING,
    help="the folder of the graded files. By default the current folder.",
)
@shared.assignment_of_results_option
@click.option(
    "--section",
    "sections",
    metavar="NAME",
    multiple=True,
    help="Export only the students of this section; may be repeated.",
)
@shared.anonymous_option
@click.option(
    "--feedback",
    cls=_FormatOption,
    metavar="COLUMN",
    default="",
    help="also write each student's feedback into this column, such as 'Feedback comments'.",
)
@click.option(
    "--layout",
    cls=_FormatOption,
    metavar="NAME",
    type=click.Choice(("plain", "moodle", "canvas")),
    default="plain",
    help="how files are named: plain (by the students' ids), or as moodle or canvas expect them.",
)
@click.option(
    "--disclose",
    metavar="LEVEL",
    type=click.Choice(shared.DISCLOSURES),
    help=f"How much students read of hidden tests: {', '.join(shared.DISCLOSURES)}. By default as in "
    "course.toml.",
)
def export(
    source: Path,
    name: str,
    output: Path,
    template: Path | None,
    column: str,
    out_of: float | None,
    excel: bool,
    submission: Path | None,
    assignment: str | None,
    sections: tuple[str, ...],
    anonymous: bool,
    feedback: str,
    layout: str,
    disclose: str | None,
) -> None:
    """Write results in the format of a gradebook, a platform or a CI system.

    SOURCE is the folder that `grade batch` wrote, or one result of `grade run --json`.
    Some formats are one file about the class, others a file for each student. An exercise that is
    unjudged because of a fault of the grader is never a 0.

    \b
    Examples:
      grade export results --format csv -o grades.csv
      grade export results --format canvas --template canvas.csv -o upload.csv
      grade export results --format gradescope -o gradescope/
      grade export result.json --format markdown >> "$GITHUB_STEP_SUMMARY"
    """
    chosen = FORMATS[name]
    for option in sorted(set(Options.__struct_fields__) & set(click.get_current_context().params)):
        if shared.was_given(option) and option not in chosen.reads:
            # Otherwise it would be ignored silently.
            flag, readers = f"--{option.replace('_', '-')}", ", ".join(_readers(option))
            if option == "disclose":
                raise click.UsageError(
                    f"{name} is for staff and shows everything: --disclose is for {readers}."
                )
            raise click.UsageError(f"{name} has no use for {flag}: it is for {readers}.")
    if template is not None and output != shared.STDOUT and output.resolve() == template.resolve():
        raise click.UsageError(
            f"-o would overwrite {template}, although not every column is written: name another file."
        )
    if anonymous and template is not None:
        raise click.UsageError("A template needs names: remove --anonymous.")
    if anonymous and not source.is_dir():
        raise click.UsageError("--anonymous is for a gradebook: one result has no pseudonyms.")
    if assignment is not None and not source.is_dir():
        raise click.UsageError("--assignment is for a gradebook: one result is as it was judged.")
    if sections and not source.is_dir():
        raise click.UsageError("--section is for a gradebook: one result has no section.")
    title, policy, zeros = "", None, None
    if source.is_dir():
        with open_book(source, assignment, anonymous=anonymous) as book:
            title, policy = book.work_title, None if anonymous else book.policy
            zeros = None if anonymous else DoubtfulZeros(book)
            _refuse_unknown(sections, book)
    options = Options(
        template=template,
        column=column,
        out_of=out_of,
        excel=excel,
        environment=os.environ,
        submission=submission or Path(),
        disclose=shared.disclosure(disclose),
        feedback=feedback,
        layout=layout,
        title=title,
    )
    class_source = (
        ClassSource(source, assignment, anonymous=anonymous, sections=sections)
        if source.is_dir()
        else None
    )
    entries = _Noted(class_source or (read_result(source),), policy, zeros)
    if isinstance(chosen, ClassFormat):
        if output.is_dir():
            raise click.UsageError(f"{name} is one file: name it, not the folder {output}.")
        with _opened(output) as out:
            notes = chosen.write(entries, out, options)
        if policy is not None and entries.not_due:
            notes.append(f"{not_due(entries.not_due.values(), policy)}: 0 points for now.")
        _tell(notes)
    elif class_source is not None:
        if output == shared.STDOUT:
            raise click.UsageError(f"{name} is a file for each student: name a folder with -o.")
        _write_students(chosen, entries, output, options)
    else:
        text = chosen.render(read_result(source), options)
        if output != shared.STDOUT and output.is_dir():
            output = output / f"{source.stem}{chosen.suffix}"
        with _opened(output) as out:
            out.write(text)
    if zeros is not None:
        zeros.tell()
    if entries.held:
        names = some_of(list(entries.held), _MAX_NAMES)
        note = (
            f"Points of {names} are provisional because of odd code in a file. `grade show` shows it, and "
            "`grade adjust --release` makes them final."
        )
        _tell([note])


def _refuse_unknown(sections: Iterable[str], book: Gradebook) -> None:
    """Raise a usage error for a section in which no student is."""
    students = book.students()
    for name in sections:
        if not any(is_in_group(student.section, name) for student in students):
            known = section_names(students)
            there = f"There is: {listed(known)}." if known else "Give a --roster with sections."
            raise click.UsageError(f"No student is in section {name!r}. {there}")


class _Noted:
    """Iterate over entries, and collect what a person should know about them.

    `held` are the students whose points are provisional. `not_due` has the due time, by the policy, of each
    student who handed in nothing yet.
    """

    def __init__(
        self, entries: Iterable[Entry], policy: Policy | None, zeros: DoubtfulZeros | None
    ) -> None:
        self._entries, self._policy, self._zeros = entries, policy, zeros
        self.held: dict[str, None] = {}
        self.not_due: dict[str, datetime.datetime] = {}

    def __iter__(self) -> Iterator[Entry]:
        now = datetime.datetime.now(datetime.UTC)
        for entry in self._entries:
            if self._zeros is not None:
                self._zeros.see(entry)
            if is_provisional(entry.result.exercises):
                self.held[entry.student.id] = None
            until = None if self._policy is None else time_left(entry, self._policy, now)
            if until is not None:
                self.not_due[entry.student.id] = until
            yield entry


def _opened(output: Path) -> AbstractContextManager[IO[bytes]]:
    """Open stdout, or a file that is written completely or not at all."""
    return (
        contextlib.nullcontext(sys.stdout.buffer)
        if output == shared.STDOUT
        else open_export(output)
    )


def _write_students(
    chosen: StudentFormat, entries: Iterable[Entry], output: Path, options: Options
) -> None:
    """Write a file for each student; exit with a fault if one has no verdict."""
    folder, left_out = folder_at(output), 0
    for entry in entries:
        try:
            text = chosen.render(entry, options)
        except NoVerdict as missing:
            left_out += 1
            _tell([f"{entry.student.id}: {missing}"])
            continue
        with open_export(folder / f"{safe_name(entry.student.id)}{chosen.suffix}") as out:
            out.write(text)
    if left_out:
        _tell([f"{left_out} of the students have no file, because an exercise was not judged."])
        click.get_current_context().exit(ExitCode.FAULT)


def _tell(notes: list[str]) -> None:
    for note in notes:
        click.echo(clean_lines(note, _LONGEST_NOTE), err=True)
