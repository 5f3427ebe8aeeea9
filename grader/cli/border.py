"""The border of the command line, the only place where an error becomes text and an exit code."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import sys
from typing import TYPE_CHECKING, Any

import click

from grader.errors import ExitCode, GraderError, SubmissionError
from grader.sandbox.surroundings import open_standard_streams
from grader.text import PLAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grader.gradebook import Gradebook
    from grader.gradebook.anonymous import AnonymousBook

HELP_FLAGS = ["-h", "--help"]
_LONGEST_ERROR = 10_000


class Command(click.Command):
    """A command that prints each fault as one sentence, with an exit code of its own.

    `listing` returns a heading and rows for the end of the help. It is called only when the help is shown.
    """

    def __init__(
        self,
        *arguments: Any,
        listing: Callable[[], tuple[str, list[tuple[str, str]]]] | None = None,
        **keywords: Any,
    ) -> None:
        # Without this, click would remember the help flags of the first call, if it was not by `grade`.
        keywords.setdefault("context_settings", {"help_option_names": HELP_FLAGS})
        super().__init__(*arguments, **keywords)
        self._listing = listing

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the listing below the options."""
        super().format_epilog(context, formatter)
        if self._listing is not None:
            heading, rows = self._listing()
            with formatter.section(heading):
                formatter.write_dl(rows)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; every exception becomes text on stderr and an exit code."""
        try:
            return super().invoke(context)
        except SubmissionError as error:
            raise click.UsageError(_harmless(error), context) from error
        except GraderError as error:
            _say(f"grade: {_harmless(error)}")
            context.exit(error.exit_code)
        except KeyboardInterrupt:
            _say("grade: interrupted.")
            # After a KeyboardInterrupt during an `exec`, as when dataclasses are imported, Python would exit by
            # the signal. Another `exec` clears that state.
            exec("")  # noqa: S102
            context.exit(ExitCode.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        # The border: a fault of the grader must not exit with the code for lost points.
        except Exception as error:  # noqa: BLE001
            sys.excepthook(type(error), error, error.__traceback__)
            _say(
                "grade: this is a fault of the grader and costs no student a point; please report it."
            )
            context.exit(ExitCode.FAULT)


class Group(click.Group):
    """A group of commands that runs `run` if no command is named: `grade -v` is `grade run -v`.

    `families` maps each heading of the help to its commands, and each command to its module in `grader.cli` and
    a short help. The module is imported only when the command is called.
    """

    command_class = Command

    def __init__(
        self,
        *arguments: Any,
        families: Mapping[str, Mapping[str, tuple[str, str]]],
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._families = families
        self._table = dict(row for commands in families.values() for row in commands.items())

    def load(self, name: str) -> click.Command:
        """Import the command of this name; raises KeyError if there is none."""
        module, _, function = self._table[name][0].partition(":")
        loaded = importlib.import_module(f"grader.cli.{module}")
        command: click.Command = getattr(loaded, function or name)
        return command

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # as inherited
        """Return the command of this name, or None."""
        return self.load(cmd_name) if cmd_name in self._table else None

    def format_commands(
        self,
        context: click.Context,  # noqa: ARG002  # as inherited
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands under their headings, all with one width of names."""
        longest = max(map(len, self._table))
        for heading, commands in self._families.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(longest), text) for name, (_, text) in commands.items()]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names of commands and the options of `grade` itself."""
        from click.shell_completion import CompletionItem

        rows = [row for row in self._table.items() if row[0].startswith(incomplete)]
        names = [CompletionItem(name, help=text) for name, (_, text) in rows]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the command line, with streams that accept any text, even if they are closed."""
        open_standard_streams()
        for stream in (sys.stdout, sys.stderr):
            # A C locale cannot encode an ellipsis, nor an old Windows code page a check mark.
            if isinstance(stream, io.TextIOWrapper):
                with contextlib.suppress(ValueError):
                    stream.reconfigure(errors=PLAINER)
        # The syntax trees of a first `grade` all stay alive. Searching them for garbage after every 700
        # objects, as by default, takes a sixth of the time.
        gc.set_threshold(50_000)
        return super().main(*arguments, **keywords)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Put `run` in front of arguments that name no command."""
        own = {name for parameter in self.get_params(context) for name in parameter.opts}
        if not arguments or (arguments[0].startswith("-") and arguments[0] not in own):
            arguments = ["run", *arguments]
        return super().parse_args(context, arguments)

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002  # as inherited
        """List the commands in the order in which a student meets them."""
        return list(self._table)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if an exercise is named instead, say how to judge it."""
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            if (command := self._command_meant(arguments[0])) is not None:
                advice = f"There is no command {arguments[0]!r}. Did you mean {command!r}?"
                raise click.UsageError(advice, context) from error
            if (meant := _exercise_meant(arguments[0])) is None:
                raise
            which = "that exercise" if meant == arguments[0] else f"the exercise {meant}"
            advice = f"{error.message} To judge {which}: grade run {meant}"
            raise click.UsageError(advice, context) from error

    def _command_meant(self, name: str) -> str | None:
        """Return the command that was misspelled, abbreviated, or called by its name in other tools."""
        from difflib import get_close_matches

        if (exercise := _exercise_meant(name)) is not None and exercise in name:
            return None  # an exercise, or its file
        words = {**{command: command for command in self._table}, **_OTHER_WORDS}
        begun = [command for command in self._table if len(name) > 1 and command.startswith(name)]
        # One slip in a short word is 0.75, and 0.6 takes `next` for `export`.
        options = [*words, *([exercise] if exercise else [])]
        close = get_close_matches(name, options, n=1, cutoff=0.7)
        # If the name of an exercise is nearer, no command was meant.
        return next((words[word] for word in [*begun, *close] if word in words), None)


# Names of our commands in other tools, and words that people try.
_OTHER_WORDS = {
    **dict.fromkeys(("test", "check", "judge", "next", "start"), "run"),
    **dict.fromkeys(("status", "progress"), "list"),
    "upload": "submit",
    "help": "--help",
    "version": "--version",
}


def _exercise_meant(name: str) -> str | None:
    """Return the id of an exercise that was named, misspelled, or given by its file."""
    from difflib import get_close_matches
    from pathlib import Path

    from grader.course.manifest import load_course

    with contextlib.suppress(GraderError):
        ids = [exercise.id for exercise in load_course().exercises]
        return next(iter(get_close_matches(Path(name).stem, ids, n=1)), None)
    return None


def tell(text: str) -> None:
    """Print a note on stderr, as one harmless line."""
    from grader.text import clean

    _say(clean(text, _LONGEST_ERROR))


def tell_unfinished(book: Gradebook | AnonymousBook) -> None:
    """Say on stderr if the last grading did not finish."""
    if book.unfinished:
        tell(book.unfinished)


def _harmless(error: GraderError) -> str:
    """Clean the text of an error, which may contain a stranger's path."""
    from grader.text import clean_lines

    return clean_lines(str(error), _LONGEST_ERROR)


def _say(text: str) -> None:
    click.echo(text, err=True)
