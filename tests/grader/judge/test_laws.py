"""Each law passes for a right answer to its documented example, and fails with a message for wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.checks import laws
from grader.judge.process import Judge, judge_source
from grader.results import Outcome, Visibility

from ..conftest import MANIFEST

DOCS = Path(__file__).resolve().parents[3] / "docs" / "authoring.md"
# Maps each law to its documented example.
EXAMPLES = {
    name: example
    for example in re.findall(
        r"^\| [^|]+ \| `(.*laws\.check_.*)` \|$", DOCS.read_text(), re.MULTILINE
    )
    for name in re.findall(r"laws\.(check_\w+)", example)[:1]
}

RIGHT = """
import copy
import math
import torch
from torch import nn

def scale(x):
    return 3 * x

class CubeFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x ** 2 * grad_output

def cube(x):
    return CubeFunction.apply(x)

def range_test(model, x):
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).sum().backward()
    optimizer.step()
    model.load_state_dict(kept)
    for module, mode in modes:
        module.training = mode

def predict(model, x):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        output = model(x)
    for module, mode in modes:
        module.training = mode
    return output

def warm_up(model, optimizer, x):
    kept = copy.deepcopy(optimizer.state_dict())
    optimizer.zero_grad()
    model(x).sum().backward()
    for group in optimizer.param_groups:
        group["lr"] *= 0
    optimizer.step()
    optimizer.load_state_dict(kept)

class Layer(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(m, n).uniform_(-1 / math.sqrt(n), 1 / math.sqrt(n)))

def rates(steps):
    if steps < 2:
        raise ValueError(f"steps is {steps}")
    return list(range(steps))

def shuffled(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))

class Loader:
    def __init__(self, values):
        self.values = values

    def __iter__(self):
        order = torch.randperm(len(self.values)).tolist()
        return iter([[self.values[i] for i in order[k:k + 4]] for k in range(0, len(order), 4)])

def loader(values):
    return Loader(values)

def plot(losses):
    from matplotlib.figure import Figure
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, label="loss")
    axes.set(yscale="log", xlabel="epoch", ylabel="loss")
    axes.legend()
    return figure

class ReLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)

def relu(x):
    return ReLUFunction.apply(x)
"""

PROBE = """
from torch import nn

def network(module):
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    made[1].eval()
    return made

def momentum(module, model):
    import torch
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""

