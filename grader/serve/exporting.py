"""Exports from the page: `grade export` in a separate process, whose file is kept for the person who made it.

Theory of operation. A process reads the gradebook beside the server, with a lower priority and one at a time:
nobody who hands in waits for it, and its memory is free afterwards. It gets the options from the page, and the
sections that the person reaches. One file for each person is kept for some minutes, in a folder that only the
server's user can read. The next start removes files that a killed server left there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from grader.exports import FORMATS
from grader.exports.files import StudentFormat
from grader.results import Disclosure
from grader.serve.http import Refusal, Upload
from grader.serve.roles import Asker
from grader.submissions import safe_name
from grader.text import clean_lines

KEPT_SECONDS = 900.0
MAX_TEMPLATE_BYTES = 2 << 20
_PREFIX = ".export-"
_LONGEST_SECONDS = 600
_LONGEST_SAID, _LONGEST_OPTION = 10_000, 300
# These formats are for workflows, which know more about a student than the gradebook.
_OF_WORKFLOWS = ("annotations", "classroom", "classroom50")
_LAYOUTS = ("plain", "moodle", "canvas")
_SUFFIXES = {
    **dict.fromkeys(("csv", "canvas", "moodle", "nbgrader", "mailmerge"), ".csv"),
    "jsonl": ".jsonl",
    "feedback_zip": ".zip",
}
# For each option, its label, which begins with the name of the field, and its values: None if any text is
# valid, empty if the option is true or false.
OPTIONS: Mapping[str, tuple[str, tuple[str, ...] | None]] = {
    "column": (
        "Column: the name of the assignment, or of the template's column for the grade",
        None,
    ),
    "out_of": ("Out of: scale the total to this many points", None),
    "feedback": (
        "Feedback: also write the feedback into this column, such as Feedback comments",
        None,
    ),
    "layout": ("Layout: name the files as this platform expects them", _LAYOUTS),
    "disclose": (
        "Hidden tests: how much students read of them; empty for the level of the course",
        ("", *(level.value for level in Disclosure)),
    ),
    "excel": ("Excel: begin with a byte order mark, so that Excel reads UTF-8", ()),
    "anonymous": ("Pseudonyms: instead of names and ids", ()),
}

_MAX_POINTS = 1_000_000
# Options of `grade export` in its messages.
_FLAGS = re.compile(r"--(template|assignment|" + "|".join(OPTIONS).replace("_", "-") + r")\b")


class Made(msgspec.Struct, frozen=True):
    """An export that its maker can fetch; `notes` are the messages of `grade export`."""

    id: str
    path: Path
    name: str
    notes: tuple[str, ...]
    made_at: float


def formats() -> dict[str, str]:
    """Map the formats that the page offers to descriptions of their files."""
    return {
        name: in_fields(chosen.summary)
        + (", a file for each student, in a zip" if isinstance(chosen, StudentFormat) else "")
        for name, chosen in FORMATS.items()
        if name not in _OF_WORKFLOWS
    }


def options_of(name: str) -> tuple[str, ...]:
    """Return the options that the page offers for a format, in order."""
    reads = (*FORMATS[name].reads, "anonymous")
    return tuple(option for option in OPTIONS if option in reads)


def field(option: str) -> str:
    """Return the name of an option's field in the page, in quotation marks."""
    others = {"template": "Template", "assignment": "Exercises"}
    return f"“{others.get(option) or OPTIONS[option][0].partition(':')[0]}”"


def in_fields(said: str) -> str:
    """Return a message of `grade export` with the names of the page's fields in place of its options."""
    return _FLAGS.sub(lambda flag: field(flag[1].replace("-", "_")), said)


def reads_template(name: str) -> bool:
    """Whether a format fills in a file of its platform."""
    return "template" in FORMATS[name].reads


