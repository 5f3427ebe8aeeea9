"""A forbidden operator is detected when it runs, even if code disables or bypasses the guard."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.process import Judge, judge_source, judges
from grader.results import Outcome

RULES = """
[[exercise.forbidden]]
inside = ["Gate.forward"]
operators = ["aten::glu"]
reason = "write the gate yourself"
[[exercise.forbidden]]
inside = ["curve", "Curve.forward", "Curve.backward"]
operators = ["aten::gelu", "aten::gelu_backward"]
reason = "write the formula by hand"
"""
SUITE = """
def test_gate(student):
    '''The gate'''
    gate = student.module("Gate")
    x = torch.randn(3, 4, requires_grad=True)
    y = gate(x)
    a, b = x.detach().chunk(2, -1)
    assert_close(y, a * torch.sigmoid(b))
    y.sum().backward()

def test_curve(student):
    '''The curve'''
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    y = student.function("curve")(x)
    assert_close(y, torch.nn.functional.gelu(x.detach()))
    y.sum().backward()
    assert torch.autograd.gradcheck(student.function("curve"), x)
"""
# `gate`, `curve` and `backward` are the lines that differ. `around` is the way around the guard.
ANSWER = """
import torch
from torch.nn import functional as F
{before}

class Gate(torch.nn.Module):
    def forward(self, x):
        return around(lambda: {gate})

class Curve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return around(lambda: {curve})

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return {backward}

def curve(x):
    return Curve.apply(x)
"""
HONEST = {
    "gate": "x.chunk(2, -1)[0] * torch.sigmoid(x.chunk(2, -1)[1])",
    "curve": "0.5 * x * (1 + torch.erf(x / 2**0.5))",
    "backward": "g * (0.5 * (1 + torch.erf(x / 2**0.5)) + x * torch.exp(-x * x / 2) / 2.5066282746310002)",
}
BUILTIN = {**HONEST, "gate": "F.glu(x)", "curve": "F.gelu(x)"}

DIRECTLY = "def around(compute): return compute()"
OTHERWISE: dict[str, tuple[str, dict[str, str]]] = {
    "directly": (DIRECTLY, BUILTIN),
    "behind an except": (
        """
def around(compute):
    try:
        return compute()
    except RuntimeError:
        return compute()
""",
        BUILTIN,
    ),
    "with refuse replaced": (
        """
import ctypes, sys
frames = ctypes.pythonapi
frames.PyFrame_GetBack.restype = frames.PyFrame_GetGlobals.restype = ctypes.py_object
call = sys._getframe()
while call.f_code.co_name != "_load":
    call = frames.PyFrame_GetBack(ctypes.py_object(call))
watch = frames.PyFrame_GetGlobals(ctypes.py_object(call))["OperatorWatch"]
watch.refuse = lambda self, name: None
watch.is_forbidden = lambda self, name: False
def around(compute): return compute()
""",
        BUILTIN,
    ),
    "with the watches emptied by the collector": (
        """
import gc
def around(compute):
    for each in gc.get_objects():
        if type(each).__name__ == "OperatorWatch":
            each.operators = frozenset()
            each._operators = frozenset()
        if type(each).__name__ == "GuardedCall":
            each._references = {}
            each._watches = []
        if type(each) is dict and "_watches" in each:
            each["_watches"] = {}
    return compute()
""",
        BUILTIN,
    ),
    "while modes are disabled": (
        """
from torch.utils._python_dispatch import _disable_current_modes
def around(compute):
    with _disable_current_modes():
        return compute()
""",
        BUILTIN,
    ),
    "in a thread": (
        """
import threading
def around(compute):
    values = []
    thread = threading.Thread(target=lambda: values.append(compute()))
    thread.start()
    thread.join()
    return values[0]
""",
        BUILTIN,
    ),
    "in a thread that was there before": (
        """
import queue, _thread
asked, given = queue.Queue(), queue.Queue()
def work():
    while True:
        given.put(asked.get()())
_thread.start_new_thread(work, ())
def around(compute):
    asked.put(compute)
    return given.get()
""",
        BUILTIN,
    ),
    "with the profiler ended": (
        """
def around(compute):
    for end in (torch._C._autograd._disable_profiler_legacy, torch._C._autograd._disable_profiler):
        try:
            end()
        except RuntimeError:
            pass
    with torch.utils._python_dispatch._disable_current_modes():
        return compute()
""",
        BUILTIN,
    ),
    "without dispatch": (
        """
from torch.utils._mode_utils import no_dispatch
def around(compute):
    with no_dispatch():
        return compute()
""",
        BUILTIN,
    ),
    "in an operator of one's own": (
        """
box = []
@torch.library.custom_op("mine::gate", mutates_args=())
def mine(x: torch.Tensor) -> torch.Tensor:
    box.append(box[0]())
    return x.clone()
