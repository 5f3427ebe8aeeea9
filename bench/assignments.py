"""The same small assignment, `glu` with one test, for four other graders, and the way each grades a class."""

from __future__ import annotations

import abc
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import indent
from typing import ClassVar, NamedTuple

__all__ = ["PEERS", "Cost", "Peer", "cost"]

# The test of every peer.
CHECK = """\
torch.manual_seed(0)
layer, x = GatedLinearUnit(6, 4), torch.randn(5, 6)
torch.nn.init.normal_(layer.bias)
value, gate = (x @ layer.weight.T + layer.bias).chunk(2, dim=-1)
assert torch.allclose(layer(x), value * torch.sigmoid(gate), atol=1e-6)
"""

PYTEST = f"""\
import torch
from glu import GatedLinearUnit

def test_forward():
{indent(CHECK, " " * 4)}"""

GRADESCOPE = f"""\
import unittest
import torch
from glu import GatedLinearUnit
from gradescope_utils.autograder_utils.decorators import weight

class TestGlu(unittest.TestCase):
    @weight(1)
    def test_forward(self):
{indent(CHECK, " " * 8)}"""

# As in Gradescope's own example, except for the place of the results.
GRADESCOPE_RUN = """\
import unittest
from gradescope_utils.autograder_utils.json_test_runner import JSONTestRunner

suite = unittest.defaultTestLoader.discover("tests")
with open("results.json", "w") as stream:
    JSONTestRunner(visibility="visible", stream=stream).run(suite)
"""

OTTER = f"""\
import torch
from otter.test_files import test_case

OK_FORMAT = False
name, points = "glu", 1

@test_case()
def test_forward(GatedLinearUnit):
{indent(CHECK, " " * 4)}"""

# One process for the class: `otter run` would import otter again for each submission.
OTTER_RUN = """\
import json, sys
from otter.api import grade_submission

for folder in sys.argv[1:]:
    results = grade_submission(f"{folder}/glu.py", "autograder.zip")
    with open(f"{folder}/results.json", "w") as stream:
        json.dump({"score": results.total, "tests": results.summary()}, stream)
"""


class Cost(NamedTuple):
    """Seconds on the clock, and of all processors together."""

    wall: float
    cpu: float


def cost(work: Callable[[], object], cpu: Callable[[], float]) -> Cost:
    """Return the cost of calling `work`; `cpu` reads the processor seconds so far."""
    begin, used = time.perf_counter(), cpu()
    work()
    return Cost(time.perf_counter() - begin, cpu() - used)


def of_ended() -> float:
    """Return the CPU seconds of ended children that were waited for, and of their children."""
    times = os.times()
    return times.children_user + times.children_system


