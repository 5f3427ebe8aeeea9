"""`python -m bench.small_class`: the cost of one more small submission, in a class of 200.

The course has two exercises with eight small tests, as in a first week, so most of the cost is the sandbox's.
`grade batch` grades the whole class, from its start to its gradebook, and the first tenth of it; the difference
gives the cost of one more submission. The same run measures a new pytest for each of some submissions, as many
at a time, and the same tests in one warm process without walls.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.throughput import anew
from grader.course.manifest import Course, load_course

_ENTRY = """
[[exercise]]
id = "{id}"
chapter = "basics"
title = "{id}"
points = 4
seconds = 20
difficulty = 1
minutes = 10
teaches = "Write a formula."
preload = ["torch"]
hints = ["one", "two", "three"]
reading = []
"""
_MANIFEST = 'format_version = 1\nname = "small"\ntitle = "A small course"\nversion = "1.0"\n'
_HEAD = """\
import torch
from grader.judge.checks import assert_close

"""

_SOLUTIONS = {
    "softmax": """\
import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)
""",
    "scale": """\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight
""",
}
_SUITES = {
    "softmax": """\
def test_example(student):
    \"\"\"The softmax of zeros is even.\"\"\"
    assert_close(student.function("softmax")(torch.zeros(4)), torch.full((4,), 0.25))


def test_dimension(student):
    \"\"\"The result sums to 1 along the dimension that is asked for.\"\"\"
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    for dim in (0, 1, -1):
        assert_close(student.function("softmax")(x, dim), torch.softmax(x, dim))


def test_large(student):
    \"\"\"Large elements give finite numbers.\"\"\"
    x = torch.tensor([1e4, 0.0, -1e4])
    assert_close(student.function("softmax")(x), torch.tensor([1.0, 0.0, 0.0]))


def test_gradient(student):
    \"\"\"The gradient is right.\"\"\"
    x, v = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.randn(5).double()
    (student.function("softmax")(x) * v).sum().backward()
    y = torch.softmax(x.detach(), -1)
    assert_close(x.grad, y * (v - (v * y).sum()))
""",
    "scale": """\
def test_starts_as_identity(student):
    \"\"\"A new layer changes nothing.\"\"\"
    x = torch.randn(4, 3)
    assert_close(student.module("Scale", 3)(x), x)


def test_forward(student):
    \"\"\"Each feature has its own factor.\"\"\"
    layer, x = student.module("Scale", 3), torch.randn(4, 3)
    layer.weight.data.copy_(torch.tensor([1.0, -2.0, 3.0]))
    assert_close(layer(x), x * torch.tensor([1.0, -2.0, 3.0]))


def test_parameters(student):
    \"\"\"The factors are the only parameter.\"\"\"
    names = [name for name, _ in student.module("Scale", 7).named_parameters()]
    assert names == ["weight"], f"the parameters are {names}"


def test_gradient(student):
    \"\"\"The gradient reaches the factors.\"\"\"
    layer, x = student.module("Scale", 3), torch.randn(4, 3)
    layer(x).sum().backward()
    assert_close(layer.weight.grad, x.sum(0))
""",
}


def write_course(folder: Path) -> Course:
    """Write the small course."""
    texts = {"exercises/course.toml": _MANIFEST + "".join(_ENTRY.format(id=i) for i in _SOLUTIONS)}
    for name, solution in _SOLUTIONS.items():
        stub = f'def {name}():\n    raise NotImplementedError("{name}")\n'
        texts[f"exercises/basics/{name}.py"] = texts[f"tests/stubs/basics/{name}.py"] = stub
        texts[f"solutions/basics/{name}.py"] = solution
        texts[f"tests/hidden/basics/test_{name}.py"] = _HEAD + _SUITES[name]
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return load_course(folder)


def write_class(folder: Path, course: Course, students: int) -> list[Path]:
    """Write the submissions of this many students; no two files are the same."""
    submissions = [folder / f"student{number:03}" for number in range(students)]
    for submission in submissions:
        for exercise in course.exercises:
            path = submission / exercise.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                course.solution(exercise).read_bytes() + f"# {submission.name}\n".encode()
            )
    return submissions


def graded(course: Course, submissions: Path, jobs: int) -> float:
    """Return the seconds of `grade batch`, from its start to its end."""
    with tempfile.TemporaryDirectory() as results:
        command = [
            sys.executable,
            "-m",
            "grader.cli",
            "batch",
            str(submissions),
            "--output",
            results,
        ]
        begin = time.perf_counter()
        subprocess.run(
            [*command, "--course", str(course.root), "--jobs", str(jobs)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - begin


@click.command()
@click.option("--students", type=click.IntRange(20), default=200, help="Submissions in the class.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Judges, and pytests, at a time.")
@click.option("--rounds", type=click.IntRange(1), default=3, help="Times the class is graded.")
def main(students: int, jobs: int, rounds: int) -> None:
    """Measure and print."""
    from bench.floor import judge_here

    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        course = write_course(Path(folder, "course"))
        few = students // 10
        whole, part = Path(folder, "whole"), Path(folder, "part")
        submissions = write_class(whole, course, students)
        write_class(part, course, few)
        pairs = [(graded(course, part, jobs), graded(course, whole, jobs)) for _ in range(rounds)]
        small, large = (min(seconds) for seconds in zip(*pairs, strict=True))
        # The peer finds the course in its current folder, and its own code here.
        os.environ["PYTHONPATH"] = str(Path.cwd())
        os.chdir(course.root)
        fresh = anew([[str(submission)] for submission in submissions[: 4 * jobs]], jobs)
        begin = time.perf_counter()
        for number, submission in enumerate(submissions[: few + 1]):
            if number == 1:
                # The first run paid for the imports. Keep torch's objects out of garbage collection.
                gc.freeze()
                begin = time.perf_counter()
            for exercise in course.exercises:
                judge_here(course, exercise, submission / exercise.file)
        floor = (time.perf_counter() - begin) / few
    rows = (
        ("a submission of the class, all of grade batch", large / students, ""),
        ("one more submission", (large - small) / (students - few), "≤ 0.03"),
        ("pytest anew, a submission", fresh / (4 * jobs), ""),
        ("the same tests in one warm process", floor, ""),
    )
    table = Table(f"{students} students, {jobs} at a time", "seconds", "bound")
    for what, seconds, bound in rows:
        table.add_row(what, f"{seconds:.4f}", bound)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
