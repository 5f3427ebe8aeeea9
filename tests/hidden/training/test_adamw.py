"""Tests of AdamW."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
from grader.judge.student import Student

Grads = list[list[Tensor | None]]  # one row for each step
Options = dict[str, Any]
Changes = dict[int, Options]  # of groups, by their indices

# Acts as 0. Only test_errors uses 0 itself, so that a constructor that refuses zeros fails only that test.
NOTHING = 1e-30
# The eps is so small that its place does not show. Another test judges its place.
PLAIN: Options = {
    "lr": 0.1,
    "betas": (0.7, 0.9),
    "eps": 1e-12,
    "weight_decay": 0.6,
    "decoupled_weight_decay": True,
}
NO_DECAY: Options = {**PLAIN, "weight_decay": NOTHING}
# Without memory m_hat is the gradient. Another test judges the moments and their correction.
NO_MEMORY: Options = {**PLAIN, "betas": (NOTHING, NOTHING)}
L2: Options = {**NO_MEMORY, "eps": 1.0, "decoupled_weight_decay": False}
# With this rate gradients move almost nothing, and only the decay is left.
ONLY_DECAY: Options = {**PLAIN, "lr": 1e-6, "weight_decay": 2e5}
# With these betas the correction is 1 after MANY steps.
SHORT_MEMORY: Options = {**NO_DECAY, "betas": (0.5, 0.5)}
MANY = 30
# Numbers for which the rounding of float32 shows.
LARGE: Options = {**NO_MEMORY, "eps": 1.0, "lr": 1e3, "weight_decay": 6e-4}

SHAPES = ((3, 2), (4,))
STEPS = 6
TOLERANCE: Any = {"rtol": 1e-4, "atol": 1e-5}
HISTORY = "the matrix of the values, a row for each step,"
PYTORCHS_OWN = ("torch.optim.adam.", "torch.optim.adamw.")
FUSED = ("aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_adam", "aten::_fused_adamw")


@promise(
    "AdamW",
    points=2,
    hint="class AdamW(torch.optim.Optimizer), with a step of your own.",
    word="the sandbox says what ran",
)
def test_own_work(student: Student) -> None:
    """AdamW is a torch.optim.Optimizer, and uses no code of PyTorch's own Adam and AdamW."""
    bases = [str(base) for base in entry(student.run("bases"), kind=list)]
    told = "AdamW is not a subclass of torch.optim.Optimizer."
    assert "torch.optim.optimizer.Optimizer" in bases, told
    why = "write the step yourself"
    for base in bases:
        assert not base.startswith(PYTORCHS_OWN), f"{base} is not allowed here: {why}."
    student.run("add_training_function")
    ban: Any = {"functions": PYTORCHS_OWN, "operators": FUSED, "why": why}
    x = torch.ones(2)
    laws.check_not_used(student, "steps_of_AdamW", [x], [[x], [x]], {}, **ban)


@promise(
    "AdamW.__init__",
    points=4,
    hint="0 <= beta < 1 for both of them; the others only must not be below 0.",
)
def test_errors(student: Student) -> None:
    """lr, eps or weight_decay below 0, or a beta outside of [0, 1), is a ValueError that names it."""
    x = [torch.ones(2)]
    pairs = ((1.0, 0.9), (0.9, 1.0), (-0.1, 0.9), (0.9, -0.1))
    bad: dict[str, Any] = {
        "lr or learning rate": [{"params": x, "lr": -1e-9}],
        "eps or epsilon": [{"params": x, "eps": -1e-9}],
        "weight_decay or weight decay": [{"params": x, "weight_decay": -1e-9}],
        "betas or beta": [{"params": x, "betas": betas} for betas in pairs],
    }
    zeros = {"params": x, "lr": 0.0, "betas": (0.0, 0.0), "eps": 0.0, "weight_decay": 0.0}
    laws.check_errors(student, "AdamW", bad, fine=zeros)


@promise(
    "AdamW.__init__",
    points=3,
    hint="The signature of __init__ in the stub has the defaults.",
    after="test_own_work",
)
def test_defaults(code: Student, draw: Draw) -> Cases:
    """Options have the defaults of the stub."""
    # Gradients of the size of the default eps make it visible. float64 makes the small decay visible.
    grads = [[draw.normal(2, dtype=torch.float64, scale=1e-8)] for _ in range(STEPS)]
    history = code.run("trained", [torch.ones(2, dtype=torch.float64)], grads, {})
    yield "the matrix of the values of AdamW(params)", within(history, rtol=1e-7, atol=1e-7)


