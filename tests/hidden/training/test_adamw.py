"""Tests of AdamW."""

from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Grads = list[list[Tensor | None]]  # a row for each step
Options = dict[str, Any]
Changes = dict[int, Options]  # of groups, by their places

DEFAULTS: Options = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 1e-2,
    "decoupled_weight_decay": True,
}
# It acts as 0, which test_errors alone asks for: a constructor that refuses zeros costs that test.
NOTHING = 1e-300
# With such an eps it does not show where it stands: that has a test of its own.
PLAIN: Options = {**DEFAULTS, "lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-12, "weight_decay": 0.6}
NO_DECAY: Options = {**PLAIN, "weight_decay": NOTHING}
# Without memory m_hat is the gradient: moments and their correction have a test of their own.
NO_MEMORY: Options = {**PLAIN, "betas": (NOTHING, NOTHING)}
L2: Options = {**NO_MEMORY, "eps": 1.0, "decoupled_weight_decay": False}
# With such a rate gradients move hardly anything, and only the decay is left.
ONLY_DECAY: Options = {**PLAIN, "lr": 1e-6, "weight_decay": 2e5}
# With such betas the correction is 1 after MANY steps.
SHORT_MEMORY: Options = {**NO_DECAY, "betas": (0.5, 0.5)}
MANY = 30

SHAPES = ((3, 2), (4,))
STEPS = 6
# That of float32: test_float64 judges the precision of float64.
LOOSE: Any = {"rtol": 1e-4, "atol": 1e-5}
PYTORCHS_OWN = ("torch.optim.adam.", "torch.optim.adamw.")
FUSED = ("aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_adam", "aten::_fused_adamw")


@pytest.mark.points(2)
@pytest.mark.place("AdamW")
@pytest.mark.word("the sandbox says what ran")
@pytest.mark.hint("class AdamW(torch.optim.Optimizer), with a step of your own.")
def test_own_work(student: Student) -> None:
    """AdamW is a torch.optim.Optimizer, and nothing of PyTorch's own Adam and AdamW runs in it."""
    bases = [str(base) for base in entry(student.run("bases"), kind=list)]
    told = "AdamW is no class of torch.optim.Optimizer."
    assert "torch.optim.optimizer.Optimizer" in bases, told
    why = "write the step yourself"
    for base in bases:
        assert not base.startswith(PYTORCHS_OWN), f"{base} is not allowed here: {why}."
    student.run("add_training_function")
    ban: Any = {"functions": PYTORCHS_OWN, "operators": FUSED, "why": why}
    laws.check_not_used(student, "steps_of_AdamW", new_values(), new_grads(2), {}, **ban)


@pytest.mark.points(4)
@pytest.mark.place("AdamW.__init__")
@pytest.mark.hint("0 <= beta < 1 for both of them; the others only must not be below 0.")
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


@pytest.mark.points(3)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.__init__")
@pytest.mark.hint("The signature of __init__ in the stub has the defaults.")
def test_defaults(student: Student) -> None:
    """Options that are not given have their defaults."""
    # Gradients of the size of the default eps show it.
    grads: Grads = [[1e-8 * torch.randn(2).double()] for _ in range(STEPS)]
    values = [torch.ones(2).double()]
    history = student.run("trained", values, grads, {})
    right = right_history(values, grads, DEFAULTS)
    assert_close(history, right, what="the list of the values after each step of AdamW(params)")


# --- the update ----------------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("p.mul_(1 - lr * weight_decay), then the moments of the gradient alone.")
def test_decoupled(student: Student) -> None:
    """Decoupled, the parameter itself shrinks by 1 - lr * weight_decay at each step."""
    check_steps(student, ONLY_DECAY)


@pytest.mark.points(3)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("First p.mul_(1 - lr * weight_decay), then the update.")
def test_order(student: Student) -> None:
    """The parameter decays before its update, to which the decay adds nothing."""
    check_steps(student, NO_MEMORY)


@pytest.mark.points(6)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("gradient = p.grad + weight_decay * p, before the moments, if not decoupled.")
def test_l2(student: Student) -> None:
    """With decoupled_weight_decay=False the gradient is g + weight_decay * parameter: Adam with L2."""
    check_steps(student, L2)


@pytest.mark.points(9)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint(
    "m and v, then m_hat and v_hat with the count t, then the update by m_hat / sqrt(v_hat)."
)
def test_update(student: Student) -> None:
    """Without decay the parameter follows the corrected moments of its gradients, as in Adam."""
    check_steps(student, NO_DECAY)


@pytest.mark.points(3)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("lr * m_hat / (v_hat.sqrt() + eps)")
def test_eps(student: Student) -> None:
    """eps is added to the root of v_hat."""
    check_steps(student, {**NO_MEMORY, "weight_decay": NOTHING, "eps": 0.2})


@pytest.mark.points(2)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("torch.zeros_like(p) for the moments; Python numbers for t, lr and the betas.")
def test_float64(student: Student) -> None:
    """float64 parameters are updated to the precision of float64."""
    near = {**NO_MEMORY, "eps": 1.0}
    far = {**near, "weight_decay": NOTHING, "lr": 1e3}  # what float32 rounds off shows
    for options in (near, far):
        values, grads = new_values(), new_grads(STEPS)
        right = torch.stack(right_history(values, grads, options))
        history = entry(student.run("trained", values, grads, options), kind=list, count=STEPS)
        what = "the matrix of the values, a row for each step,"
        rows = [assert_tensor(row, shape=right[0].shape, what=what) for row in history]
        laws.check_float64(torch.stack(rows), right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint(
    "torch.zeros_like(p) for the moments, and list(params) only in Optimizer.__init__."
)
def test_shapes(student: Student) -> None:
    """Parameters may come from a generator, be of any shape, 0-d ones too, and float32."""
    shapes = ((), (3, 2), (1,), (2, 2, 2))
    values = [torch.randn(shape) for shape in shapes]
    grads: Grads = [[torch.randn(shape) for shape in shapes] for _ in range(3)]
    history = student.run("trained_from_a_generator", values, grads, ONLY_DECAY)
    right = right_history(values, grads, ONLY_DECAY)
    assert_close(history, right, what="the list of the values after each step", **LOOSE)


# --- which parameters, with which options --------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("for group in self.param_groups: lr = group['lr'], and so on, at each step.")
def test_groups(student: Student) -> None:
    """Groups have their own options, which stand in them and are read from them at each step."""
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
    check_groups(student, {**NO_MEMORY, "eps": 1.0}, own, changes)


@pytest.mark.points(2)
@pytest.mark.requires("test_groups")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("beta1, beta2 = group['betas'], at each step.")
def test_betas_of_groups(student: Student) -> None:
    """The betas are those of the group, too."""
    own: list[Options] = [{}, {"betas": (0.2, 0.5)}]
    changes: list[Changes] = [{}, {}, {0: {"betas": (0.5, 0.6)}}, {}]
    check_groups(student, NO_DECAY, own, changes)


@pytest.mark.points(5)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("if p.grad is None: continue. A gradient of zeros is not None.")
def test_missing_gradients(student: Student) -> None:
    """A parameter without a gradient is left alone; one with a gradient of zeros is not."""
    values, grads = new_values(), new_grads(4)
    grads[1][0] = None
    grads[2][0] = None
    grads[2][1] = torch.zeros(SHAPES[1]).double()
    check_steps(student, NO_MEMORY, values, grads)


@pytest.mark.points(2)
@pytest.mark.requires("test_missing_gradients")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("A count for each parameter, in self.state[p].")
def test_own_count(student: Student) -> None:
    """Each parameter counts its own updates, those with a gradient."""
    values, grads = new_values(), new_grads(5)
    grads[0][0] = None
    grads[2][1] = None
    grads[3][1] = None
    check_steps(student, NO_DECAY, values, grads)


@pytest.mark.points(4)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("with torch.enable_grad(): loss = closure(), as the first lines; return loss.")
def test_closure(student: Student) -> None:
    """A closure is called once, before the update, with autograd enabled; step returns its result."""
    values, grad = torch.randn(2, 3).double(), torch.randn(2, 3).double()
    result = torch.randn(())
    options = {**NO_MEMORY, "weight_decay": NOTHING}
    report = student.run("closed", options, values, old=-grad, grad=grad, result=result)
    calls = entry(report, "calls", kind=list)
    assert_equal(len(calls), 1, what="the number of calls of the closure in a step")
    what = "the list of the values when the closure is called"
    assert_close([entry(calls, 0, "values")], [values], what=what)
    told = "The closure runs without autograd: no torch.no_grad() around it."
    assert entry(calls, 0, "autograd") is True, told
    (right,) = right_history([values], [[grad]], options)
    what = "the values after step(closure)"
    assert_close(entry(report, "values"), right.view(2, 3), what=what, **LOOSE)
    assert_equal(entry(report, "returned"), result, what="the result of step(closure)")
    what = "the result of step() without a closure"
    assert_equal(entry(report, "returned without a closure"), None, what=what)
    told = "Autograd is off after a step: use torch.no_grad() as a with block."
    assert entry(report, "autograd") is True, told


@pytest.mark.points(4)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("gradient = p.grad + weight_decay * p is a new tensor; p.grad.add_ is not.")
def test_leaves_the_rest(student: Student) -> None:
    """Each .grad and requires_grad are left as they are; parameters stay leaves; nothing is drawn."""
    (grads,) = new_grads(1)
    only = ("random", "modes")
    report = laws.check_changes_nothing(
        student, student.probe("left"), new_values(), grads, L2, call="step", only=only
    )
    assert_equal(entry(report, "gradients"), grads, what="the list of gradients after a step")
    told = "Your code puts another tensor into .grad: leave .grad as it is."
    assert laws.same(entry(report, "same gradients"), [True, True]), told
    for fact, holds in entry(report, "parameters", kind=dict).items():
        assert holds is True, f"After a step not all parameters {fact}."


@pytest.mark.points(7)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("self.state[p] holds all: the count and both moments. Nothing else is saved.")
def test_resumes(student: Student) -> None:
    """A new AdamW that loads the saved state dict goes on as the old one, bit for bit."""
    values, before, after = new_values(), new_grads(MANY), new_grads(4)
    report = student.run("resumed", values, before, after, SHORT_MEMORY)
    told = "torch.load(..., weights_only=True) refuses the saved state dict: keep plain data in it."
    assert entry(report, "refused") is None, told
    history = right_history(values, before + after, SHORT_MEMORY)
    # From where the student's own values are after the first steps, which other tests judge.
    start = assert_tensor(entry(report, "start"), shape=history[0].shape)
    right = [start + row - history[MANY - 1] for row in history[MANY:]]
    went_on, loaded = entry(report, "went on"), entry(report, "loaded")
    assert_close(went_on, right, what="the list of the values of the last steps", **LOOSE)
    what = "the list of the values of the last steps, after loading,"
    assert_close(loaded, right, what=what, **LOOSE)
    told = "After loading its state the optimizer goes on a little differently, not bit for bit."
    assert laws.same(loaded, went_on), told


# --- locally -------------------------------------------------------------------------------------


def new_values() -> list[Tensor]:
    return [torch.randn(shape).double() for shape in SHAPES]


def new_grads(steps: int) -> Grads:
    return [[torch.randn(shape).double() for shape in SHAPES] for _ in range(steps)]


def check_steps(
    student: Student,
    options: Options,
    values: list[Tensor] | None = None,
    grads: Grads | None = None,
) -> None:
    """The values are right after each step with these options, of new parameters unless some are given."""
    values = values or new_values()
    grads = grads or new_grads(STEPS)
    history = student.run("trained", values, grads, options)
    named = ", ".join(f"{name}={value}" for name, value in options.items())
    what = f"the list of the values after each step of AdamW(params, {named})"
    assert_close(history, right_history(values, grads, options), what=what, **LOOSE)


def check_groups(
    student: Student, options: Options, own: list[Options], changes: list[Changes]
) -> None:
    """The values are right where each parameter is a group with `own` options.

    Before each step there are changes of options, a row for each step.
    """
    values = [torch.randn(3).double() for _ in own]
    grads: Grads = [[torch.randn(3).double() for _ in own] for _ in changes]
    report = student.run("trained_in_groups", values, grads, options, own, changes)
    for names in entry(report, "keys", kind=list, count=len(own)):
        for name in DEFAULTS:
            told = f"The groups lack the option {name}: hand it to super().__init__ as a default."
            assert name in entry(names, kind=list), told
    current = [{**options, **more} for more in own]
    by_step = []
    for before_step in changes:
        current = [{**group, **before_step.get(i, {})} for i, group in enumerate(current)]
        by_step.append(current)
    right = right_history_of_groups(values, grads, by_step)
    what = "the list of the values after each step, with options that change,"
    assert_close(entry(report, "history"), right, what=what, **LOOSE)


def right_history(values: list[Tensor], grads: Grads, options: Options) -> list[Tensor]:
    """All values in a row, after each step."""
    return right_history_of_groups(values, grads, [[options] * len(values)] * len(grads))


def right_history_of_groups(
    values: list[Tensor], grads: Grads, options: list[list[Options]]
) -> list[Tensor]:
    """All values in a row, after each step; for each step there are the options of each value."""
    columns = []
    for index, value in enumerate(values):
        gradients = [row[index] for row in grads]
        columns.append(adamw(value, gradients, [row[index] for row in options]))
    return [torch.cat(row) for row in zip(*columns, strict=True)]


def adamw(value: Tensor, grads: list[Tensor | None], options: list[Options]) -> list[Tensor]:
    """The values of one parameter after each step, flat; the options are those of the step."""
    parameter = value.double()
    m = v = torch.zeros_like(parameter)
    t = 0
    history = []
    for grad, own in zip(grads, options, strict=True):
        if grad is not None:
            lr, decay = own["lr"], own["weight_decay"]
            beta1, beta2 = own["betas"]
            t += 1
            if own["decoupled_weight_decay"]:
                parameter = parameter * (1 - lr * decay)
            else:
                grad = grad + decay * parameter
            m = beta1 * m + (1 - beta1) * grad
            v = beta2 * v + (1 - beta2) * grad**2
            m_hat = m / (1 - beta1**t)
            v_hat = v / (1 - beta2**t)
            parameter = parameter - lr * m_hat / (v_hat.sqrt() + own["eps"])
        history.append(parameter.flatten().to(value.dtype))
    return history