class Peer(abc.ABC):
    """Another grader in a folder of its own, with an assignment of one point and some students."""

    title: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, python: str, answer: str) -> None:
        self.folder, self.python, self.answer = folder, python, answer
        self.students: Sequence[str] = ()
        self.said = ""

    def prepare(self) -> None:
        """Write the files of the assignment."""
        self.folder.mkdir()

    def hand_in(self, student: str) -> None:
        """Write a student's answer."""
        self.write(f"{student}/glu.py", f"{self.answer}# {student}\n")

    @abc.abstractmethod
    def grade(self) -> None:
        """Grade the students; this is timed."""

    def scores(self) -> dict[str, float]:
        """Return each student's points, read from the grader's own output."""
        wrote = {each: (self.folder / each / "results.json").read_text() for each in self.students}
        self.said += "".join(wrote.values())
        return {student: json.loads(results)["score"] for student, results in wrote.items()}

    def took(self, students: int) -> tuple[Cost, float]:
        """Return the cost of a submission, and the seconds that a class takes on top of its submissions."""
        self.prepare()
        names = [f"student{number:03}" for number in range(students + 2)]
        self.graded(names[:1])
        one, whole = self.graded(names[1:2]), self.graded(names[2:])
        more = students - 1
        each = Cost((whole.wall - one.wall) / more, (whole.cpu - one.cpu) / more)
        return each, one.wall - each.wall

    def graded(self, students: Sequence[str]) -> Cost:
        """Return the cost of grading these students; each has to earn the point."""
        self.students, self.said = students, ""
        for student in students:
            self.hand_in(student)
        took, scores = cost(self.grade, of_ended), self.scores()
        if scores != dict.fromkeys(students, 1.0):
            wrong = f"{self.title} did not give a point to each: {scores}"
            raise SystemExit(f"{wrong}; it printed:\n{self.said[-3000:]}")
        return took

    def write(self, name: str, text: str) -> None:
        """Write a file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *arguments: str, within: str = ".") -> str:
        """Run the peer's Python as if activated, without the user's Jupyter; return its output."""
        own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        # nbgrader starts alembic by its name.
        path = f"{Path(self.python).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            [self.python, *arguments],
            cwd=self.folder / within,
            env={**os.environ, **dict.fromkeys(own, str(self.folder / "jupyter")), "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.said += ended.stdout
        if ended.returncode != 0:
            command = " ".join(arguments)
            raise SystemExit(f"{self.title}: {command} failed; it printed:\n{self.said[-3000:]}")
        return ended.stdout


class Pytest(Peer):
    """A process of our own interpreter for each submission."""

    title, needs = "pytest anew", ()

    def prepare(self) -> None:
        super().prepare()
        self.python = sys.executable
        self.printed: dict[str, str] = {}

    def hand_in(self, student: str) -> None:
        super().hand_in(student)
        self.write(f"{student}/test_glu.py", PYTEST)

    def grade(self) -> None:
        for student in self.students:
            self.printed[student] = self.run("-m", "pytest", "test_glu.py", within=student)

    def scores(self) -> dict[str, float]:
        return {each: float(" 1 passed in " in self.printed[each]) for each in self.students}


class GradescopeUtils(Peer):
    """A process for each submission, as `run_autograder` starts it."""

    title, needs = "gradescope-utils", ("gradescope-utils", "torch")

    def hand_in(self, student: str) -> None:
        super().hand_in(student)
        self.write(f"{student}/tests/test_glu.py", GRADESCOPE)
        self.write(f"{student}/run_tests.py", GRADESCOPE_RUN)

    def grade(self) -> None:
        for student in self.students:
            self.run("run_tests.py", within=student)


class OtterGrader(Peer):
    """One process for the class, with a kernel for each submission."""

    title, needs = "otter-grader", ("otter-grader", "ipykernel", "torch")

    def prepare(self) -> None:
        super().prepare()
        self.write("tests/glu.py", OTTER)
        self.write("run.py", OTTER_RUN)
        self.run("-m", "otter", "generate", "--no-requirements", "--no-environment")

    def grade(self) -> None:
        self.run("run.py", *self.students)


class Nbgrader(Peer):
    """One process for the class, with a kernel for each notebook, and a gradebook."""

    title, needs = "nbgrader", ("nbgrader", "ipykernel", "torch")

    def prepare(self) -> None:
        super().prepare()
        solution = f"### BEGIN SOLUTION\n{self.answer}### END SOLUTION"
        cells = [
            cell("answer", solution, grade=False, solution=True, locked=False),
            cell("test", CHECK, grade=True, solution=False, locked=True, points=1),
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}}
        self.write("source/glu/glu.ipynb", json.dumps({**notebook, "cells": cells}))
        self.run("-m", "nbgrader", "generate_assignment", "glu")

    def hand_in(self, student: str) -> None:
        notebook = json.loads((self.folder / "release/glu/glu.ipynb").read_bytes())
        (answer,) = (each for each in notebook["cells"] if each["id"] == "answer")
        answer["source"] = f"{self.answer}# {student}\n"
        self.write(f"submitted/{student}/glu/glu.ipynb", json.dumps(notebook))

    def grade(self) -> None:
        # Submissions graded before are skipped.
        self.run("-m", "nbgrader", "autograde", "glu")

    def scores(self) -> dict[str, float]:
        self.run("-m", "nbgrader", "export", "--to", "grades.csv")
        with (self.folder / "grades.csv").open(newline="") as stream:
            found = {row["student_id"]: float(row["score"] or 0) for row in csv.DictReader(stream)}
        return {student: found.get(student, 0.0) for student in self.students}


def cell(grade_id: str, source: str, **marks: object) -> dict[str, object]:
    """Return a code cell of a notebook that nbgrader reads."""
    marks = {"schema_version": 3, "grade_id": grade_id, "task": False, **marks}
    code = {"cell_type": "code", "execution_count": None, "outputs": list[object]()}
    return {**code, "id": grade_id, "metadata": {"nbgrader": marks}, "source": source}


PEERS: tuple[type[Peer], ...] = (Pytest, GradescopeUtils, OtterGrader, Nbgrader)
