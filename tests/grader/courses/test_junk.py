"""Junk earns nothing: an answer without work scores 0 in every exercise of the course.

Suites can judge every answer, however odd, without a fault of their own.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from grader.authoring.junk import filled, is_unwritten
from grader.course.manifest import Exercise, load_course
from grader.judge.assignment import GradingOptions
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges
from grader.judge.run import PROVOKED
from grader.results import ExerciseResult, Outcome

COURSE = load_course(Path(__file__).parents[3])
# In `make test`, an exercise with functions, one with a module and one with a probe take turns for the others.
SHORT = ("glu", "strides", "hooks")


def for_every_exercise(names: str, cases: Iterable[tuple[object, ...]]) -> pytest.MarkDecorator:
    """Parametrize by exercise and case; `make test` judges each case in one exercise of SHORT."""
    return pytest.mark.parametrize(
        f"exercise, {names}",
        [
            pytest.param(
                exercise,
                *case,
                id="-".join(map(str, (exercise.id, *case))),
                marks=[] if exercise.id == SHORT[n % len(SHORT)] else pytest.mark.thorough,
            )
            for exercise in COURSE.exercises
            for n, case in enumerate(cases)
        ],
    )


# The body that replaces every part that a student writes. FIRST is its first argument. WORDS are the names
# that a message may have to mention.
JUNK = {
    "None": "return None",
    "zero": "return 0",
    "zero point zero": "return 0.0",
    "True": "return True",
    "False": "return False",
    "nothing": "return ''",
    "words": "return WORDS",
    "list": "return []",
    "dict": "return {}",
    "first argument": "return FIRST",
    "tensor": "import torch; return torch.zeros(())",
    "ValueError": "raise ValueError('no')",
    "telling ValueError": "raise ValueError(WORDS)",
    "RuntimeError": "raise RuntimeError('no')",
    "TypeError": "raise TypeError('no')",
    "mock": "import unittest.mock; return unittest.mock.MagicMock()",
}
# Values that break a suite that takes types and shapes for granted. A submission returns one after the
# other, in an order drawn from a seed.
ODD = {
    "not a number": "return float('nan')",
    "infinity": "return -float('inf')",
    "a huge number": "return 10**400",
    "a large number": "return 2**63",
    "a complex number": "return 1j",
    "half a surrogate pair": "return chr(0xD800)",
    "bytes": "return b'\\xff'",
    "nested lists": "return [[[], [None]], [1, [2.0, 'x']]]",
    "a ragged list": "return [[1.0], [1.0, 2.0], []]",
    "a tuple": "return (None, float('nan'))",
    "a dict of odd keys": "return {0: None, 'x': {1.5: ()}, True: []}",
    "an object": "return object()",
    "a class": "return type('Tensor', (), {'shape': (1,)})",
    "a generator": "return iter([FIRST])",
    "itself": "loop = []; loop.append(loop); return loop",
    "an empty tensor": "import torch; return torch.zeros(0, 3)",
    "a tensor of NaN": "import torch; return torch.full((2, 3), float('nan'), requires_grad=True)",
    "bools": "import torch; return torch.ones(2, 3, dtype=torch.bool)",
    "complex numbers": "import torch; return torch.ones(3, dtype=torch.complex64)",
    "bfloat16": "import torch; return torch.ones(3, dtype=torch.bfloat16)",
    "a meta tensor": "import torch; return torch.ones(2, 3, device='meta')",
    "a sparse tensor": "import torch; return torch.eye(3).to_sparse()",
    "a quantized tensor": "import torch; return torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.quint8)",
    "a subclass": "import torch; return torch.ones(3).as_subclass(type('T', (torch.Tensor,), {}))",
    "a parameter": "import torch; return torch.nn.Parameter(torch.ones(2, 3))",
    "an expanded tensor": "import torch; return torch.ones(1).expand(3, 4).T",
    "an array": "import numpy; return numpy.ones((2, 3), dtype='>i2')",
    "an array of objects": "import numpy; return numpy.array([None, 'x'], dtype=object)",
    # Comparing these with == gives a tensor or an array, which is neither true nor false.
    "tensors in a list": "import torch; return [torch.ones(2, 3), torch.zeros(3)]",
    "tensors in a dict": "import torch; return {'x': torch.ones(2), 1: torch.zeros(3), 2: torch.ones(2)}",
    "arrays in a list": "import numpy; return [numpy.ones(3), numpy.zeros((2, 2))]",
    "arrays in a dict": "import numpy; return {'x': numpy.ones(2), 1: numpy.zeros(3), 2: numpy.ones(2)}",
    "words in an array": "import numpy; return numpy.array(['x', 'y'])",
    "numbers in an array": "import numpy; return numpy.array([1.0, 2.0])",
    "a named tuple": "from collections import namedtuple; return namedtuple('Record', 'shape values')(None, 1)",
}
# Appended to a right answer. Changes some of its results on their way to the judge.
CHANGING = """

