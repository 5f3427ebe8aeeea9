"""What AdamW promises, sentence by sentence."""

import functools
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Grads = list[list[Tensor | None]]
DEFAULTS: Any = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}
DEFAULTS["decoupled_weight_decay"] = True
# Each promise but that of precision is judged as in float32.
LOOSE: Any = {"rtol": 1e-4, "atol": 1e-5}
# Options that keep every wrong formula apart from the right one, but for eps, which has its own test.
PLAIN: dict[str, Any] = {
    **DEFAULTS,
    "lr": 0.1,
    "betas": (0.7, 0.9),
    "eps": 1e-12,
    "weight_decay": 0.6,
}
L2 = {**PLAIN, "decoupled_weight_decay": False}
NO_DECAY = {**PLAIN, "weight_decay": 0.0}
# What may be wrong in the update, by the name that `simulate` knows it under.
# A mistake in these costs the test that is about it; the other tests follow the student's formula.
FOLLOWED = ("no correction", "m only", "v only", "t from 2", "swapped", "undamped", "after")
KEYS = {
    "lr": "The groups lack the option lr: hand it to super().__init__ as a default.",
    "betas": "The groups lack the option betas: hand it to super().__init__ as a default.",
    "eps": "The groups lack the option eps: hand it to super().__init__ as a default.",
    "weight_decay": "The groups lack the option weight_decay: hand it to super().__init__ as a default.",
    "decoupled_weight_decay": (
        "The groups lack the option decoupled_weight_decay: hand it to super().__init__ as a default."
    ),
}


@pytest.mark.points(2)
@pytest.mark.place("AdamW")
@pytest.mark.hint("class AdamW(torch.optim.Optimizer), with a step of your own.")
def test_own_work(student: Student) -> None:
    """AdamW is a torch.optim.Optimizer, and nothing of PyTorch's own Adam and AdamW runs in it."""
    bases = entry(student.run("bases"), kind=list)
    told = f"AdamW is a {str(bases[:1])[2:-2]}: make it a class of torch.optim.Optimizer."
    assert "torch.optim.optimizer.Optimizer" in [str(base) for base in bases], told
    own, why = ("torch.optim.adam.", "torch.optim.adamw."), "write the step yourself"
    for base in bases:
        assert not str(base).startswith(own), f"{base} is not allowed here: {why}."
    fused = [f"aten::_fused_adam{name}" for name in ("_", "w_", "", "w")]
    ban: Any = {"functions": own, "operators": fused, "why": why}
    for options in ({}, L2):
        given = [torch.ones(2)], [[torch.ones(2)]] * 2, options
        laws.check_not_used(student, "steps_of_AdamW", *given, **ban)
        (value,) = entry(student.run("trained", *given), "history", kind=list, count=2)[1:]
        moved = assert_tensor(value, shape=[2], what="the values after two steps") != 1
        assert moved.all(), "Two steps with the gradient 1 leave the parameters as they were."


@pytest.mark.points(9)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint(
    "m and v, then m_hat and v_hat with the count t, then the update by m_hat / sqrt(v_hat)."
)
def test_update(student: Student) -> None:
    """Without decay the parameter follows the corrected moments of its gradients, as in Adam."""
    check(student, NO_DECAY)
    large: Grads = [[1e4 * torch.randn(2)] for _ in range(3)]
    check(student, NO_DECAY, ([torch.ones(2)], large))


@pytest.mark.points(3)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("lr * m_hat / (v_hat.sqrt() + eps)")
def test_eps(student: Student) -> None:
    """eps is added to the root of the corrected v."""
    check(student, {**PLAIN, "eps": 0.2}, follow=True)


