"""The text about a result: everything is said once, and every renderer says the same."""

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
from grader.cli.terminal.result import Panel
from grader.cli.terminal.student_result import show_scorecard
from grader.exports import FORMATS
from grader.exports.report.render import Renderer
from grader.notebook.verdict import CheckResult
from grader.results import (
    Cause,
    Entry,
    ExerciseResult,
    Outcome,
    Place,
    Status,
    TestResult,
    Visibility,
)
from grader.student.blocks import (
    Hint,
    Message,
    Note,
    Where,
    blocks_of,
    every_test,
    in_full,
    plain,
    problems,
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
        course=SimpleNamespace(title="A course", exercises=()),
        is_public=False,
        standings={},
        submission=folder,
        where=lambda name, place: f"{place.file}:{place.line}",  # the guide's signature
        judge=lambda name, more="": f"`grade run {name}{more}`",
        fault=lambda exercise: exercise.message,
        next_step=lambda exercises: "",  # the guide's signature
        asked=SimpleNamespace(by_saving=False),
    )
    for line in Panel(console, of.result.exercises, guide).lines(shown=99):
        console.print(line, soft_wrap=True)
    return stream.getvalue()


def scorecard(of: Entry, folder: Path) -> str:  # the signature of every renderer
    stream = io.StringIO()
    show_scorecard(open_console(stream), of, ())
    return stream.getvalue()


def notebook(of: Entry, folder: Path) -> str:  # the signature of every renderer
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


def markdown(of: Entry, folder: Path) -> str:  # the signature of every renderer
    return html.unescape(rendered(FORMATS["markdown"], of).decode())


RENDERERS = [terminal, scorecard, notebook, report, markdown]


def one_shown(of: ExerciseResult) -> ExerciseResult:
    """Drop a test, so that the notebook shows each cause."""
    return msgspec.structs.replace(of, tests=of.tests[:4] + of.tests[5:])


@pytest.mark.parametrize("render", RENDERERS, ids=lambda render: render.__name__)
def test_every_renderer_says_the_same_about_each_cause(render: Any, tmp_path: Path) -> None:
    text = render(entry(one_shown(SEVERAL)), tmp_path)
    words = " ".join(text.split())
    for said in ("Wrong by 1.", "At [0].", "Count again.", "It raised.", "modules/glu.py:7"):
        assert said in words
    assert words.count("Wrong by 1.") == 1, "nothing is said twice"
    assert "The same in 1 more test." in words or 'The same as for "' in words
    assert "forward is to be written." in words
    assert "Not for a crash." not in words


@pytest.mark.parametrize("render", RENDERERS, ids=lambda render: render.__name__)
def test_every_renderer_shows_a_broken_file_once(render: Any, tmp_path: Path) -> None:
    words = " ".join(render(entry(BROKEN), tmp_path).split())
    assert words.count("It is no Python.") == 1
    assert words.count("modules/glu.py:7") == 1
    assert "Look again." not in words


def test_a_summary_has_each_cause_once_and_parts_last() -> None:
    summary = summarized(SEVERAL)
    assert [section.title for section in summary.sections] == [
        "The title of crash",
        "The title of first",
        "forward is to be written.",
    ]
    crash, first, part = summary.sections
    assert first.blocks == (
        Message("Wrong by 1.", ("At [0].",)),
        Where(PLACE),
        Hint("Count again."),
        Note("The same in 1 more test."),
    )
    assert crash.blocks == (Message("It raised."), Where(PLACE))
    assert (part.is_part, part.blocks) == (True, (Where(PLACE), Note("1 test needs it.")))
    assert (summary.more, summary.waiting) == (0, "1 more test waits for these.")
    assert summarized(SEVERAL, 1).more == 3


def failed(name: str, cause: Cause, **changes: Any) -> TestResult:
    """Return a failed test with this cause, in a function of its own."""
    given = {"place": Place("modules/glu.py", 7, name), "message": f"{name}.\n1 is not 2."}
    return checked(name, Outcome.FAILED, cause=cause, **{**given, **changes})


