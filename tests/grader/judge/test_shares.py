"""The manifest says what each function is worth, independently of the number of its tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course, Exercise
from grader.course.suites import tests_of as declared
from grader.errors import CourseError
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.process import Judge, judge_source
from grader.judge.scoring import shares, weighed
from grader.results import Visibility

JudgeSource = Callable[..., Judgment]

SHARES = "shares = { Layer = 60, flow = 30, 'Layer.forward' = 110 }\n"
SUITE = """
@pytest.mark.place("Layer")
def test_layer(student):
    '''The layer'''
    student.module("Layer")

@pytest.mark.place("Layer.forward")
@pytest.mark.points(10)
def test_forward(student):
    '''Forward'''
    assert student.module("Layer")(torch.ones(1)).item() == 2

@pytest.mark.place("Layer.forward.inner")
def test_inner(student):
    '''Inner'''

@pytest.mark.place("flow")
def test_flow(student):
    '''Flow'''
    assert student.function("flow")() == 1

@pytest.mark.points(2)
@pytest.mark.place("flow")
def test_flow_again(student):
    '''Flow again'''
    assert student.function("flow")() == 1
"""
SOURCE = """
import torch
class Layer(torch.nn.Module):
    def forward(self, x):
        return x + {added}
def flow():
    return {flow}