@pytest.mark.points(3)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.__init__")
@pytest.mark.hint("The signature of __init__ in the stub has the defaults.")
def test_defaults(student: Student) -> None:
    """Options that are not given have their defaults."""
    for options in ({}, {"lr": 0.1, "betas": (0.7, 0.9)}):
        check(student, options, follow=True, rtol=1e-5, atol=1e-8)
    of_size_eps: Grads = [[1e-8 * torch.randn(2).double()] for _ in range(3)]
    case = [torch.ones(2).double()], of_size_eps
    check(student, {"lr": 0.1, "betas": (0.7, 0.9)}, case, follow=True, rtol=1e-5, atol=1e-8)


@pytest.mark.points(9)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("p.mul_(1 - lr * weight_decay), then the moments of the gradient alone.")
def test_decoupled(student: Student) -> None:
    """Decoupled, the parameter itself shrinks by 1 - lr * weight_decay at each step."""
    check(student, PLAIN, follow=True)


@pytest.mark.points(3)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("First p.mul_(1 - lr * weight_decay), then the update.")
def test_order(student: Student) -> None:
    """The parameter decays before its update."""
    followed = formula(student)
    report, (values, grads) = trained(student, PLAIN)
    right = simulate(values, grads, PLAIN, "" if followed == "after" else followed)
    assert_close(
        entry(report, "history"),
        right,
        what="the list of the values",
        **LOOSE,
    )


@pytest.mark.points(6)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("gradient = p.grad + weight_decay * p, before the moments, if not decoupled.")
def test_l2(student: Student) -> None:
    """With decoupled_weight_decay=False the gradient is g + weight_decay * parameter: Adam with L2."""
    for options in (L2, {**L2, "lr": 0.02, "betas": (0.9, 0.999)}):
        check(student, options, follow=True)