class Exports:
    """The exports of a server; only the event loop calls them."""

    def __init__(self, results: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._results, self._clock = results, clock
        self._made: dict[str, Made] = {}
        self._turn = asyncio.Lock()
        self._remove_old()

    def _remove_old(self) -> None:
        for folder in self._results.glob(f"{_PREFIX}*"):
            shutil.rmtree(folder, ignore_errors=True)

    async def make(
        self,
        asker: Asker,
        name: str,
        options: Mapping[str, str],
        template: Upload | None,
    ) -> Made:
        """Write an export of the students that a person reaches, and keep it for this person.

        Raises Refusal with the words of `grade export`.
        """
        if name not in formats():
            raise Refusal(422, "There is no such format.")
        if asker.reach(()) is not None and not asker.sections:
            raise Refusal(
                403, "No student is in a section of your token: there is nobody to export."
            )
        self._forget()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._results))
        try:
            async with self._turn:
                made = await self._export(folder, asker, name, options, template)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._drop(asker.name)
        self._made[asker.name] = made
        asyncio.get_running_loop().call_later(KEPT_SECONDS + 1, self._forget)
        return made

    def of(self, asker: Asker, id_: str) -> Made | None:
        """Return the export with this id, if this person made it and it is still there."""
        self._forget()
        made = self._made.get(asker.name)
        return made if made is not None and secrets.compare_digest(made.id, id_) else None

    def close(self) -> None:
        """Remove all files."""
        for who in list(self._made):
            self._drop(who)
        self._remove_old()

    def _forget(self) -> None:
        """Remove files that were not fetched in time."""
        for who, made in list(self._made.items()):
            if self._clock() - made.made_at > KEPT_SECONDS:
                self._drop(who)

    def _drop(self, who: str) -> None:
        if (made := self._made.pop(who, None)) is not None:
            shutil.rmtree(made.path.parent, ignore_errors=True)

    async def _export(
        self,
        folder: Path,
        asker: Asker,
        name: str,
        options: Mapping[str, str],
        template: Upload | None,
    ) -> Made:
        """Run `grade export` in a folder, and return its file."""
        is_folder = isinstance(FORMATS[name], StudentFormat)
        output = "export" if is_folder else f"export{_SUFFIXES[name]}"
        arguments = [f"--format={name}", f"--output={output}", *_arguments(name, options)]
        arguments += [f"--section={section}" for section in asker.sections]
        if template is not None and template.content:
            # Keep the person's name for the file, which messages show.
            own = f"template-{safe_name(template.name)[-80:]}"
            (folder / own).write_bytes(template.content)
            arguments.append(f"--template={own}")
        path = folder / output
        status, said = await self._run(folder, arguments)
        # A format with a file for each student may leave out some of them.
        is_partial = is_folder and path.is_dir() and "\ngrade: " not in f"\n{said}"
        if status and not is_partial:
            raise Refusal(422, _reason(said))
        if is_folder:
            path = await asyncio.to_thread(_zipped, path)
        date = time.strftime("%Y-%m-%d")
        notes = tuple(line for line in said.splitlines() if line.strip())
        file = f"{name}-{date}{path.suffix}"
        return Made(secrets.token_hex(16), path, file, notes, self._clock())

    async def _run(self, folder: Path, arguments: list[str]) -> tuple[int, str]:
        """Run `grade export` in a folder; return its exit code, and what it said."""
        command = [sys.executable, "-P", "-m", "grader.cli", "export", str(self._results.resolve())]
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            with contextlib.suppress(AttributeError, OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, 10)
            async with asyncio.timeout(_LONGEST_SECONDS):
                _, error = await process.communicate()
        except TimeoutError as late:
            raise Refusal(503, "The export took too long. Use `grade export` instead.") from late
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        text = error.decode("utf-8", "replace").replace(str(self._results.resolve()), "RESULTS")
        return process.returncode or 0, in_fields(clean_lines(text, _LONGEST_SAID))


def _arguments(name: str, options: Mapping[str, str]) -> list[str]:
    """Return a form's options as arguments of `grade export`; raises Refusal for a wrong value."""
    arguments = []
    for option in ("assignment", *options_of(name)):
        text = options.get(option, "").strip()
        if len(text) > _LONGEST_OPTION:
            raise Refusal(413, f"{field(option)} is longer than {_LONGEST_OPTION} characters.")
        if "\0" in text:
            raise Refusal(422, f"{field(option)} has a character that no file can have.")
        if option == "out_of" and text and not _is_points(text):
            raise Refusal(422, f"{field(option)} is a number of points, such as 20, not {text!r}.")
        _, values = OPTIONS.get(option, ("", None))
        flag = f"--{option.replace('_', '-')}"
        if values == ():
            arguments += [flag] if text else []
        elif values is not None and text not in values:
            raise Refusal(422, f"{field(option)} is one of {', '.join(filter(None, values))}.")
        elif text:
            arguments.append(f"{flag}={text}")
    return arguments


def _is_points(text: str) -> bool:
    try:
        return 0 < float(text) <= _MAX_POINTS
    except ValueError:
        return False


def _reason(said: str) -> str:
    """Return the sentence of an error of the command line, without its usage."""
    return said.rpartition("Error: ")[2].rpartition("grade: ")[2].strip() or "The export failed."


def _zipped(folder: Path) -> Path:
    """Replace a folder by a zip of its files, and return the zip."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    shutil.rmtree(folder)
    return path