# --- the update ----------------------------------------------------------------------------------


@promise(
    "AdamW.step",
    points=9,
    hint="p.mul_(1 - lr * weight_decay), then the moments of only the gradient.",
    after="test_own_work",
)
def test_decoupled(code: Student, draw: Draw) -> Cases:
    """Decoupled, the parameter itself shrinks by 1 - lr * weight_decay at each step."""
    yield HISTORY, trained(code, draw, ONLY_DECAY)


@promise(
    "AdamW.step",
    points=3,
    hint="First p.mul_(1 - lr * weight_decay), then the update.",
    after="test_decoupled",
)
def test_order(code: Student, draw: Draw) -> Cases:
    """The parameter decays before its update, and the decay does not change the update."""
    yield HISTORY, trained(code, draw, NO_MEMORY)


@promise(
    "AdamW.step",
    points=6,
    hint="gradient = p.grad + weight_decay * p, before the moments, if not decoupled.",
    after="test_own_work",
)
def test_l2(code: Student, draw: Draw) -> Cases:
    """With decoupled_weight_decay=False the gradient is g + weight_decay * parameter: Adam with L2."""
    yield HISTORY, trained(code, draw, L2)


@promise(
    "AdamW.step",
    points=9,
    hint="m and v, then m_hat and v_hat with the count t, then the update by m_hat / sqrt(v_hat).",
    after="test_own_work",
)
def test_update(code: Student, draw: Draw) -> Cases:
    """Without decay the parameter follows the corrected moments of its gradients, as in Adam."""
    yield HISTORY, trained(code, draw, NO_DECAY)


@promise(
    "AdamW.step",
    points=3,
    hint="lr * m_hat / (v_hat.sqrt() + eps)",
    after="test_own_work",
)
def test_eps(code: Student, draw: Draw) -> Cases:
    """eps is added to the root of v_hat."""
    yield HISTORY, trained(code, draw, {**NO_MEMORY, "weight_decay": NOTHING, "eps": 0.2})


@promise(
    "AdamW.step",
    points=2,
    hint="torch.zeros_like(p) for the moments; Python numbers for t, lr and the betas.",
    after="test_own_work",
)
def test_float64(code: Student, draw: Draw) -> Cases:
    """float64 parameters are updated to the precision of float64."""
    values = [draw.normal(*shape, dtype=torch.float64) for shape in SHAPES]
    grads = [[draw.normal(*shape, dtype=torch.float64) for shape in SHAPES] for _ in range(STEPS)]
    yield HISTORY, code.run("trained", values, grads, LARGE)


@promise(
    "AdamW.step",
    points=2,
    hint="torch.zeros_like(p) for the moments, and list(params) only in Optimizer.__init__.",
    after="test_decoupled",
)
def test_shapes(code: Student, draw: Draw) -> Cases:
    """Parameters may come from a generator, and have any shape, also 0-d or empty."""
    shapes = ((), (3, 2), (0,), (2, 2, 2))
    values, grads = new_values(draw, shapes), new_grads(draw, STEPS, shapes)
    history = code.run("trained_from_a_generator", values, grads, ONLY_DECAY)
    yield HISTORY, within(history, **TOLERANCE)


# --- which parameters, with which options --------------------------------------------------------


@promise(
    "AdamW.step",
    points=4,
    hint="for group in self.param_groups: lr = group['lr'], and so on, at each step.",
    after="test_decoupled",
)
def test_groups(code: Student, draw: Draw) -> Cases:
    """Groups have their own options, which are stored in the groups and read from there at each step."""
    own: list[Options] = [
        {"lr": 0.2},
        {"lr": 0.3},
        {"eps": 0.5},
        {"weight_decay": NOTHING},
        {"decoupled_weight_decay": False},
    ]
    changes: list[Changes] = [
        {},
        {0: {"lr": 0.02, "eps": 0.7, "weight_decay": 2.0}},
        {0: {"decoupled_weight_decay": False}, 1: {"lr": 0.5}},
    ]
    report = trained_in_groups(code, draw, {**NO_MEMORY, "eps": 1.0}, own, changes)
    yield "the training with groups", report