def test_findings_are_ordered_by_how_much_they_explain() -> None:
    place = Place("modules/glu.py", 9, "helper")
    tests = (
        checked("unwritten", Outcome.NOT_IMPLEMENTED, message="To do."),
        checked("no_time", Outcome.TIMEOUT, message="No time.", cause=Cause.NO_TIME),
        failed("gradient", Cause.GRADIENT),
        failed("values", Cause.VALUES),
        failed("more_values", Cause.VALUES),
        failed("shape", Cause.SHAPE),
        checked(
            "raised",
            Outcome.ERROR,
            message="raised ValueError: no",
            cause=Cause.RAISE,
            plain="ValueError",
        ),
        failed("law", Cause.LAW),
        failed("mistake", Cause.MISTAKE),
        failed("forbidden", Cause.OTHER, refused=True),
        checked("loop", Outcome.TIMEOUT, message="No answer.", place=place),
        checked(
            "crash", Outcome.ERROR, message="raised KeyError: 1", plain="KeyError", place=place
        ),
    )
    order = ["loop", "crash", "forbidden", "mistake", "law", "shape", "raised"]
    order += ["values", "more_values", "gradient", "no_time", "unwritten"]
    assert [finding.first.name for finding in problems(exercise(*tests))] == order


def test_a_line_that_raises_is_shown_once_for_all_sizes() -> None:
    sizes = ("(2x3 and 2x3)", "(8x3 and 4x3)")
    tests = [
        checked(s, Outcome.ERROR, message=f"raised RuntimeError: {s}", plain="RuntimeError")
        for s in sizes
    ]
    other = checked("other", Outcome.ERROR, message="raised KeyError: 1", plain="KeyError")
    first, second = problems(exercise(*tests, other))
    assert (first.first.name, first.more, second.first.name) == (sizes[0], 1, "other")
    (section, _) = summarized(exercise(*tests, other)).sections
    assert section.blocks[-1] == Note("1 more test fails there, too.")


@pytest.mark.parametrize(
    "cause", [Cause.NOTHING, Cause.SHAPE, Cause.TYPE, Cause.VALUES, Cause.GRADIENT]
)
@pytest.mark.parametrize("function", ["forward", ""], ids=["staff", "a student"])
def test_a_public_test_and_its_hidden_twin_are_shown_once(cause: Cause, function: str) -> None:
    """A student does not read the function of a hidden test, only its line."""
    place, hidden = Place("modules/glu.py", 7, "forward"), Visibility.HIDDEN
    example = failed("example", cause, place=place)
    twin = failed("twin", cause, place=Place(place.file, 7, function), visibility=hidden)
    elsewhere = failed("elsewhere", cause, visibility=hidden)
    told = problems(exercise(example, twin, elsewhere))
    assert [(f.first.name, f.more) for f in told] == [("example", 1), ("elsewhere", 0)]
    # Two hidden tests are not twins: each may show its own case.
    assert (
        len(problems(exercise(twin, failed("third", cause, place=place, visibility=hidden)))) == 2
    )


def test_a_function_comes_after_the_functions_that_it_uses() -> None:
    shard = failed("shard", Cause.VALUES, subject="shard")
    crash = checked(
        "crash",
        Outcome.ERROR,
        message="raised KeyError: 1",
        plain="KeyError",
        place=Place("modules/glu.py", 9, "bench"),
        subject="bench",
        uses=("shard",),
    )
    other = failed("other", Cause.VALUES, subject="other")
    unwritten = checked("unwritten", Outcome.NOT_IMPLEMENTED, message="To do.", subject="part")
    told = problems(exercise(crash, unwritten, other, shard))
    assert [f.first.name for f in told] == ["other", "shard", "crash", "unwritten"]
    # A function that returns nothing usable explains a crash. Wrong values do not.
    for cause in (Cause.NOTHING, Cause.TYPE, Cause.SHAPE):
        useless = failed("shard", cause, subject="shard")
        (first, second) = problems(exercise(crash, other, useless))
        assert (first.first.name, first.followers, second.first.name) == (
            "shard",
            (crash,),
            "other",
        )
        summary = summarized(exercise(crash, useless), 1)
        assert summary.sections[0].blocks[-1] == Note("1 test of bench, which uses it, fails, too.")
        assert summary.more == 0
    # An unwritten function does not cause the fault of another.
    waiting = msgspec.structs.replace(crash, uses=("part",))
    assert problems(exercise(waiting, unwritten, other))[0].first is waiting


def test_an_exception_follows_from_the_function_that_is_used() -> None:
    shard = failed("shard", Cause.VALUES, subject="shard")
    refused = checked("refused", Outcome.ERROR, cause=Cause.RAISE, subject="bench", uses=("shard",))
    (finding,) = problems(exercise(refused, shard))
    assert (finding.first, finding.followers) == (shard, (refused,))


