"""Write the sample class to demo/class: eight made-up submissions, from the course's proofs.

A right answer is the course's solution, a wrong one an entry of `tests/wrong`, and an unbegun one the stub.
Only `examples/forger.py` was written for the class. The README.md beside this file explains each submission.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.course.manifest import Course, Exercise, load_course
from grader.course.mutants import wrong_answers

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("demo", "class")
# What the class was given to do.
EXERCISES = ("glu", "gelu", "grad_norms", "lr_finder", "collate", "data_parallel")

RIGHT = "right"
# By student: each exercise that was begun, with RIGHT, the id of a wrong answer, or a change made below.
SUBMISSIONS: dict[str, dict[str, str]] = {
    "perfect": dict.fromkeys(EXERCISES, RIGHT),
    "untouched": {},
    "halfway": {"glu": RIGHT, "gelu": RIGHT, "collate": RIGHT},
    "wrong-halves": {"glu": "gate_first", "gelu": "erf_gelu", "collate": "mask_inverted"},
    "forgetful": {
        "glu": RIGHT,
        "gelu": "grad_output_forgotten",
        "collate": "drop_last",
        "data_parallel": "average_sums",
    },
    "import-error": {"glu": "imports what is not there", "gelu": RIGHT},
    "endless-loop": {"lr_finder": "never ends"},
    "forger": {"glu": "forges its results"},
}


def source_of(course: Course, exercise: Exercise, answer: str) -> str:
    """The text of an answer as a student would hand it in, without the markers of a solution."""
    solution = course.solution(exercise).read_text(encoding="utf-8")
    match answer:
        case "right":
            source = solution
        case "imports what is not there":
            source = f"import torch_extras  # installed on my laptop only\n{solution}"
        case "never ends":
            step = "for rate, loss in zip(result.learning_rates.tolist(), result.losses.tolist(), strict=True):"
            begin = "rate, loss = result.learning_rates[0].item(), result.losses[0].item()"
            source = replaced(
                solution, step, f"{begin}\n    while True:  # until the loss diverges"
            )
        case "forges its results":
            source = (ROOT / "examples" / "forger.py").read_text(encoding="utf-8")
        case _:
            name = f"{course.name_of(course.mutants(exercise))}: {answer}"
            known = {wrong.name: wrong.source for wrong in wrong_answers(course, exercise).answers}
            source = known[name].decode()
    markers = ("# begin solution", "# end solution")
    lines = source.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(markers))


def replaced(text: str, old: str, new: str) -> str:
    """The text with a line changed that stands in it once."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times in the solution, and not once")
    return text.replace(old, new)


def write_class(folder: Path) -> None:
    """Write all submissions, in the place of an earlier class."""
    course = load_course(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    for student, begun in SUBMISSIONS.items():
        for exercise in course.select(EXERCISES):
            answer = begun.get(exercise.id)
            stub = course.stub(exercise).source.decode()
            file = folder / student / exercise.file
            file.parent.mkdir(parents=True, exist_ok=True)
            source = stub if answer is None else source_of(course, exercise, answer)
            file.write_text(source, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_class(ROOT / FOLDER)
    print(f"{len(SUBMISSIONS)} submissions in {FOLDER.as_posix()}")