@promise(
    "AdamW.step",
    points=2,
    hint="beta1, beta2 = group['betas'], at each step.",
    after="test_groups",
)
def test_betas_of_groups(code: Student, draw: Draw) -> Cases:
    """The betas are the group's, too."""
    own: list[Options] = [{}, {"betas": (0.2, 0.5)}]
    changes: list[Changes] = [{}, {}, {0: {"betas": (0.5, 0.6)}}, {}]
    yield "the training with groups", trained_in_groups(code, draw, NO_DECAY, own, changes)


@promise(
    "AdamW.step",
    points=5,
    hint="if p.grad is None: continue. A gradient of zeros is not None.",
    after="test_decoupled",
)
def test_missing_gradients(code: Student, draw: Draw) -> Cases:
    """A parameter without a gradient is left alone; one with a gradient of zeros is not."""
    zeros = torch.zeros(SHAPES[1])
    yield HISTORY, trained(code, draw, NO_MEMORY, {(1, 0): None, (2, 0): None, (2, 1): zeros})


@promise(
    "AdamW.step",
    points=2,
    hint="A count for each parameter, in self.state[p].",
    after="test_missing_gradients",
)
def test_own_count(code: Student, draw: Draw) -> Cases:
    """Each parameter counts its own updates, which are the steps in which it has a gradient."""
    yield HISTORY, trained(code, draw, NO_DECAY, {(0, 0): None, (2, 1): None, (3, 1): None})


@promise(
    "AdamW.step",
    points=4,
    hint="with torch.enable_grad(): loss = closure(), as the first lines; return loss.",
    after="test_decoupled",
    word="the sandbox says what ran",
)
def test_closure(code: Student, draw: Draw) -> Cases:
    """A closure is called once, before the update, with autograd enabled; step returns its result."""
    options = {**NO_MEMORY, "weight_decay": NOTHING}
    tensors = draw.normal(2, 3), draw.normal(2, 3), draw.normal()
    yield "the report on a closure", within(code.run("closed", options, *tensors), **TOLERANCE)


@promise(
    "AdamW.step",
    points=4,
    hint="gradient = p.grad + weight_decay * p is a new tensor; p.grad.add_ is not.",
    after="test_decoupled",
)
def test_leaves_the_rest(code: Student, draw: Draw) -> Cases:
    """Each .grad and requires_grad are left as they are; parameters stay leaves; nothing is drawn."""
    arguments = new_values(draw), new_values(draw), L2
    only = ("random", "modes")
    report = laws.check_changes_nothing(
        code, code.probe("left"), *arguments, call="step", only=only
    )
    yield "the report on the state after a step", report


@promise(
    "AdamW.step",
    points=7,
    hint="self.state[p] holds all: the count and both moments. Nothing else is saved.",
    after="test_decoupled",
)
def test_resumes(code: Student, draw: Draw) -> Cases:
    """A new AdamW that loads the saved state dict goes on like the old one, bit for bit."""
    before, after = new_grads(draw, MANY), new_grads(draw, 4)
    report = code.run("resumed", new_values(draw), before, after, SHORT_MEMORY)
    told = "torch.load(..., weights_only=True) refuses the saved state dict: keep plain data in it."
    assert entry(report, "refused") is None, told
    yield "the report on the last steps, gone on and loaded,", within(report, **TOLERANCE)
    told = "After loading its state the optimizer goes on a little differently, not bit for bit."
    assert laws.same(entry(report, "loaded"), entry(report, "went on")), told


# --- helpers of the tests ------------------------------------------------------------------------


def new_values(draw: Draw, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> list[Tensor]:
    return [draw.normal(*shape) for shape in shapes]


def new_grads(draw: Draw, steps: int, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> Grads:
    return [list(new_values(draw, shapes)) for _ in range(steps)]


def trained(
    code: Student,
    draw: Draw,
    options: Options,
    changes: dict[tuple[int, int], Tensor | None] | None = None,
) -> Any:
    """The values after each step. `changes` replaces gradients, by step and parameter."""
    values, grads = new_values(draw), new_grads(draw, STEPS)
    for (step, parameter), gradient in (changes or {}).items():
        grads[step][parameter] = gradient
    return within(code.run("trained", values, grads, options), **TOLERANCE)


def trained_in_groups(
    code: Student, draw: Draw, options: Options, own: list[Options], changes: list[Changes]
) -> Any:
    """The options in groups that have `own` options, and the values after each step, with changes before it."""
    shapes = ((3,),) * len(own)
    values, grads = new_values(draw, shapes), new_grads(draw, len(changes), shapes)
    report = code.run("trained_in_groups", values, grads, options, own, changes)
    return within(report, **TOLERANCE)
