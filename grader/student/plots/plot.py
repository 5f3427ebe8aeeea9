"""Draw what a student's code does: start the process that does it, and write the pictures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, JudgeError
from grader.files import write_whole
from grader.judge.process import Judge, JudgeOverrun, judges
from grader.student.plots.process import Drawn, NotDrawn, PlotFault, Request

# What a judge process runs that draws.
PROGRAM = "grader.student.plots.process"

_decode = msgspec.json.Decoder(Drawn | NotDrawn | PlotFault).decode


class Picture(msgspec.Struct, frozen=True):
    """A picture that was written, and what it shows."""

    path: Path
    shows: str


def draw(
    course: Course, exercise: Exercise, source: bytes, *, reference: bytes | None = None
) -> Drawn | NotDrawn:
    """Run the experiment of an exercise on this source, and draw it.

    `source` is valid Python; with `reference`, the source of the solution, that is drawn beside it.
    Raises GraderError for a fault of the grader or of the course, as an experiment that is missing.
    """
    request = Request(str(course.folder / "course.toml"), exercise.id, source, reference)
    with judges(preload=exercise.preload, program=PROGRAM) as (judge,):
        return drawn_by(judge, request)


def drawn_by(judge: Judge, request: Request) -> Drawn | NotDrawn:
    """What a judge process of the `PROGRAM` drew; raises GraderError for a fault of the grader."""
    try:
        line = next(judge.ask(request), b"")
    except JudgeOverrun as overrun:
        return NotDrawn(overrun.outcome, str(overrun))
    if not line:
        raise JudgeError(
            "The process that draws ended without an answer; what it printed last stands above."
        )
    answer: Drawn | NotDrawn | PlotFault = _decode(line)
    if isinstance(answer, PlotFault):
        raise GraderError(answer.message)
    return answer


def keep(drawn: Drawn, path: Path, *, beside: bool) -> list[Picture]:
    """Write the picture to `path`, and the student's own figure beside it.

    A picture of before is replaced, whole or not at all. Raises GraderError where that cannot be.
    """
    shows = "what your code does, and the reference beside it" if beside else "what your code does"
    pictures = [(Picture(path, shows), drawn.picture)]
    if drawn.own is not None:
        own = path.with_name(f"{path.stem}-own{path.suffix}")
        pictures.append((Picture(own, "the figure that your own code draws"), drawn.own))
    for picture, data in pictures:
        try:
            write_whole(picture.path, data)
        except OSError as error:
            raise GraderError(
                f"The picture cannot be written to {picture.path}: {error.strerror}. "
                "Name another file with -o."
            ) from error
    return [picture for picture, _ in pictures]