def around(compute):
    box[:] = [compute]
    mine(torch.ones(1))
    return box[1]
""",
        {**BUILTIN, "gate": "F.glu(x).detach() + 0 * x.sum()"},
    ),
    "in a thread of a library": (
        """
import queue
from logging.handlers import QueueListener
class Handler:
    level = 0
    def handle(self, compute):
        given.put(compute())
asked, given = queue.Queue(), queue.Queue()
QueueListener(asked, Handler()).start()
def around(compute):
    asked.put(compute)
    return given.get()
""",
        BUILTIN,
    ),
    "by a name in parts": (
        """
import string
inner, _ = string.Formatter().get_field("0._" + "C", (torch,), {})
def around(compute):
    with inner._DisableTorchDispatch():
        return compute()
""",
        BUILTIN,
    ),
    "by a module that is located": (
        f"import pydoc\nR = pydoc.locate('torch._' + 'refs.nn.functional')\n{DIRECTLY}",
        {**HONEST, "gate": "R.glu(x)", "curve": "R.gelu(x)"},
    ),
    "by torch's references": (
        f"import torch._refs.nn.functional as R\n{DIRECTLY}",
        {**HONEST, "gate": "R.glu(x)", "curve": "R.gelu(x)"},
    ),
    "by a table of decompositions": (
        f"from torch._decomp import decomposition_table as T\nA = torch.ops.aten\n{DIRECTLY}",
        {
            **HONEST,
            "gate": "T[A.glu.default](x, -1)",
            "curve": "0.5 * x * (1 + torch.erf(x / 2**0.5)) + 0 * T[A.gelu_backward.default](x, x)",
        },
    ),
    "by the table of torch.export": (
        f"T = torch.export.default_decompositions()\nA = torch.ops.aten\n{DIRECTLY}",
        {
            **HONEST,
            "gate": "T[A.glu.default](x, -1)",
            "curve": "0.5 * x * (1 + torch.erf(x / 2**0.5)) + 0 * T[A.gelu_backward.default](x, x)",
        },
    ),
}


Answer = Callable[..., Judgment]


@pytest.fixture(scope="module")
def slow_judge() -> Iterator[Judge]:
    """Return a judge that has preloaded a package that torch's references import, which takes seconds."""
    with judges(preload=("torch", "torch._dynamo")) as (judge,):
        yield judge


@pytest.fixture
def answered(judge: Judge, write_course: Callable[..., Course], tmp_path: Path) -> Answer:
    course = write_course(tmp_path, SUITE, extra=RULES, seconds=120)
    manifest = course.folder / "course.toml"
    preloading = manifest.read_text().replace('["torch"]', '["torch", "torch._dynamo"]')

    def answered(before: str, parts: dict[str, str], slow_judge: Judge | None = None) -> Judgment:
        source = ANSWER.format(before=before, **parts).encode()
        if slow_judge is not None:
            manifest.write_text(preloading)
        course = load_course(tmp_path)
        options = GradingOptions()
        return judge_source(slow_judge or judge, course, course.exercises[0], source, options)

    return answered


# `make test` tries only these ways.
SHORT = ("directly", "behind an except", "in a thread that was there before")


@pytest.mark.parametrize(
    "way",
    [way if way in SHORT else pytest.param(way, marks=pytest.mark.thorough) for way in OTHERWISE],
)
def test_a_forbidden_operator_is_detected(
    answered: Answer, request: pytest.FixtureRequest, way: str
) -> None:
    importing = request.getfixturevalue("slow_judge") if way.startswith("by ") else None
    result = answered(*OTHERWISE[way], importing).result
    for test, words in zip(result.tests, ("write the gate", "write the formula"), strict=True):
        assert test.outcome is Outcome.FAILED, test.message
        assert "not allowed here" in test.message.replace("\n", " ") and words in test.message
    assert result.score == 0
    # Ending the profiler prints a message.
    assert not result.output or way == "with the profiler ended"


def test_a_forbidden_operator_in_the_backward_pass_is_detected(answered: Answer) -> None:
    before, _ = OTHERWISE["while modes are disabled"]
    parts = {**HONEST, "backward": "around(lambda: torch.ops.aten.gelu_backward(g, x))"}
    gate, curve = answered(before, parts).result.tests
    assert (gate.outcome, curve.outcome) == (Outcome.PASSED, Outcome.FAILED)
    assert "aten::gelu_backward is not allowed here" in curve.message


@pytest.mark.parametrize("way", ["directly", "in a thread", "in a thread that was there before"])
def test_an_honest_answer_passes(answered: Answer, way: str) -> None:
    before, _ = OTHERWISE[way]
    result = answered(before, HONEST).result
    assert [test.message for test in result.tests] == ["", ""]
    assert result.output == ""


# --- calls of a probe -----------------------------------------------------------------------------