def _change(rate, seed):
    import random
    import numpy
    import torch
    from grader.sandbox.wire.packing import Packing

    draw, pack = random.Random(seed), Packing.pack

    def odd(value):
        if isinstance(value, torch.Tensor) and draw.random() < 0.7:
            return draw.choice((
                lambda x: x.double(), lambda x: x.to(torch.int64), lambda x: x.bool(),
                lambda x: x[None], lambda x: x.flatten(), lambda x: x[:0] if x.dim() else x[None],
                lambda x: x * float("nan"), lambda x: x.detach(), lambda x: x.to(torch.bfloat16),
                lambda x: x.tolist(), lambda x: x.detach().numpy(), lambda x: x.to("meta"),
            ))(value)
        if isinstance(value, (list, tuple)) and value and draw.random() < 0.7:
            return draw.choice((
                lambda x: x[:-1], lambda x: x[1:], lambda x: [*x, x[0]], lambda x: [*x, None],
                lambda x: list(x)[::-1], lambda x: tuple(x), lambda x: list(x), lambda x: x[0],
            ))(value)
        if isinstance(value, dict) and value and draw.random() < 0.7:
            return draw.choice((
                lambda x: dict(list(x.items())[1:]), lambda x: dict(list(x.items())[:-1]),
                lambda x: {**x, "more": 1}, lambda x: {str(k): v for k, v in x.items()},
                lambda x: list(x), lambda x: {n: v for n, v in enumerate(x.values())},
            ))(value)
        return draw.choice((
            None, True, 0, -1, 7, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "x" * 300, chr(0xD800),
            torch.ones(2, 3), [torch.ones(2), torch.zeros(2)], {"x": torch.ones(3)}, numpy.ones(3),
            [numpy.ones(2)] * 3, numpy.array(["x", "y"]), b"x", [], [None], [[]], {}, {0: None}, {"x": 1},
            (), object(), 1j, str(value)[:50], [value],
        ))

    def changed(self, value, depth=0):
        return pack(self, odd(value) if draw.random() < rate else value, depth)

    def every(self, values, depth):
        # Values sent as they are would bypass `pack`.
        return [item if type(item) is float else self.pack(item, depth + 1) for item in values]

    Packing.pack, Packing._pack_all = changed, every

_change({rate}, {seed})
"""
# Put before the junk. The probe's comparisons and looks at random states then report no change.
SAYING_YES = """\
import random
import sys
import torch

def _replaced(truth, lie):
    def told(*arguments, **keywords):
        asked_by = sys._getframe(1).f_code.co_filename
        return lie if asked_by == "<probe>" else truth(*arguments, **keywords)
    return told

for _name in ("equal", "allclose", "is_tensor"):
    vars(torch)[_name] = _replaced(getattr(torch, _name), True)
for _name in ("initial_seed", "get_rng_state"):
    vars(torch)[_name] = _replaced(getattr(torch, _name), torch.zeros(8))
random.getstate = _replaced(random.getstate, ())
"""
# Functions that return the odd values, and one that calls the next of them.
TURNS = """\
import itertools
{functions}
_TURNS = itertools.cycle([{names}])

def _odd(first):
    return next(_TURNS)(first)