# For each law: a text in RIGHT, its replacement, and words that the student then reads.
_SCALE = "    return 3 * x\n"
_RELU = "        return x.clamp(min=0)\n"
WRONG: dict[str, list[tuple[str, str, str]]] = {
    "check_changes_nothing": [
        (_SCALE, "    y = 3 * x\n    x += 1\n    return y\n", "changed the values of x"),
        (_SCALE, "    x.requires_grad_()\n    return 3 * x\n", "x.requires_grad"),
        (_SCALE, "    torch.rand(1)\n    return 3 * x\n", "torch's global random state"),
        (
            _SCALE,
            "    math.random = __import__('random').seed(0)\n    return 3 * x\n",
            "Python's global",
        ),
        (_SCALE, "    __import__('numpy').random.rand()\n    return 3 * x\n", "NumPy's global"),
        (_SCALE, "    torch.set_grad_enabled(False)\n    return 3 * x\n", "PyTorch's grad mode"),
        (_SCALE, "    x.grad = torch.ones_like(x)\n    return 3 * x\n", "x.grad"),
        (_SCALE, "    x.unsqueeze_(0)\n    return 3 * x[0]\n", "the shape of x"),
    ],
    "check_restores": [
        ("    model.load_state_dict(kept)\n", "", "changed the values of model.0.weight"),
        ("value.clone()", "value", "changed the values of model.0.weight"),
        (
            "        module.training = mode\n\ndef predict",
            "        pass\n\ndef predict",
            "in training mode",
        ),
        (
            "    model.load_state_dict(kept)\n",
            "    model.load_state_dict({n: v for n, v in kept.items() if 'g_m' not in n}, False)\n",
            "model.1.running_mean",
        ),
        (
            "    model.load_state_dict(kept)\n",
            "    model.load_state_dict(kept)\n    model[0].weight = nn.Parameter(kept['0.weight'])\n",
            "now another object",
        ),
        ("    model.train()\n", "    model.register_forward_hook(print)\n", "the hooks of model"),
    ],
    "check_shares_no_memory": [(_SCALE, "    return x.view(3)\n", "shares its memory")],
    "check_ordinary": [
        ("torch.no_grad()", "torch.inference_mode()", "inference tensor"),
        ("torch.no_grad()", "torch.enable_grad()", "has a graph"),
    ],
    "check_leading_dimensions": [
        (_SCALE, "    return 3 * x.flatten(0, -2)\n", "shape"),
        (_SCALE, "    return x / x.sum(dim=0)\n", "for x of shape"),
    ],
    "check_shapes": [
        (_SCALE, "    return 3 * x if x.numel() else 3 * x.reshape(0)\n", "(2, 0, 3)"),
        (_SCALE, "    return 3 * x.detach()\n", "does not require a gradient"),
    ],
    "check_dtypes": [
        (_SCALE, "    return (3 * x).float()\n", "always float32"),
        (_SCALE, "    return (3 * x).half()\n", "float16"),
    ],
    "check_again_differentiable": [
        ("3 * x ** 2 * grad_output", "3 * x.detach() ** 2 * grad_output", "does not depend on x"),
        ("3 * x ** 2 * grad_output", "3 * x ** 2 * grad_output.detach()", "respect to grad_output"),
        ("3 * x ** 2 * grad_output", "(3 * x ** 2 * grad_output).detach()", "differentiated again"),
        ("3 * x ** 2 * grad_output", "3 * x * x.detach() * grad_output", "the second derivative"),
    ],
    "check_layouts": [
        (_SCALE, "    return 3 * x.view(-1).view(x.shape)\n", "view size is not compatible"),
        (_SCALE, "    return 3 * x.as_strided(x.shape, (4, 1), 0)\n", "in memory"),
    ],
    "check_float64": [
        (_SCALE, "    return (3 * x.float()).double()\n", "only to the precision of float32"),
        (_SCALE, "    return (3 * x).float()\n", "float32"),
    ],
    "check_finite": [(_SCALE, "    return x.exp() / x.exp()\n", "nan: exp overflows")],
    "check_large_inputs": [(_SCALE, "    return 3 * x + 0 / (1 + x.exp())\n", "x.grad for large")],
    "check_attached": [(_SCALE, "    return 3 * x.detach()\n", "something cuts the graph")],
    "check_gradients": [
        (_SCALE, "    return 3 * x.detach() + 0 * x\n", "No gradient reaches x"),
        (_SCALE, "    return 2 * x.detach() + x\n", "x.grad"),
    ],
    "check_parameters": [
        ("torch.empty(m, n)", "torch.empty(n, m)", "weight is transposed"),
        ("nn.Parameter(torch.empty(m, n)", "(torch.empty(m, n)", "no parameter named weight"),
        ("self.weight =", "self.inner = nn.Module(); self.inner.weight =", "one of a submodule"),
    ],
    "check_state_dict": [
        (
            "        self.weight",
            "        self.register_buffer('n', torch.ones(1))\n        self.weight",
            "['n']",
        ),
    ],
    "check_filled": [(".uniform_(-1 / math.sqrt(n), 1 / math.sqrt(n))", "", "not finite")],
    "check_starts_random": [
        (".uniform_(-1 / math.sqrt(n), 1 / math.sqrt(n))", ".fill_(0.1)", "the same weight"),
        (".uniform_(-1 / math.sqrt(n), 1 / math.sqrt(n))", ".zero_()", "all zeros"),
        (
            "        self.weight",
            "        torch.manual_seed(1)\n        self.weight",
            "the same weight",
        ),
        (
            "        self.weight",
            "        torch.manual_seed(torch.seed() % 99)\n        self.weight",
            "the seed of the global random state",
        ),
    ],
    "check_starts_within": [
        ("uniform_(-1 / math.sqrt(n), 1 / math.sqrt(n))", "normal_()", "torch.randn")
    ],
    "check_errors": [
        ("steps < 2", "steps < 1", "rates(1) returned normally"),
        ('f"steps is {steps}"', '"too few"', "that names steps"),
        ("steps < 2", "True", "steps is 3"),
    ],
    "check_seeded": [
        (".manual_seed(seed)", ".manual_seed(7)", "ignores the seed"),
        (", generator=torch.Generator().manual_seed(seed)", "", "differs between two calls"),
    ],
    "check_not_used": [
        (_SCALE, "    return 3 * x + 0 * x.softmax(0)\n", "aten::_softmax"),
        (_SCALE, "    torch.optim.SGD([x], lr=1)\n    return 3 * x\n", "torch.optim."),
        (_SCALE, "    list(map(torch.Tensor.stride, [x]))\n    return 3 * x\n", "torch's stride"),
        (
            _SCALE,
            "    torch._C._infer_size(x.shape, x.shape)\n    return 3 * x\n",
            "torch._C._infer_size",
        ),
        (_SCALE, "    torch.empty(2, 99, device='meta')\n    return 3 * x\n", "size 99"),
    ],
    "check_epochs": [
        (
            "torch.randperm(len(self.values)).tolist()",
            "list(range(len(self.values)))",
            "dataset's order",
        ),
        (
            "torch.randperm(len(self.values))",
            "torch.arange(len(self.values)).flip(0)",
            "shuffle anew",
        ),
        ("range(0, len(order), 4)", "range(0, len(order) - 1, 4)", "last short batch"),
        ("order[k:k + 4]", "order[:4]", "more than once"),
    ],
    "check_axes": [
        ('yscale="log", ', "", "should be log"),
        ('xlabel="epoch", ', "", "The x axis has no label"),
        ("    axes.legend()\n", "", "no legend"),
        ('label="loss"', 'label="train"', "does not name 'loss'"),
        ("    return figure", "    return axes", "should return a matplotlib Figure"),
    ],
    "check_leaves_pyplot": [
        (
            "from matplotlib.figure import Figure",
            "from matplotlib.pyplot import figure as Figure",
            "left open",
        ),
        ("    return figure", "    figure.show()\n    return figure", "is shown"),
        (
            "    return figure",
            "    import matplotlib.pyplot as plt\n    plt.close('all')\n    return figure",
            "were closed",
        ),
        (
            "    figure = Figure()",
            "    import matplotlib.pyplot as plt\n    figure = plt.gcf()",
            "drawn on",
        ),
    ],
    "check_applied": [
        ("    return ReLUFunction.apply(x)", "    return x.clamp(min=0)", "not computed by")
    ],
    "check_grad_fn": [("ReLUFunction.apply(x)", "ReLUFunction.apply(x) * 1", "MulBackward0")],
    "check_declared": [
        (
            "torch.autograd.Function)",
            "torch.autograd.function._SingleLevelFunction)",
            "should be a subclass",
        ),
    ],
    "check_saved": [
        (
            "        ctx.save_for_backward(x)\n",
            "        ctx.save_for_backward(x.clone())\n",
            "a copy of x",
        ),
    ],
}


