"""What is said about a result: once, and the same by every renderer."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grader.cli.terminal.console import open_console
from grader.cli.terminal.result import panel
from grader.cli.terminal.student_result import show_scorecard
from grader.exports import FORMATS
from grader.exports.report.render import Renderer
from grader.notebook.verdict import CheckResult
from grader.results import Entry, ExerciseResult, Outcome, Place, Status
from grader.student.blocks import (
    Hint,
    Message,
    Note,
    Where,
    every_test,
    explained,
    in_full,
    plain,
    summarized,
)
from tests.grader.builders import checked, entry, exercise, rendered

PLACE = Place("modules/glu.py", 7, "forward")
SEVERAL = exercise(
    checked("good"),
    checked("first", Outcome.FAILED, message="Wrong by 1.\nAt [0].", hint="Count again."),
    checked("again", Outcome.FAILED, message="Wrong by 1.\nAt [0].", hint="From 0."),
    checked("crash", Outcome.ERROR, message="It raised.", hint="Not for a crash."),
    checked("later", Outcome.SKIPPED, message="Not judged yet.", hint="Not yet."),
    checked("part", Outcome.NOT_IMPLEMENTED, message="forward is to be written."),
)
BROKEN = exercise(
    checked("one", Outcome.ERROR, message="It is no Python."),
    checked("two", Outcome.ERROR, message="It is no Python."),
    status=Status.ERROR,
    message="It is no Python.",
)


def terminal(of: Entry, folder: Path) -> str:
    stream = io.StringIO()
    console = open_console(stream)
    guide: Any = SimpleNamespace(
        course=SimpleNamespace(title="A course", exercises=(), is_public=False),
        standings={},
        submission=folder,
        where=lambda name, place: f"{place.file}:{place.line}",  # as the guide has it
        judge=lambda name, more="": f"`grade run {name}{more}`",
        fault=lambda exercise: exercise.message,
        next_step=lambda exercises: "",  # as the guide has it
        asked=SimpleNamespace(by_saving=False),
    )
    for line in panel(console, of.result.exercises, guide, shown=99):
        console.print(line, soft_wrap=True)
    return stream.getvalue()


def scorecard(of: Entry, folder: Path) -> str:  # as every renderer
    stream = io.StringIO()
    show_scorecard(open_console(stream), of, ())
    return stream.getvalue()


def notebook(of: Entry, folder: Path) -> str:  # as every renderer
    composed: Any = SimpleNamespace(notes=(), place=lambda line: ("modules/glu.py", line))
    (exercise,) = of.result.exercises
    check = CheckResult(exercise, composed)
    page = html.unescape(re.sub("<[^>]*>", "\n", check._repr_html_()))
    assert all(line.strip(" ->x") in page for line in repr(check).splitlines())
    return repr(check).replace(", line ", ":")


def report(of: Entry, folder: Path) -> str:
    Renderer().write(folder / "page.html", "student.html", title="A course", entry=of, unjudged=0)
    text = re.sub("<style>.*</style>", "", (folder / "page.html").read_text(), flags=re.DOTALL)
    return html.unescape(re.sub("<[^>]*>", "", text))


def markdown(of: Entry, folder: Path) -> str:  # as every renderer
    return html.unescape(rendered(FORMATS["markdown"], of).decode())


RENDERERS = [terminal, scorecard, notebook, report, markdown]


def one_shown(of: ExerciseResult) -> ExerciseResult:
    """Few enough tests for the notebook to show each cause."""
    return msgspec.structs.replace(of, tests=of.tests[:4] + of.tests[5:])


@pytest.mark.parametrize("render", RENDERERS, ids=lambda render: render.__name__)
def test_every_renderer_says_the_same_of_each_cause(render: Any, tmp_path: Path) -> None:
    text = render(entry(one_shown(SEVERAL)), tmp_path)
    words = " ".join(text.split())
    for said in ("Wrong by 1.", "At [0].", "Count again.", "It raised.", "modules/glu.py:7"):
        assert said in words
    assert words.count("Wrong by 1.") == 1, "what was said is not said again"
    assert "The same in 1 more test." in words or "The same as above." in words
    assert "forward is to be written." in words
    assert "Not for a crash." not in words


@pytest.mark.parametrize("render", RENDERERS, ids=lambda render: render.__name__)
def test_every_renderer_tells_a_fault_of_the_file_once(render: Any, tmp_path: Path) -> None:
    words = " ".join(render(entry(BROKEN), tmp_path).split())
    assert words.count("It is no Python.") == 1
    assert words.count("modules/glu.py:7") == 1
    assert "Look again." not in words


def test_a_summary_has_each_cause_once_and_parts_last() -> None:
    summary = summarized(SEVERAL)
    assert [section.title for section in summary.sections] == [
        "The title of first",
        "The title of crash",
        "forward is to be written.",
    ]
    first, crash, part = summary.sections
    assert first.blocks == (
        Message("Wrong by 1.\nAt [0]."),
        Where(PLACE),
        Hint("Count again."),
        Note("The same in 1 more test."),
    )
    assert crash.blocks == (Message("It raised."), Where(PLACE))
    assert (part.is_part, part.blocks) == (True, (Where(PLACE), Note("1 test needs it.")))
    assert (summary.more, summary.waiting) == (0, "1 more test waits for these.")
    assert summarized(SEVERAL, 1).more == 2


def test_all_tests_say_what_was_said_above_only_once() -> None:
    blocks = [section.blocks for section in in_full(SEVERAL)]
    assert blocks[0] == ()
    assert blocks[2] == (Note("The same as above."), Hint("From 0."))
    assert blocks[4] == (Message("Not judged yet."),)
    assert [section.title for section in in_full(BROKEN)] == [""]
    assert [section.blocks for section in every_test(BROKEN, BROKEN.tests)] == [(), ()]


def test_blocks_as_lines_of_text() -> None:
    lines = "Wrong by 1.\nAt [0].\nmodules/glu.py:7\nHint: Count again."
    assert plain(explained(SEVERAL.tests[1])) == lines
