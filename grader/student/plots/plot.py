"""Draw what a student's code does: start the process that does it, and write the pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError, GraderError, JudgeError
from grader.sandbox.forking import CAN_FORK, ForkServerProcess
from grader.student.plots.process import Drawn, NotDrawn, PlotFault, Request

# Beside the time of the experiments themselves: imports, sandboxes, matplotlib; generous on a slow disk.
_OVERHEAD_SECONDS = 120.0


_decode = msgspec.json.Decoder(Drawn | NotDrawn | PlotFault).decode


class Picture(msgspec.Struct, frozen=True):
    """A picture that was written, and what it shows."""

    path: Path
    shows: str


def draw(
    course: Course,
    exercise: Exercise,
    source: bytes,
    *,
    reference: bytes | None = None,
    seed: int = 0,
) -> Drawn | NotDrawn:
    """Run the experiment of an exercise on this source, and draw it.

    `source` is valid Python; with `reference`, the source of the solution, that is drawn beside it.
    Raises CourseError where the exercise has no experiment, GraderError for any other fault of ours.
    """
    if not course.plot(exercise).is_file():
        raise CourseError(
            f"{exercise.id} has nothing to draw here: there is no {course.plot(exercise)}."
        )
    manifest = str(course.folder / "course.toml")
    request = Request(manifest, exercise.id, source, reference, seed)
    limit = _OVERHEAD_SECONDS + 2 * exercise.seconds
    server = ForkServerProcess(1, walls=True, preload=exercise.preload) if CAN_FORK else None
    try:
        return _asked(request, server, limit)
    finally:
        if server is not None:
            server.close()


def _asked(request: Request, server: ForkServerProcess | None, limit: float) -> Drawn | NotDrawn:
    controls = [control.fileno() for control in server.controls] if server is not None else []
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "grader.student.plots.process", *map(str, controls)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=controls,
        # Not the terminal's group: a Ctrl-C is for the command, which ends it.
        start_new_session=True,
        env={**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
    )
    for control in server.controls if server is not None else ():
        control.close()
    with process:
        try:
            output, _ = process.communicate(msgspec.json.encode(request) + b"\n", timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise JudgeError(f"No picture was drawn within {limit:g} s.") from error
        finally:
            process.kill()
    try:
        answer: Drawn | NotDrawn | PlotFault = _decode(output)
    except msgspec.DecodeError as error:
        raise JudgeError(
            f"The process that draws ended without an answer (exit code {process.returncode}); what "
            "it printed last stands above."
        ) from error
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
        # A name of its own: two `grade plot` at once must not write into each other's.
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
