"""The process that makes a picture: experiments in sandboxes, drawing here, one JSON line in and one out.

Theory of operation. `grade plot` starts this process and a fork server, as grading starts a judge. The course's
experiment runs in a sandbox beside the student's code, with the time and memory of the exercise, and returns
plain, untrusted data. The data is converted into the typed struct of the experiment's file (`Data`), with the
bounds declared there, before `draw` sees it. A figure drawn by the student's own code is the bytes of a PNG,
which is checked by its chunks and never decoded (`grader.student.plots.png`). There are no suites and no
expected values here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from grader.course.manifest import Exercise, load_course
from grader.errors import CourseError, GraderError
from grader.judge.outcomes import SubmissionFailure as Ended
from grader.judge.process import limit_time, serve
from grader.judge.session import BegunTest, Session
from grader.judge.student import Student
from grader.judge.student_file import StudentFile
from grader.results import Outcome, Place
from grader.sandbox.client import SandboxSource
from grader.student.plots.png import NotAPicture, plain_png
from grader.student.plots.style import SETTINGS, share_axes
from grader.text import clean

# Limits for texts in a student's data: characters of one text, of all texts, and the greatest integer, since
# its digits are text as well.
LONGEST_TEXT = 100
MAX_CHARACTERS = 10_000
GREATEST_NUMBER = 10**18
# The same for all pictures of an exercise, so that they show the same experiment.
_SEED = 0


class Request(msgspec.Struct, frozen=True, tag="request"):
    """A request to draw this source, beside the `reference`, the solution's source, behind `required_walls`."""

    course: str
    exercise: str
    source: bytes
    reference: bytes | None = None
    required_walls: tuple[str, ...] = ()


class Drawn(msgspec.Struct, frozen=True, tag="drawn"):
    """The picture as a PNG; `own` is the figure drawn by the student's code, if any."""

    picture: bytes
    own: bytes | None = None
    note: str = ""


class NotDrawn(msgspec.Struct, frozen=True, tag="stopped"):
    """The plot failed; the reason is worded like a verdict."""

    outcome: Outcome
    message: str
    place: Place | None = None


class PlotFault(msgspec.Struct, frozen=True, tag="fault"):
    """A fault of the grader."""

    message: str


class _NotDrawable(Exception):
    """A returned value cannot be drawn; `why` ends the sentence about it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What your code returned cannot be drawn{why}")


# Runs a function of the experiment's file in a sandbox.
Run = Callable[..., Any]


def main(arguments: list[str]) -> None:
    """Answer requests on standard input, as a judge does."""
    serve(arguments, lambda line, sandboxes, _: _answer(line, sandboxes))


def _answer(line: bytes, sandboxes: SandboxSource) -> Drawn | NotDrawn | PlotFault:
    try:
        return _drawn(msgspec.json.decode(line, type=Request), sandboxes)
    except GraderError as error:
        return PlotFault(str(error))


def _drawn(request: Request, sandboxes: SandboxSource) -> Drawn | NotDrawn:
    """Run the experiment on the student's code and on the reference in turn, and draw both."""
    # Imported here, since the caller imports this module only for its structs.
    from grader.judge.suite_run import meaning_of

    course = load_course(Path(request.course))
    exercise = course.exercise(request.exercise)
    limit_time(exercise)
    file = course.plot(exercise)
    plot = _loaded(file)
    try:
        with contextlib.ExitStack() as stack:
            given = course.given(exercise)
            of_file = given, file, request.required_walls
            run = stack.enter_context(_runs(sandboxes, exercise, request.source, *of_file))
            measures = {"your code": lambda: _experiment(run, plot)}
            if (source := request.reference) is not None:
                reference = stack.enter_context(_runs(sandboxes, exercise, source, *of_file))
                measures["the reference"] = lambda: _reference(reference, plot, file)
            parts = runs_in_turn(measures, getattr(plot, "RUNS", 1), exercise.seconds)
            own, note = _own_figure(run, plot, parts["your code"][0])
        return Drawn(_picture(plot, exercise.title, parts), own, note)
    except Ended as error:
        end = meaning_of(error)
        place = Place(exercise.file, end.line, end.function) if end.line else None
        return NotDrawn(end.outcome, end.message, place)
    except _NotDrawable as error:
        return NotDrawn(Outcome.FAILED, str(error))