"""


def exercise_of(write_course: Callable[..., Course], path: Path) -> tuple[Course, Exercise]:
    course = write_course(path, SUITE, extra=SHARES)
    return course, course.exercises[0]


def test_the_points_are_divided_by_shares_and_then_by_tests(
    write_course: Callable[..., Course], tmp_path: Path
) -> None:
    course, exercise = exercise_of(write_course, tmp_path)
    tests = declared(course, exercise, tuple(Visibility))
    assert [test.share for test in tests] == ["Layer", *["Layer.forward"] * 2, *["flow"] * 2]
    assert [test.points for test in weighed(exercise, tests)] == [60, 100, 10, 10, 20]


@pytest.mark.parametrize(
    ("added", "flow", "score"), [(1, 1, 10), (1, 0, 8.5), (0, 1, 5), (0, 0, 3.5)]
)
def test_a_submission_earns_the_shares_of_correct_functions(
    judged: JudgeSource, added: int, flow: int, score: float
) -> None:
    result = judged(SOURCE.format(added=added, flow=flow), SUITE, extra=SHARES).result
    assert result.score == score
    # Points of single tests, as exports write them, add up too.
    parts = shares(result)
    assert (sum(p.score for p in parts), sum(p.max_score for p in parts)) == (score * 100, 1000)


def test_a_single_suite_is_divided_among_the_shares_that_it_tests(
    judge: Judge, write_course: Callable[..., Course], tmp_path: Path
) -> None:
    course, exercise = exercise_of(write_course, tmp_path)
    hidden = course.root / "tests/hidden/one/test_task.py"
    public = course.root / "tests/public/one/test_task.py"
    public.parent.mkdir(parents=True)
    imports, layer, rest = hidden.read_text().partition('@pytest.mark.place("Layer")')
    layer_test, mark, flow = rest.partition('@pytest.mark.place("Layer.forward")')
    public.write_text(
        imports + layer + layer_test + flow[flow.index('@pytest.mark.place("flow")') :]
    )
    hidden.write_text(imports + mark + flow[: flow.index('@pytest.mark.place("flow")')])

    def scores(source: str) -> list[float]:
        both, alone = tuple(Visibility), ((Visibility.PUBLIC,), (Visibility.HIDDEN,))
        return [
            judge_source(
                judge, course, exercise, source.encode(), GradingOptions(suites=suites)
            ).result.score
            for suites in (both, *alone)
        ]

    assert scores(SOURCE.format(added=1, flow=1)) == [10, 10, 10]
    assert scores(SOURCE.format(added=1, flow=0)) == [8.5, 6.67, 10]
    assert scores(SOURCE.format(added=1, flow=1).replace("torch.nn.Module", "object")) == [
        2.0,
        3.33,
        0.91,
    ]


@pytest.mark.parametrize(
    "place", ["", '@pytest.mark.place("flows")\n', '@pytest.mark.place("Lay")\n']
)
def test_a_test_in_no_share_is_reported_with_its_line(
    write_course: Callable[..., Course], tmp_path: Path, place: str
) -> None:
    suite = f"{SUITE}\n{place}def test_lost(student):\n    '''Lost'''\n"
    course = write_course(tmp_path, suite, extra=SHARES)
    path = course.root / "tests/hidden/one/test_task.py"
    line = path.read_text().splitlines().index("def test_lost(student):") + 1
    with pytest.raises(CourseError) as raised:
        declared(course, course.exercises[0], tuple(Visibility))
    assert str(raised.value).startswith(f"{path}, line {line}: test_lost has ")
    assert "Give it a pytest.mark.place in one of: Layer, flow, Layer.forward." in str(raised.value)


@pytest.mark.parametrize("points", ["0", "-1", "1e999"])
def test_the_points_of_a_test_are_finite(
    write_course: Callable[..., Course], tmp_path: Path, points: str
) -> None:
    mark = f'@pytest.mark.points({points})\n@pytest.mark.place("flow")\n'
    suite = f"{SUITE}\n{mark}def test_lost(student):\n    '''Lost'''\n"
    course = write_course(tmp_path, suite, extra=SHARES)
    with pytest.raises(CourseError, match="points are a number above 0"):
        declared(course, course.exercises[0], tuple(Visibility))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('place("Layer', 'place("Layr', "in 'Layr', which is in no share .* mean 'Layer'"),
        ("flow = 30", "flaw = 30", "a share for 'flaw', which the stub does not define. .* 'flow'"),
    ],
)
def test_a_misspelt_share_or_place_gets_a_suggestion(
    write_course: Callable[..., Course], tmp_path: Path, old: str, new: str, message: str
) -> None:
    course = write_course(tmp_path, SUITE.replace(old, new, 1), extra=SHARES.replace(old, new))
    stub = course.folder / course.exercises[0].file
    stub.write_text("class Layer:\n    pass\ndef flow():\n    pass\n")
    with pytest.raises(CourseError, match=message):
        declared(course, course.exercises[0], tuple(Visibility))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{ flow = 0 }", "line 17: `shares` of the exercise 'task': expected a number > 0.0."),
        (
            "{ flow = nan }",
            "line 17: `flow` of [shares] in the exercise 'task': expected a number, got nan.",
        ),
        (
            "{ flow = inf }",
            "line 17: `flow` of [shares] in the exercise 'task': expected a number, got inf.",
        ),
        ("{ flow = 1e300 }", "`shares` of the exercise 'task': expected a number <= 1000000.0"),
        ("{ flow = 'much' }", "expected a number, got a text in quotes"),
        ("{ 'a flow' = 1 }", "name of a function or class, as forward or GatedLinearUnit.forward"),
    ],
)
def test_mistakes_in_shares_are_explained(
    write_course: Callable[..., Course], tmp_path: Path, value: str, words: str
) -> None:
    with pytest.raises(CourseError) as raised:
        write_course(tmp_path, SUITE, extra=f"shares = {value}\n")
    assert words in str(raised.value)


def test_shares_may_be_a_separate_table(
    write_course: Callable[..., Course], tmp_path: Path
) -> None:
    table = '\n[exercise.shares]\nLayer = 60\nflow = 30\n"Layer.forward" = 110\n'
    exercise = write_course(tmp_path, SUITE, extra=table).exercises[0]
    assert exercise == write_course(tmp_path, SUITE, extra=SHARES).exercises[0]
    assert math.isclose(sum(exercise.shares.values()), 200)