SCALED = """
[[exercise.forbidden]]
inside = ["Scaler.scale", "norm"]
names = [
    "torch.amp.GradScaler", "torch.amp.grad_scaler", "torch.nn.utils.clip_grad_norm_", "torch.autograd.grad"
]
operators = ["aten::logit"]
reason = "do it yourself"
"""
PROBED = """
@pytest.mark.place("Scaler.scale")
def test_scaler(student):
    '''The scaler'''
    assert_close(student.run("scaled", torch.ones(())), torch.tensor(8.0))

@pytest.mark.place("norm")
def test_norm(student):
    '''The norm'''
    value = torch.tensor([3.0, 4.0])
    told = student.run("told", value)
    assert_close(told["norm"], torch.tensor(5.0))
    assert_close(told["gradient"], 2 * value)

@pytest.mark.place("free")
def test_free(student):
    '''What the rule does not speak of'''
    value = torch.tensor([0.2, 0.7])
    assert_close(student.run("freely", value), torch.logit(value))
    assert_close(student.function("free")(value), torch.logit(value))
"""
PROBE = """
import torch
from torch import autograd
def scaled(module, x): return module.Scaler().scale(x)
def told(module, x):
    x.requires_grad_()
    (gradient,) = autograd.grad(x.square().sum(), x)
    x.grad = x.detach()
    return {"norm": module.norm([x], 1e9), "gradient": gradient}
def freely(module, x): return module.free(x)
"""
OWN = """
import functools
import torch
{before}
class Scaler:
    def scale(self, x):
        return {scale}
def norm(parameters, most):
    return {norm}
def free(x):
    return torch.logit(x)
{after}
"""
BY_HAND = {
    "before": "",
    "scale": "x * 8.0",
    "norm": "torch.stack([p.grad.square().sum() for p in parameters]).sum().sqrt()",
    "after": "",
}
CLIP = 'vars(torch.nn.utils)["clip_grad_" + "norm_"]'
GRAD_SCALER = 'vars(torch.amp)["Grad" + "Scaler"]'
CAUTIOUS = f"""
def other(x):
    try:
        return {GRAD_SCALER}("cpu", 8.0).scale(x)
    except RuntimeError:
        return x * 8.0
"""
# Each way to use PyTorch in the answer: the part whose test fails, and the changed lines.
PROBED_WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "by hand": ("", {}),
    "an object": ("scale", {"scale": f'{GRAD_SCALER}("cpu", 8.0).scale(x)'}),
    "an object that was there before": (
        "scale",
        {"before": f'S = {GRAD_SCALER}("cpu", 8.0)', "scale": "S.scale(x)"},
    ),
    "behind an except": ("scale", {"before": CAUTIOUS, "scale": "other(x)"}),
    "a subclass": (
        "scale",
        {
            "after": f"class Scaler({GRAD_SCALER}):\n    def __init__(self): super().__init__('cpu', 8.0)"
        },
    ),
    "the class itself": (
        "scale",
        {"after": f'Scaler = functools.partial({GRAD_SCALER}, "cpu", 8.0)'},
    ),
    "a function": ("norm", {"norm": f"{CLIP}(parameters, most)"}),
    "the function itself": ("norm", {"after": f"norm = {CLIP}"}),
    "the function in another": ("norm", {"after": f"norm = functools.partial({CLIP})"}),
    "an operator": ("scale", {"scale": "x * 8.0 + 0 * torch.special.logit(x / 2)"}),
}


@pytest.mark.parametrize("way", PROBED_WAYS)
def test_calls_by_a_probe_are_guarded_but_its_own_code_is_not(
    judge: Judge, write_course: Callable[..., Course], tmp_path: Path, way: str
) -> None:
    course = write_course(tmp_path, PROBED, PROBE, extra=SCALED)
    failing, parts = PROBED_WAYS[way]
    source = OWN.format(**{**BY_HAND, **parts}).encode()
    result = judge_source(judge, course, course.exercises[0], source, GradingOptions()).result
    for test, part in zip(result.tests, ("scale", "norm", "free"), strict=True):
        refused = "not allowed here" in test.message and "do it yourself" in test.message
        assert (test.outcome is Outcome.PASSED, refused) == (part != failing, part == failing)


CALLED_BEFORE = """
import torch
from grader.sandbox.inside.absent import forbid_name

class Refused(Exception):
    pass

def ask(x):
    return x.stride()

def check(*arguments):
    raise Refused

x = torch.zeros(2)
for _ in range(100):
    ask(x)
forbid_name("torch.Tensor.stride", check)
try:
    ask(x)
except Refused:
    print("refused")
"""


@pytest.mark.thorough
def test_a_method_in_c_that_was_called_before_is_refused() -> None:
    """Python caches where it found a method, even across a fork."""
    done = subprocess.run(
        [sys.executable, "-c", CALLED_BEFORE], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