def _loaded(file: Path) -> ModuleType:
    """Return the experiment's file as a module; it is the author's, and trusted like a suite."""
    specification = importlib.util.spec_from_file_location(file.stem, file)
    if specification is None or specification.loader is None or not file.is_file():
        raise CourseError(f"There is no experiment at {file}.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    sys.dont_write_bytecode = True
    specification.loader.exec_module(module)
    return module


# --- the experiment, in a sandbox -----------------------------------------------------------------


@contextlib.contextmanager
def _runs(
    sandboxes: SandboxSource,
    exercise: Exercise,
    source: bytes,
    given: Mapping[str, bytes],
    file: Path,
    required_walls: tuple[str, ...],
) -> Iterator[Run]:
    """Yield a function that runs one of the experiment's functions beside a source, with the time of a test."""
    session = Session(
        sandboxes, exercise, StudentFile(exercise, source), required_walls, given=given
    )
    student = Student(session, file)

    def run(function: str, *arguments: Any) -> Any:
        session.begin_test(BegunTest(_SEED))
        return student.run(function, *arguments)

    try:
        yield run
    finally:
        session.close()


def _experiment(run: Run, plot: ModuleType) -> Any:
    """Return the data of the experiment, as the file's `Data`."""
    texts: list[str] = []
    returned = _tamed(run("experiment"), texts)
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise _NotDrawable(f": it holds more than {MAX_CHARACTERS} characters of text.")
    try:
        return msgspec.convert(returned, plot.Data)
    except msgspec.ValidationError as error:
        why = str(error)
        # msgspec speaks of JSON; these are the words of Python.
        for theirs, ours in _WORDS.items():
            why = why.replace(theirs, ours)
        raise _NotDrawable(f": {clean(why[:1].lower() + why[1:], 300)}.") from error


def _tamed(value: Any, texts: list[str]) -> Any:
    """Return the data with each text shortened, recorded, and escaped, so that matplotlib reads no formula."""
    if isinstance(value, str):
        texts.append(clean(value, LONGEST_TEXT))
        # A dollar sign would begin a formula.
        return texts[-1].replace("$", r"\$")
    if isinstance(value, int) and abs(value) > GREATEST_NUMBER:
        raise _NotDrawable(f": a number is beyond {GREATEST_NUMBER:g}.")
    if isinstance(value, dict):
        return {_tamed(key, texts): _tamed(member, texts) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_tamed(member, texts) for member in value)
    return value


_WORDS = {
    "`object`": "a dict",
    "`array`": "a list",
    "`Opaque`": "an object of another type",
    " - at `$.": " at `",
    " - at `$": " at `",
}


def _reference(run: Run, plot: ModuleType, file: Path) -> Any:
    try:
        return _experiment(run, plot)
    except (Ended, _NotDrawable) as error:
        raise CourseError(
            f"The experiment {file} fails with the course's own solution: {error} "
            "Tell the course's author; your own picture can be drawn without the reference."
        ) from error


def runs_in_turn(
    measures: Mapping[str, Callable[[], Any]], count: int, seconds: float
) -> dict[str, list[Any]]:
    """Return the data of `count` runs of each, by heading; fewer once one has used half of its seconds.

    They alternate, so that a disturbance of the machine affects all of them.
    """
    runs: dict[str, list[Any]] = {heading: [] for heading in measures}
    spent = dict.fromkeys(measures, 0.0)
    for _ in range(count):
        for heading, measure in measures.items():
            begin = time.monotonic()
            runs[heading].append(measure())
            spent[heading] += time.monotonic() - begin
        if max(spent.values()) > seconds / 2:
            break
    return runs


def _own_figure(run: Run, plot: ModuleType, data: Any) -> tuple[bytes | None, str]:
    """Return the figure of the student's own code, if the exercise asks for one, or a note on its absence."""
    if not hasattr(plot, "own_figure"):
        return None, ""
    try:
        written = run("own_figure", msgspec.to_builtins(data))
        if not isinstance(written, bytes):
            raise NotAPicture("it is none")
        return plain_png(written), ""
    except Ended as error:
        return None, f"Your own figure was not drawn: {error}"
    except NotAPicture as error:
        return None, f"Your own figure is not kept: {error}."


# --- the drawing, here ----------------------------------------------------------------------------


def _picture(plot: ModuleType, title: str, parts: dict[str, list[Any]]) -> bytes:
    """Return the PNG of all parts, each under its heading, side by side and on the same axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    width, height = plot.SIZE
    written = io.BytesIO()
    try:
        # Matplotlib warns of odd numbers, which the picture shows anyway.
        with warnings.catch_warnings(action="ignore"), rc_context(SETTINGS):
            figure = Figure(figsize=(width * len(parts), height + 0.8), layout="constrained")
            figure.suptitle(title, fontsize=12, fontweight="bold")
            panels = figure.subfigures(1, len(parts), squeeze=False, wspace=0.03)[0]
            for panel, (heading, runs) in zip(panels, parts.items(), strict=True):
                panel.suptitle(heading, fontsize=11, fontweight="bold")
                # A separate subfigure, so that a title set by `draw` does not replace the heading.
                plot.draw(panel.subfigures(), runs if hasattr(plot, "RUNS") else runs[0])
            share_axes(panels)
            figure.savefig(written, format="png")
    except Exception as error:  # the border: a stranger's numbers in matplotlib
        why = clean(f"{type(error).__name__}: {error}", 300)
        tell = "If `grade run` has nothing to say, tell the course's author."
        raise _NotDrawable(f" ({why}). {tell}") from error
    return written.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