def judged_law(
    judge: Judge, course: Path, law: str, source: str, example: str = ""
) -> tuple[Outcome, str]:
    suite = (
        "import pytest\nimport torch\nfrom grader.judge.checks import laws\n"
        f"def test_law(student):\n    '''The law'''\n    {example or EXAMPLES[law]}\n"
    )
    for name, text in {
        # A busy machine takes more than two seconds to import matplotlib.
        "exercises/course.toml": MANIFEST.replace("seconds = 8", "seconds = 120"),
        "exercises/one/task.py": "raise NotImplementedError\n",
        "tests/hidden/one/test_task.py": suite,
        "tests/hidden/one/probe_task.py": PROBE,
    }.items():
        (course / name).parent.mkdir(parents=True, exist_ok=True)
        (course / name).write_text(text, encoding="utf-8")
    loaded, options = load_course(course), GradingOptions(0, (Visibility.HIDDEN,))
    judgment = judge_source(judge, loaded, loaded.exercises[0], source.encode(), options)
    (test,) = judgment.result.tests
    return test.outcome, test.message


def test_every_law_has_an_example_and_a_wrong_answer() -> None:
    named = {name for name in laws.__all__ if name.startswith("check_")}
    assert set(EXAMPLES) == named == set(WRONG)


@pytest.mark.parametrize("law", EXAMPLES)
def test_a_law_passes_for_a_right_answer(judge: Judge, tmp_path: Path, law: str) -> None:
    assert judged_law(judge, tmp_path, law, RIGHT) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("law", "old", "new", "words"),
    [(law, *change) for law, changes in WRONG.items() for change in changes],
)
def test_a_law_explains_a_wrong_answer(
    judge: Judge, tmp_path: Path, law: str, old: str, new: str, words: str
) -> None:
    assert RIGHT.count(old) >= 1
    outcome, message = judged_law(judge, tmp_path, law, RIGHT.replace(old, new))
    assert outcome in (Outcome.FAILED, Outcome.ERROR), message
    assert words in message