def test_two_laws_with_one_remedy_are_shown_once() -> None:
    place = Place("modules/glu.py", 7, "forward")
    one, two = (
        failed(name, Cause.LAW, place=place, message=f"{name} left a hook.\nRemove it.")
        for name in ("f", "g")
    )
    other = failed("mode", Cause.LAW, place=place, message="f left a mode.\nSet it back.")
    assert [f.more for f in problems(exercise(one, two, other))] == [1, 0]
    elsewhere = msgspec.structs.replace(one, name="g", place=None)
    assert len(problems(exercise(one, elsewhere))) == 1, "the same sentence at another place"


def test_a_missing_return_comes_before_the_exception_that_it_causes() -> None:
    raised = checked("raised", Outcome.ERROR, message="raised AttributeError: 'NoneType'")
    nothing = failed("nothing", Cause.NOTHING)
    assert [f.first.name for f in problems(exercise(raised, nothing))] == ["nothing", "raised"]


def test_a_named_mistake_has_no_hint_of_its_test() -> None:
    for cause, hints in ((Cause.MISTAKE, 0), (Cause.VALUES, 1), (Cause.LAW, 1)):
        blocks = blocks_of(failed("a", cause))
        assert sum(isinstance(block, Hint) for block in blocks) == hints


def test_forbidden_names_in_one_function_are_shown_once() -> None:
    places = [Place("modules/glu.py", line, "attention") for line in (7, 9)]
    tests = [
        failed(f"test_{place.line}", Cause.OTHER, refused=True, place=place) for place in places
    ]
    (finding,) = problems(exercise(*tests))
    assert finding.more == 1


def test_a_mistake_named_by_a_public_and_a_hidden_test_is_shown_once() -> None:
    place = Place("modules/glu.py", 7, "forward")
    example = failed("example", Cause.MISTAKE, place=place)
    twin = failed("twin", Cause.MISTAKE, place=place, visibility=Visibility.HIDDEN)
    (finding,) = problems(exercise(example, twin))
    assert (finding.first.name, finding.more) == ("example", 1)


def test_a_named_mistake_includes_the_mismatches_of_its_function() -> None:
    place = Place("modules/glu.py", 7, "forward")
    bare, gradient = (failed(c.value, c, place=place) for c in (Cause.VALUES, Cause.GRADIENT))
    named = failed("named", Cause.MISTAKE, place=place, visibility=Visibility.HIDDEN)
    other = failed("other", Cause.MISTAKE, place=place)
    law = failed("law", Cause.LAW, place=place)
    told = problems(exercise(bare, gradient, named, other, law))
    assert [(f.first.name, f.more) for f in told] == [("named", 2), ("other", 0), ("law", 0)]
    # A broken law does not explain wrong values.
    assert len(problems(exercise(bare, law))) == 2


def test_a_known_mistake_is_shown_once() -> None:
    told = "Known mistake: the weight is cached."
    first = failed("a", Cause.MISTAKE, message=f"{told}\n1 of 2", place=Place("one.py", 4, "f"))
    other = failed("b", Cause.MISTAKE, message=f"{told}\n3 of 4", place=Place("one.py", 4, ""))
    third = failed("c", Cause.MISTAKE, message="The bias is missing.", place=Place("one.py", 4, ""))
    sections = summarized(exercise(first, other, third)).sections
    assert [section.title for section in sections] == [first.title, third.title]
    assert sections[0].blocks[-1] == Note("1 more test fails there, too.")


def test_the_list_of_all_tests_repeats_nothing() -> None:
    blocks = [section.blocks for section in in_full(SEVERAL)]
    assert blocks[0] == ()
    assert blocks[2] == (Note(f'The same as for "{SEVERAL.tests[1].title}".'), Hint("From 0."))
    assert blocks[4] == (Message("Not judged yet."),)
    assert [section.title for section in in_full(BROKEN)] == [""]
    assert [section.blocks for section in every_test(BROKEN, BROKEN.tests)] == [(), ()]


def test_blocks_as_lines_of_text() -> None:
    lines = "Wrong by 1.\nAt [0].\nmodules/glu.py:7\nHint: Count again."
    assert plain(blocks_of(SEVERAL.tests[1])) == lines
