"""Plot a student's code: start the process that draws, and write the pictures."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, JudgeError
from grader.judge.process import Judge, JudgeOverrun, judges
from grader.student.plots.process import Drawn, NotDrawn, PlotFault, Request

# The module that a drawing judge process runs.
PROGRAM = "grader.student.plots.process"

_decode = msgspec.json.Decoder(Drawn | NotDrawn | PlotFault).decode


class Picture(msgspec.Struct, frozen=True):
    """A picture that was written, and its subject."""

    path: Path
    shows: str


def draw(
    course: Course, exercise: Exercise, source: bytes, *, reference: bytes | None = None
) -> Drawn | NotDrawn:
    """Run the experiment of an exercise on this source, and draw it.

    `source` is valid Python. The solution's source, given as `reference`, is drawn beside it. Raises
    GraderError for a fault of the grader or of the course, such as a missing experiment.
    """
    request = Request(str(course.folder / "course.toml"), exercise.id, source, reference)
    with judges(preload=exercise.preload, program=PROGRAM) as (judge,):
        return drawn_by(judge, request)


def drawn_by(judge: Judge, request: Request) -> Drawn | NotDrawn:
    """Return the drawing of a judge process that runs `PROGRAM`; raises GraderError for our faults."""
    try:
        line = next(judge.ask(request), b"")
    except JudgeOverrun as overrun:
        return NotDrawn(overrun.outcome, str(overrun))
    if not line:
        raise JudgeError(
            "The process that draws ended without an answer; its last output is above."
        )
    answer: Drawn | NotDrawn | PlotFault = _decode(line)
    if isinstance(answer, PlotFault):
        raise GraderError(answer.message)
    return answer


def keep(drawn: Drawn, path: Path, *, beside: bool) -> list[Picture]:
    """Write the picture to `path`, and the student's own figure beside it.

    An earlier picture is replaced, completely or not at all. Raises GraderError if it cannot be.
    """
    shows = "your code at work, with the reference beside it" if beside else "your code at work"
    pictures = [(Picture(path, shows), drawn.picture)]
    if drawn.own is not None:
        own = path.with_name(f"{path.stem}-own{path.suffix}")
        pictures.append((Picture(own, "the figure drawn by your own code"), drawn.own))
    for picture, data in pictures:
        # A unique name, so that two running `grade plot` do not write into each other's file.
        part = picture.path.with_name(f".{picture.path.name}.{os.getpid()}")
        try:
            part.write_bytes(data)
            part.replace(picture.path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise GraderError(
                f"The picture cannot be written to {picture.path}: {error.strerror}. "
                "Name another file with -o."
            ) from error
    return [picture for picture, _ in pictures]