def test_an_operator_that_torch_lacks_is_not_reported_as_unwritten(
    judge: Judge, tmp_path: Path
) -> None:
    example = 'laws.check_changes_nothing(student, "scale", torch.ones(2))'
    lacking = RIGHT.replace("return 3 * x", "return torch.ones(1, device='meta').tolist()")
    outcome, message = judged_law(judge, tmp_path, "check_changes_nothing", lacking, example)
    assert outcome is Outcome.ERROR
    assert "raised NotImplementedError: Cannot copy out of meta tensor" in message
    unwritten = RIGHT.replace("return 3 * x", "raise NotImplementedError('scale: write it')")
    outcome, message = judged_law(judge, tmp_path, "check_changes_nothing", unwritten, example)
    assert (outcome, message) == (Outcome.NOT_IMPLEMENTED, "Still to do: scale: write it")


@pytest.mark.parametrize(
    ("error", "advice"), [("ValueError", "Check the arguments first"), ("KeyError", "no +=")]
)
def test_the_advice_about_a_change_before_an_error(
    judge: Judge, tmp_path: Path, error: str, advice: str
) -> None:
    example = f'laws.check_changes_nothing(student, "scale", torch.ones(2), raises={error})'
    late = RIGHT.replace(_SCALE, f"    x += 1\n    raise {error}('x')\n")
    outcome, message = judged_law(judge, tmp_path, "check_changes_nothing", late, example)
    assert outcome is Outcome.FAILED, message
    assert "changed the values of x" in message
    assert advice in message
    assert ("Check the arguments first" in message) is (error == "ValueError")


@pytest.mark.parametrize(
    ("folder", "before", "has_hint"),
    [
        ("public", "assert_close(1.0, 1.0)", False),
        ("public", "pass", True),
        ("hidden", "pass", True),
    ],
)
def test_a_broken_law_hides_the_hint_about_values(
    judge: Judge, tmp_path: Path, folder: str, before: str, has_hint: bool
) -> None:
    suite = (
        "import pytest\nimport torch\nfrom grader.judge.checks import assert_close, laws\n"
        f"@pytest.mark.hint('3 * x')\ndef test_law(student):\n    'The law'\n    {before}\n"
        '    laws.check_changes_nothing(student, "scale", torch.ones(2))\n'
    )
    for name, text in {
        "exercises/course.toml": MANIFEST,
        "exercises/one/task.py": "raise NotImplementedError\n",
        f"tests/{folder}/one/test_task.py": suite,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    course, options = load_course(tmp_path), GradingOptions(0, (Visibility(folder),))
    source = RIGHT.replace("return 3 * x", "return x.mul_(3)").encode()
    (test,) = judge_source(judge, course, course.exercises[0], source, options).result.tests
    assert "One call of scale changed" in test.message
    assert bool(test.hint) == has_hint


# `step` uses an optimizer with state and restores everything.
STEPPING = """
import copy
import dataclasses
import typing
import torch

@dataclasses.dataclass
class Result:
    losses: torch.Tensor

class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: torch.Tensor

def step(model, optimizer):
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    state = copy.deepcopy(optimizer.state_dict())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.load_state_dict(state)
    model.load_state_dict(kept)

def read(result):
    return float(result.losses[0])

def pair(tensors):
    return Pair(tensors[0] + 0, tensors[1].clone())
"""
STEP = (
    'net = student.made("network"); laws.check_restores(student, "step", net, '
    'laws.shipped(student, "optimizer").made("Adam", net, lr=0.1), '
    'only=("values", "options", "state"))'
)
READ = 'laws.check_changes_nothing(student, "read", student.own("Result", torch.ones(3)))'
PAIR = 'laws.check_shares_no_memory(student, "pair", [torch.ones(3), torch.ones(2)])'


@pytest.mark.parametrize("example", [STEP, READ, PAIR])
def test_laws_look_into_optimizers_objects_and_lists(
    judge: Judge, tmp_path: Path, example: str
) -> None:
    judged = judged_law(judge, tmp_path, "check_restores", STEPPING, example)
    assert judged == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("example", "old", "new", "words"),
    [
        (STEP, "    optimizer.load_state_dict(state)\n", "", "options of optimizer"),
        (
            STEP,
            "    optimizer.load_state_dict(state)\n",
            '    optimizer.param_groups[0]["lr"] = 0.1\n',
            "the state of optimizer",
        ),
        (READ, "    return float", "    result.losses.add_(1)\n    return float", "losses"),
        (
            READ,
            "    return float",
            "    result.losses = torch.zeros(3)\n    return float",
            "losses",
        ),
        (PAIR, "tensors[1].clone()", "tensors[1][1:]", "shares its memory with argument 0"),
    ],
)
def test_laws_name_the_part_that_changed(
    judge: Judge, tmp_path: Path, example: str, old: str, new: str, words: str
) -> None:
    assert STEPPING.count(old) == 1
    source = STEPPING.replace(old, new)
    outcome, message = judged_law(judge, tmp_path, "check_restores", source, example)
    assert outcome is Outcome.FAILED
    assert words in message