"""
CASES = [
    *[("parts", kind) for kind in JUNK],
    # Like "parts", but classes are replaced by functions.
    *[("names", kind) for kind in ("None", "first argument", "telling ValueError", "mock")],
    *[("saying yes", kind) for kind in ("None", "zero", "True", "first argument")],
]


@pytest.fixture(scope="module")
def course_judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """One judge for all junk. In `make test` it is the judge of the session, which has the imports of SHORT."""
    if request.config.option.markexpr == "not thorough":
        yield request.getfixturevalue("judge")
        return
    with judges(preload=modules_of(COURSE, COURSE.exercises)) as (judge,):
        yield judge


@for_every_exercise("form, kind", CASES)
def test_junk_earns_nothing(course_judge: Judge, exercise: Exercise, form: str, kind: str) -> None:
    source = junk(exercise, form, JUNK[kind])
    result = judge_source(course_judge, COURSE, exercise, source.encode(), GradingOptions()).result
    # Tests that pass without a value earn nothing.
    earning = [test.name for test in result.tests if test.score]
    passed = [test for test in result.tests if test.outcome is Outcome.PASSED]
    assert (earning, result.score, sum(test.max_score for test in passed)) == ([], 0.0, 0.0)
    # Failed imports prove nothing, and functions reported as unwritten were not replaced.
    assert "cannot be imported" not in result.message
    assert Outcome.NOT_IMPLEMENTED not in [test.outcome for test in result.tests]


# Each order has all of the odd values.
@for_every_exercise("seed", [(0,), (1,), (2,)])
def test_suites_can_judge_odd_answers(course_judge: Judge, exercise: Exercise, seed: int) -> None:
    result = read(
        course_judge, exercise, junk(exercise, "parts", "return _odd(FIRST)", turns(seed))
    )
    assert result.score == 0.0


@for_every_exercise("seed", [(0,), (1,), (2,), (3,)])
def test_suites_can_judge_changed_answers(
    course_judge: Judge, exercise: Exercise, seed: int
) -> None:
    solution = COURSE.solution(exercise).read_text(encoding="utf-8")
    rate = (0.002, 0.01, 0.05, 0.2)[seed]
    change = CHANGING.replace("{rate}", str(rate)).replace("{seed}", str(seed))
    read(course_judge, exercise, solution + change)


def read(judge: Judge, exercise: Exercise, source: str) -> ExerciseResult:
    """Judge the source and return the result. No test may fail for a fault of the suite."""
    result = judge_source(judge, COURSE, exercise, source.encode(), GradingOptions()).result
    assert [test.name for test in result.tests if test.message == PROVOKED] == []
    return result


def turns(seed: int) -> str:
    """Return TURNS with the odd values in the order of this seed."""
    values = list(ODD.values())
    random.Random(seed).shuffle(values)
    functions = [f"def _odd_{n}(FIRST):\n    {value}" for n, value in enumerate(values)]
    names = ", ".join(f"_odd_{n}" for n in range(len(values)))
    return TURNS.format(functions="\n".join(functions), names=names)


def junk(exercise: Exercise, form: str, body: str, before: str = "") -> str:
    """Return the stub with junk in it, preceded by the source `before`.

    The form `parts` replaces the body of each part that a student writes and keeps classes. `names`
    defines a junk function under each name that a student writes, even those of classes. `saying yes`
    is `parts` after SAYING_YES.
    """
    if form == "saying yes":
        before = SAYING_YES
    tree = ast.parse(COURSE.stub(exercise).source.decode())
    if not is_unwritten(tree):  # a program to fix: all of its functions are the student's
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                node.body = ast.parse("raise NotImplementedError").body
    body = body.replace("WORDS", repr(_words(tree)))
    if form == "names":
        tree.body = [_function(node, body) if is_unwritten(node) else node for node in tree.body]
        return ast.unparse(tree)
    source = ast.unparse(filled(tree, body))
    # A __future__ import comes first.
    future = "from __future__ import annotations\n"
    return future + before + source.replace(future, "")


def _function(node: ast.stmt, body: str) -> ast.stmt:
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    first = body.replace("FIRST", "(*arguments, *keywords.values(), None)[0]")
    return ast.parse(f"def {node.name}(*arguments, **keywords):\n    {first}").body[0]


def _words(tree: ast.Module) -> str:
    """Return the names of all arguments and the values of constants, each once."""
    arguments = [each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)]
    assigned = [
        each for node in tree.body if isinstance(node, ast.Assign) for each in ast.walk(node)
    ]
    strings = [each.value for each in assigned if isinstance(each, ast.Constant)]
    return " ".join(dict.fromkeys([*arguments, *map(str, strings)]))