@pytest.mark.points(2)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("torch.zeros_like(p) for the moments; Python numbers for t, lr and the betas.")
def test_float64(student: Student) -> None:
    """float64 parameters are updated to the precision of float64."""
    far = {**PLAIN, "lr": 1e3, "weight_decay": 0.0}  # what float32 rounds off shows
    for options in (PLAIN, far, L2):
        report, (values, grads) = trained(student, options)
        right = torch.stack(simulate(values, grads, options, formula(student)))
        rows = entry(report, "history", kind=list, count=len(grads))
        what = "the matrix of the values, a row for each step,"
        made = torch.stack([assert_tensor(row, shape=right[0].shape, what=what) for row in rows])
        laws.check_float64(made, right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint(
    "torch.zeros_like(p) for the moments, and list(params) only in Optimizer.__init__."
)
def test_shapes(student: Student) -> None:
    """Parameters may come from a generator, be of any shape, 0-d ones too, and float32."""
    for dtype in (torch.float32, torch.float64):
        case = new_case([(), (3, 2), (1,), (2, 2, 2)], 12, dtype)
        check(student, PLAIN, case, follow=True, generator=True)


@pytest.mark.points(7)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("if p.grad is None: continue, and a count for each parameter in self.state[p].")
def test_missing_gradients(student: Student) -> None:
    """Without a gradient a parameter is left alone, and its own count stands still; zeros are one."""
    values, grads = new_case([(2,), (2, 2), (3,), ()], 6)
    for step, index in ((0, 1), (1, 1), (4, 1), (2, 2), (3, 2), *((i, 3) for i in range(6))):
        grads[step][index] = None
    grads[3][0], grads[4][0] = torch.zeros(2).double(), torch.zeros(2).double()
    check(student, PLAIN, (values, grads), follow=True)


@pytest.mark.points(6)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("for group in self.param_groups: lr = group['lr'], and so on, at each step.")
def test_groups(student: Student) -> None:
    """Groups have their own options, which stand in them and are read from them at each step."""
    own: list[dict[str, Any]] = [{}, {"lr": 0.3}, {"betas": (0.2, 0.5), "eps": 0.01}]
    own += [{"weight_decay": 0.0}, {"decoupled_weight_decay": False, "weight_decay": 1.5}]
    right = [{**PLAIN, **mine} for mine in own]
    later = {"lr": 0.02, "betas": (0.5, 0.6), "eps": 0.7, "weight_decay": 2.0}
    changes: dict[int, Any] = {3: [(0, "decoupled_weight_decay", False)], 4: [(1, "lr", 0.5)]}
    changes[2] = [(1, "lr", 0.0), *((0, name, value) for name, value in later.items())]

    def at(step: int, index: int) -> dict[str, Any]:
        """The options of a parameter, which is a group of its own, at a step."""
        passed = [change for start in sorted(changes) if start <= step for change in changes[start]]
        return right[index] | {name: value for i, name, value in passed if i == index}

    values, grads = new_case([(2,), (3,), (), (2, 2), (2,)], 6)
    run = functools.partial(simulate, values, grads, slip=formula(student))
    constant = "{} is always that of the constructor: read it from the group, at each step."
    for some in ({}, changes):
        report = student.run("trained", values, grads, PLAIN, own, some)
        for group in entry(report, "options", kind=list, count=len(own)):
            for name, told in KEYS.items():
                entry(group, name, told=told)
        options: Any = at if some else (lambda _, index: right[index])
        for names in ([*DEFAULTS], *([name] for name in DEFAULTS)):
            told = constant.format(", ".join(names))
        what = "the list of the values after each step" + ", with options that change," * bool(some)
        assert_close(entry(report, "history"), run(options), what=what, **LOOSE)


@pytest.mark.points(7)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("self.state[p] holds all: the count and both moments. Nothing else is saved.")
def test_resumes(student: Student) -> None:
    """A new AdamW that loads the saved state dict goes on as the old one, bit for bit."""
    exactly = "After loading its state the optimizer goes on a little differently, not bit for bit."
    read = "torch.load(..., weights_only=True) refuses the saved state dict: keep plain data in it."
    for own in (None, [{"lr": 0.3}, {}, {"weight_decay": 1.0}]):
        values, grads = new_case([(2, 3), (), (4,)], 9)
        for step, index in ((1, 0), (6, 0), *((i, 2) for i in range(7))):
            grads[step][index] = None  # the last parameter's first gradient comes after loading
        report = student.run("resumed", values, grads[:5], grads[5:], PLAIN, own)
        assert entry(report, "refused") is None, read
        at = entry(report, "at", kind=list, count=3)
        on, again = (entry(report, name, kind=list) for name in ("on", "again"))
        at = [assert_tensor(value, shape=v.shape) for value, v in zip(at, values, strict=True)]
        mine = own or [{}] * 3

        def options_of(_: int, index: int, mine: Any = mine) -> Any:
            return {**PLAIN, **mine[index]}

        own_formula = formula(student)
        right = simulate(values, grads, options_of, own_formula)[5:]
        assert_close(on, right, what="the list of the values of steps 6 to 9", **LOOSE)
        what = "the list of the values of steps 6 to 9, after loading,"
        assert_close(again, right, what=what, **LOOSE)
        assert laws.same(again, on), exactly


@pytest.mark.points(4)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("with torch.enable_grad(): loss = closure(), as the first lines; return loss.")
def test_closure(student: Student) -> None:
    """A closure is called once, before the update, with autograd enabled; step returns its result."""
    values, grad = torch.randn(2, 3).double()
    for result, old in ((2.5, None), (torch.tensor(1.25), -grad)):
        report = student.run("closed", PLAIN, values, old, grad, result)
        calls = entry(report, "calls", kind=list)
        assert len(calls) == 1, f"step calls the closure {len(calls)} times, it should be once."
        told = "The closure runs without autograd: no torch.no_grad() around it."
        assert entry(calls, 0, "autograd") is True, told
        what = "the list of the values when the closure is called"
        assert_close([entry(calls, 0, "values")], [values], what=what)
        assert_equal(entry(report, "returned"), result, what="the result of step(closure)")
        own_formula = formula(student)
        one = functools.partial(simulate, [values], options=PLAIN, slip=own_formula)
        what = "the list of the values after step(closure)"
        assert_close([entry(report, "values")], one([[grad]]), what=what, **LOOSE)
        assert_equal(entry(report, "bare"), None, what="the result of step() without a closure")
        told = "Autograd is off after a step: use torch.no_grad() as a with block."
        assert entry(report, "autograd") is True, told


@pytest.mark.points(4)
@pytest.mark.requires("test_decoupled")
@pytest.mark.place("AdamW.step")
@pytest.mark.hint("gradient = p.grad + weight_decay * p is a new tensor; p.grad.add_ is not.")
def test_leaves_the_rest(student: Student) -> None:
    """Each .grad and requires_grad are left as they are; parameters stay leaves; nothing is drawn."""
    for options in (PLAIN, L2):
        values, grads = new_case([(2, 3), (), (4,)], 2)
        grads[1][1] = None
        given = student.probe("trained"), values, grads, options
        report = laws.check_changes_nothing(student, *given, call="step", only=("random", "modes"))
        told = "Your code changes p.grad: compute a new tensor, g = p.grad + weight_decay * p."
        assert laws.same(entry(report, "grads"), grads), told
        told = "Your code puts another tensor into .grad: leave .grad as it is."
        assert laws.same(entry(report, "same"), [True] * 6), told
        for fact, flags in entry(report, "flags", kind=dict).items():
            assert laws.same(flags, [True] * 3), f"After a step not all parameters {fact}."


@pytest.mark.points(4)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("AdamW.__init__")
@pytest.mark.hint("0 <= beta < 1 for both of them; the others only must not be below 0.")
def test_errors(student: Student) -> None:
    """lr, eps or weight_decay below 0, or a beta outside of [0, 1), is a ValueError that names it."""
    x = [torch.ones(2)]
    bad = ((1.0, 0.9), (0.9, 1.0), (-0.1, 0.9), (0.9, -0.1), (0.9, 1.5))
    low: dict[str, Any] = {"betas or beta": [{"params": x, "betas": betas} for betas in bad]}
    words = {
        "lr": "lr or learning rate",
        "eps": "eps or epsilon",
        "weight_decay": "weight_decay or weight decay",
    }
    for name, word in words.items():
        low[word] = [{"params": x, name: number} for number in (-1e-9, -1.0)]
    zeros = {"params": x, "lr": 0.0, "betas": (0.0, 0.0), "eps": 0.0, "weight_decay": 0.0}
    laws.check_errors(student, "AdamW", low, fine=zeros)


# --- the right answers --------------------------------------------------------------------------------


def new_case(shapes: Any, steps: int, dtype: Any = torch.float64) -> tuple[list[Tensor], Grads]:
    """Values of parameters, and their gradients at each step."""
    values = [torch.randn(shape, dtype=dtype) for shape in shapes]
    grads: Grads = [[torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(steps)]
    return values, grads


def trained(
    student: Student, options: Any, case: Any = None, generator: bool = False
) -> tuple[Any, tuple[list[Tensor], Grads]]:
    """What steps with these options leave, and the values and gradients that they were given."""
    values, grads = case or new_case([(3, 2), (4,)], 6)
    report = student.run("trained", values, grads, options, None, None, generator)
    return report, (values, grads)


def formula(student: Student) -> str:
    """The slip of FOLLOWED that the student's formula has, "" where it has none of them."""

    def ask() -> str:
        report, (values, grads) = trained(student, PLAIN)
        history = entry(report, "history", kind=list, count=len(grads))
        for slip in FOLLOWED:
            if all(map(is_close, history, simulate(values, grads, PLAIN, slip))):
                return slip
        return ""

    return student.once("formula", ask)


def is_close(row: Any, slipped: Tensor) -> bool:
    same_kind = isinstance(row, Tensor) and (row.shape, row.dtype) == (slipped.shape, slipped.dtype)
    return same_kind and torch.allclose(row, slipped, **LOOSE)


def check(
    student: Student, options: Any, case: Any = None, *,
    follow: bool = False, generator: bool = False, **tolerances: float,
) -> None:  # fmt: skip
    """The values after each step are right, or those of a slip.

    With `follow` a slip in the formula, which another test judges, is taken for right.
    """
    report, (values, grads) = trained(student, options, case, generator)
    history, dtype = entry(report, "history", kind=list, count=len(grads)), values[0].dtype
    followed = formula(student) if follow else ""

    @functools.cache
    def right(slip: str = followed) -> Tensor:
        return torch.stack(simulate(values, grads, DEFAULTS | options, slip))

    named = ", ".join(f"{name}={value}" for name, value in options.items())
    what = f"the matrix of the values, a row for each step, of AdamW({named})"
    shape = right()[0].shape
    rows = torch.stack([assert_tensor(v, shape=shape, dtype=dtype, what=what) for v in history])
    laws.check_finite(rows, what=what, why="t is 1 at the first update, for 1 - beta**0 is 0")
    assert_close(rows, right(), what=what, **{**LOOSE, **tolerances})


def simulate(values: list[Tensor], grads: Grads, options: Any, slip: str = "") -> list[Tensor]:
    """All values as one vector after each step; `options` may depend on step and parameter."""
    ps = [value.double() for value in values]
    ms, vs, ts = [p * 0 for p in ps], [p * 0 for p in ps], [0] * len(ps)
    history = []
    for step, row in enumerate(grads):
        for i, grad in enumerate(row):
            o = options(step, i) if callable(options) else options
            if grad is None and slip == "none decays":
                ps[i] = ps[i] * (1 - o["lr"] * o["weight_decay"])
            g = ps[i] * 0 if grad is None and slip == "none is zeros" else grad
            if g is None or (slip == "zeros is none" and not g.any()):
                ts[i] += slip == "none counts" and ts[i] > 0
                continue
            ts[i] += 1
            t = {"one count": step + 1, "t from 2": ts[i] + 1}.get(slip, ts[i])
            ps[i], ms[i], vs[i] = updated(ps[i], ms[i], vs[i], g.double(), t, o, slip)
        history.append(torch.cat([p.flatten() for p in ps]).to(values[0].dtype))
    return history


def updated(p: Any, m: Any, v: Any, g: Any, t: int, o: dict[str, Any], slip: str) -> Any:
    """A parameter and its moments after an update, or after one with a slip."""
    lr, (b1, b2), eps, decay = o["lr"], o["betas"], o["eps"], o["weight_decay"]
    b1, b2 = (b2, b1) if slip == "swapped" else (b1, b2)
    decay = 0.0 if slip == "no decay" else decay
    decoupled = o["decoupled_weight_decay"] != (slip == "other mode")
    pull, shrink = 0 * p, 1 - (1 if slip == "no lr" else lr) * decay
    if not decoupled or slip == "both":
        pull = decay * p
    if slip != "late l2":
        g = g + pull
    if (decoupled or slip == "both") and slip != "after":
        p = p * shrink
    m = b1 * m + (1 if slip == "undamped" else 1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    m_hat = m if slip in ("no correction", "v only") else m / (1 - b1**t)
    v_hat = v if slip in ("no correction", "m only") else v / (1 - b2**t)
    m_hat = g if slip == "no momentum" else m_hat
    if slip == "late l2":
        m_hat = m_hat + pull
    match slip:
        case "eps inside":
            root = (v_hat + eps).sqrt()
        case "eps before":
            root = (v.sqrt() + eps) / (1 - b2**t) ** 0.5
        case "no root":
            root = v_hat + eps
        case _:
            root = v_hat.sqrt() + (0 if slip == "no eps" else eps)
    p = p - (-lr if slip == "sign" else lr) * m_hat / root
    return (p * shrink if slip == "after" and decoupled else p), m, v