def test_a_call_that_is_not_refused_is_shown(judge: Judge, tmp_path: Path) -> None:
    call = "([(torch.ones(3, 2).double(), 1), torch.ones(0)],)"
    example = f'laws.check_errors(student, "pair", {{"tensors": [{call}]}})'
    source = "def pair(tensors): return 0\n"
    _, message = judged_law(judge, tmp_path, "check_errors", source, example)
    shown = "[(a float64 tensor of shape (3, 2), 1), a float32 tensor of shape (0,)]"
    assert f"pair({shown}) returned normally" in message


def test_a_call_of_a_probe_is_shown_as_the_students_own(judge: Judge, tmp_path: Path) -> None:
    refused = '{"model": [{"model": 3}]}'
    example = f'laws.check_errors(student, student.probe("momentum"), {refused}, call="train")'
    _, message = judged_law(judge, tmp_path, "check_errors", RIGHT, example)
    assert "train(model=3)" in message
    assert "momentum" not in message


def test_an_array_is_checked_like_a_tensor(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = "import numpy as np\n    laws.check_changes_nothing(student, 'scale', np.arange(3.0))"
    monkeypatch.setitem(EXAMPLES, "check_changes_nothing", example)
    assert judged_law(judge, tmp_path, "check_changes_nothing", RIGHT)[1] == ""
    changed = RIGHT.replace(_SCALE, "    x += 1\n    return x\n", 1)
    assert "changed x" in judged_law(judge, tmp_path, "check_changes_nothing", changed)[1]


GARBAGE = [
    "None",
    "{}",
    "{'arguments': [], 'keywords': {}, 'module': None, 'modes': {}}",
    "{'arguments': [3], 'keywords': {}, 'module': None, 'modes': {}}",
    "{'arguments': [{'kind': torch.ones(2)}], 'keywords': {}, 'module': None, 'modes': {}}",
    "{'arguments': [{'kind': 'tensor', 'shape': torch.ones(3)}], 'keywords': 1, 'modes': []}",
    "{'arguments': [{'kind': 'container', 'items': [1], 'keys': []}], 'keywords': {}, 'modes': {}}",
    "{'arguments': [{'kind': 'module', 'training': {'': torch.ones(2)}}], 'keywords': {}, 'modes': {}}",
    "{'arguments': [{'kind': 'object', 'value': 0}], 'keywords': {}, 'modes': {'x': torch.ones(2)}}",
]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("law", ["check_changes_nothing", "check_restores"])
def test_a_forged_report_fails_the_test(
    judge: Judge, tmp_path: Path, law: str, garbage: str
) -> None:
    forged = (
        f"{RIGHT}\nimport ctypes, sys, itertools\n"
        "api = ctypes.pythonapi\n"
        "api.PyFrame_GetBack.restype = api.PyFrame_GetGlobals.restype = ctypes.py_object\n"
        "call = sys._getframe()\n"
        "while call.f_code.co_name != '_load': call = api.PyFrame_GetBack(ctypes.py_object(call))\n"
        "inside = api.PyFrame_GetGlobals(ctypes.py_object(call))['observation']\n"
        f"inside.facts_of_call = lambda *_: {garbage}\n"
    )
    outcome, message = judged_law(judge, tmp_path, law, forged)
    assert outcome is Outcome.FAILED
    assert message


def test_check_dtypes_converts_every_floating_point_argument(
    judged: Callable[..., Judgment],
) -> None:
    source = """
import torch
def mixed(x, weight, index, scale):
    assert index.dtype == torch.int64
    return torch.lerp(x, x[index], weight) * scale
"""
    suite = '''
from grader.judge.checks import laws

@pytest.mark.place("mixed")
def test_dtype(student):
    """The dtype stays."""
    x, index = torch.randn(3), torch.tensor([2, 0, 1])
    laws.check_dtypes(student, "mixed", x, torch.rand(3), index, 2.0)
'''
    (test,) = judged(source, suite).result.tests
    assert test.outcome is Outcome.PASSED, test.message
