"""What the learning-rate range test promises, sentence by sentence."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.outcomes import StudentError
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

# What a submodule of the probe's Network is called, the root first.
MODULES = ["", "body", "body.0", "body.1", "body.2", "body.2.0", "body.2.1", "body.2.2", "head"]
# The rule that stops a test: whether a loss diverges, by the losses before it.
StopRule = Callable[[list[float], float], bool]
SPAN = {"lr_min": 0.001, "lr_max": 0.02, "steps": 6}


# --- what comes back -----------------------------------------------------------------------------


def numbers(reported: Any, name: str) -> Tensor:
    """Rates or losses of a result as float64 `(n,)`; how they are stored is one test's affair."""
    value = entry(reported, name)
    if isinstance(value, (list, tuple)) and all(isinstance(each, float) for each in value):
        value = torch.tensor(value, dtype=torch.float64)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        value = torch.from_numpy(value.astype(np.float64))
    tensor = assert_tensor(value, what=f"{name} of the result")
    assert tensor.dim() == 1, f"{name} of the result have {tensor.dim()} dimensions, expected 1."
    real = tensor.is_floating_point()
    assert real, f"{name} of the result are of dtype {tensor.dtype}, expected float64."
    return tensor.double()


def near(value: float) -> float:
    """A number that is drawn, at most a quarter above this one."""
    return value * (1 + random.randint(0, 31) / 128)


def scaled(scripts: list[list[float]]) -> list[list[float]]:
    """These losses times a drawn factor, exactly."""
    factor = near(1.0)
    return [[factor * loss for loss in losses] for losses in scripts]


def geometric(lr_min: float, lr_max: float, steps: int) -> Tensor:
    i = torch.arange(steps, dtype=torch.float64)
    return lr_min * (lr_max / lr_min) ** (i / (steps - 1))


# --- exponential_lrs -----------------------------------------------------------------------------


@pytest.mark.points(18)
@pytest.mark.place("exponential_lrs")
@pytest.mark.hint("Space the exponents evenly, from log10(lr_min) to log10(lr_max), in float64.")
def test_rates(student: Student) -> None:
    """The rates are evenly spaced in log(lr), from lr_min to lr_max."""
    exponential_lrs = student.function("exponential_lrs")
    cases: list[tuple[float, float, int]] = [
        (near(0.01), near(1.0), 3),
        (near(1e-6), near(10.0), 12),
        (near(3e-4), near(0.2), 2),
    ]
    actual = [
        assert_tensor(exponential_lrs(*case), dtype=torch.float64, what=f"exponential_lrs{case}")
        for case in cases
    ]
    assert_close(
        actual,
        [geometric(*case) for case in cases],
        what=f"the list of rates for (lr_min, lr_max, steps) = {cases}",
        atol=0.0,
    )


@pytest.mark.requires("test_rates")
@pytest.mark.place("exponential_lrs")
@pytest.mark.word("one answer without arguments is always right")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_default_rates(student: Student) -> None:
    """Without arguments there are 100 rates from 1e-6 to 10."""
    exponential_lrs = student.function("exponential_lrs")
    rates = numbers({"rates": exponential_lrs()}, "rates")
    assert_equal(len(rates), 100, what="the number of rates of exponential_lrs()")
    assert_close(
        [rates[0].item(), rates[-1].item()],
        [1e-6, 10.0],
        what="the first and the last rate of exponential_lrs()",
        rtol=1e-4,
        atol=0.0,
    )


# Not refused: a function that refuses everything proves nothing by refusing what is bad.
GOOD = {"lr_min": 0.1, "lr_max": 1.0, "steps": 5}


def check_refuses(student: Student, name: str, *values: float) -> None:
    exponential_lrs = student.function("exponential_lrs")
    assert_tensor(exponential_lrs(**GOOD), what="exponential_lrs(lr_min=0.1, lr_max=1.0, steps=5)")
    table = {name: [{**GOOD, name: value} for value in values]}
    laws.check_errors(student, "exponential_lrs", table)


@pytest.mark.place("exponential_lrs")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("0 has no logarithm: raise ValueError for lr_min <= 0, and name lr_min.")
def test_refuses_lr_min(student: Student) -> None:
    """An lr_min that is not above 0 is a ValueError."""
    check_refuses(student, "lr_min", 0.0, -0.1)


@pytest.mark.place("exponential_lrs")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("lr_max has to be above lr_min: raise ValueError for lr_max <= lr_min.")
def test_refuses_lr_max(student: Student) -> None:
    """An lr_max that is not above lr_min is a ValueError."""
    check_refuses(student, "lr_max", 0.1, 0.05)


@pytest.mark.place("exponential_lrs")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Both ends need a rate of their own: raise ValueError for steps < 2.")
def test_refuses_steps(student: Student) -> None:
    """Fewer than 2 steps are a ValueError."""
    check_refuses(student, "steps", 1, 0)


# --- lr_range_test: the steps --------------------------------------------------------------------


def regression() -> dict[str, Tensor]:
    """A linear regression that is far from its optimum, so that the loss falls slowly."""
    return {
        "inputs": torch.rand(4, 3, dtype=torch.float64) + 0.5,
        "targets": torch.rand(4, 1, dtype=torch.float64) + 8.0,
        "weight": torch.rand(3, 1, dtype=torch.float64),
        "bias": torch.rand(1, dtype=torch.float64),
    }


def descend(
    data: dict[str, Tensor],
    weight_rates: list[float],
    bias_rates: list[float] | None = None,
    *,
    momentum: float = 0.0,
    decay: float = 0.0,
    stale: float = 0.0,
    accumulate: bool = False,
    after: bool = False,
    largest: float = math.inf,
) -> Tensor:
    """The losses of a linear regression by hand, one a rate; the options are options or mistakes.

    `stale` is added to the first gradient, `accumulate` adds each gradient to the one before,
    `after` records the loss after the step, `largest` clips the norm of the gradients.
    """
    x, y = data["inputs"], data["targets"]
    values = {"weight": data["weight"], "bias": data["bias"]}
    rates = {"weight": weight_rates, "bias": bias_rates or weight_rates}
    gradients = {name: torch.full_like(value, stale) for name, value in values.items()}
    buffers = {name: torch.zeros_like(value) for name, value in values.items()}
    losses = []
    for i in range(len(weight_rates)):
        error = x @ values["weight"] + values["bias"] - y
        losses.append(error.square().mean())
        slopes = {"weight": 2 * x.T @ error / len(x), "bias": 2 * error.mean(0)}
        for name in values:
            old = gradients[name] if accumulate or i == 0 else 0.0
            gradients[name] = old + slopes[name]
        norm = torch.cat([each.flatten() for each in gradients.values()]).norm().item()
        for name, value in values.items():
            gradients[name] = gradients[name] * min(1.0, largest / (norm + 1e-6))
            buffers[name] = momentum * buffers[name] + gradients[name] + decay * value
            values[name] = value - rates[name][i] * buffers[name]
        if after:
            error = x @ values["weight"] + values["bias"] - y
            losses[-1] = error.square().mean()
    return torch.stack(losses)


def rates_and_losses(reported: Any) -> tuple[list[float], Tensor]:
    """The rates that were reported and the losses that go with them, for a test of SPAN's steps.

    What is expected is computed from the reported rates: whether these are right is the affair of
    other tests.
    """
    rates, losses = numbers(reported, "learning_rates"), numbers(reported, "losses")
    steps = SPAN["steps"]
    assert len(rates) >= len(losses), (
        f"The result has {len(losses)} losses but {len(rates)} learning rates."
    )
    assert len(losses) == steps or above(4.0)(*before_last(losses)), (
        f"The result has {len(losses)} losses, expected {steps}: none of them is a reason to stop."
    )
    return rates[: len(losses)].tolist(), losses


def before_last(losses: Tensor) -> tuple[list[float], float]:
    values = losses.tolist() or [0.0]
    return values[:-1], values[-1]


@pytest.mark.points(24)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("At each step: rate, batch, zero_grad, loss, record, backward, step.")
def test_losses(student: Student) -> None:
    """Each step trains with its own rate, and the loss before it is recorded."""
    data = regression()
    group = {"params": ["weight", "bias"], "lr": 0.03}
    reported = student.run("run_regression", data, [group], SPAN)
    rates, losses = rates_and_losses(reported)
    run = functools.partial(descend, data)
    assert_close(
        losses,
        run(rates),
        what="losses",
    )


# Wrong losses, from the run of the regression and the rates.


@pytest.mark.points(3)
@pytest.mark.requires("test_losses")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Loop over optimizer.param_groups and set the same rate in each.")
def test_every_group(student: Student) -> None:
    """The rate is set in every parameter group."""
    data = regression()
    groups = [{"params": ["weight"], "lr": 0.005}, {"params": ["bias"], "lr": 0.04}]
    rates, losses = rates_and_losses(student.run("run_regression", data, groups, SPAN))
    assert_close(
        losses,
        descend(data, rates),
        what="losses of a model in two parameter groups",
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_losses")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Call optimizer.step(), so that its momentum and weight decay take part.")
def test_optimizer_steps(student: Student) -> None:
    """The steps are those of the given optimizer, with the options of its groups."""
    data = regression()
    group = {"params": ["weight", "bias"], "lr": 0.03, "momentum": 0.9, "weight_decay": 0.5}
    rates, losses = rates_and_losses(student.run("run_regression", data, [group], SPAN))
    assert_close(
        losses,
        descend(data, rates, momentum=0.9, decay=0.5),
        what="losses with momentum and weight decay",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_losses")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Zero the gradients before the backward of each step, the first one included.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the test do not count."""
    data = regression()
    group = {"params": ["weight", "bias"], "lr": 0.03}
    reported = student.run("run_regression", data, [group], SPAN, stale=3.0)
    rates, losses = rates_and_losses(reported)
    assert_close(
        losses,
        descend(data, rates),
        what="losses of a model that came with gradients",
    )


@pytest.mark.points(6)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Keep one iterator over the loader, and ask it for the next batch at each step.")
def test_next_batches(student: Student) -> None:
    """Each step takes the next mini-batch of the loader."""
    base = random.randint(20, 199)
    batches = [base + offset for offset in (6.0, 3.0, 7.0, 1.0, 4.0, 2.0)]
    case = {"passes": [batches], "options": {"lr_min": 0.01, "lr_max": 1.0, "steps": 4}}
    (reported,) = entry(student.run("run_scripts", [case]), kind=list, count=1)
    expected = torch.tensor(batches[:4], dtype=torch.float64)
    assert not laws.same(entry(reported, "loss_arguments"), [False, True]), (
        "The arguments of loss_fn are swapped: the model's outputs come first, then the targets."
    )
    assert_close(
        numbers(reported, "losses"),
        expected,
        what=f"losses where the batches' losses are {batches}",
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("When the iterator is used up, make a new one: iter(loader).")
def test_loader_again(student: Student) -> None:
    """A loader that runs out is iterated again from its start, and may shuffle anew."""
    # The batch at place i of pass p over the loader has the loss 100 + 10 p and a digit of its own.
    digits = random.sample(range(10), 3)
    passes = [[100.0 + 10 * p + digit for digit in digits] for p in range(12)]
    options = {"lr_min": 0.01, "lr_max": 1.0, "steps": 8}
    cases = [{"passes": each, "options": options} for each in (passes, [p[:1] for p in passes])]
    reported = entry(student.run("run_scripts", cases), kind=list, count=2)
    three, one = (numbers(report, "losses") - 100 for report in reported)
    place = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]).double()
    three_places, one_places = (
        torch.tensor([digits.index(d) if d in digits else -1 for d in (taken % 10).tolist()])
        for taken in (three, one)
    )
    assert_close(
        three_places.double(),
        place,
        what="the list of the places in the loader from which the steps took their batches",
    )
    # An earlier look at the loader may have used up a pass, so the passes need only be others.
    first, second, third = (three[[0, 3, 6]] // 10).tolist()
    assert first != second != third != first, (
        "Your test goes through the batches of the first pass again and again: iterate over the "
        "loader anew, so that it may shuffle anew, and keep no batches."
    )
    assert_close(one_places.double(), place * 0, what="the same list for a loader of one batch")


@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If a new iterator has no batch at all, raise ValueError and name the loader.")
def test_empty_loader(student: Student) -> None:
    """A loader that yields nothing is a ValueError."""
    # One that yields something is none.
    assert len(run_scripts(student, [[3.0, 2.0]])[0]) > 0, (
        "With a loader of two batches, lr_range_test recorded no loss."
    )
    call = "lr_range_test with a loader that yields nothing"
    text = refusal(call, lambda: student.run("run_empty"))
    assert "loader" in text.lower(), (
        f"The ValueError for an empty loader says {text[:100]!r}; it should name the loader."
    )


def refusal(call: str, ask: Callable[[], Any]) -> str:
    """The words of the ValueError that a call of the student's code has to raise."""
    text = ""
    with must_raise(ValueError, call=call):
        try:
            ask()
        except StudentError as error:
            text = error.text
            raise
    return text


@pytest.mark.points(4)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("model.train() reaches every submodule.")
def test_train_mode(student: Student) -> None:
    """The whole model is in train mode during the test, whatever mode it came in."""
    readings = [float(number) for number in random.sample(range(5, 60), 3)]
    everywhere = sum(readings)
    evaluating, training = (
        numbers(student.run("run_gauges", readings, mode), "losses") for mode in (False, True)
    )

    def shown(came_evaluating: float, came_training: float) -> list[Tensor]:
        came = (came_evaluating, came_training)
        return [torch.full((3,), 100.0 + each, dtype=torch.float64) for each in came]

    assert_close(
        [evaluating, training],
        shown(everywhere, everywhere),
        what="the list of the losses of a model that came in eval mode, and of one in train mode",
    )


# --- lr_range_test: the early stop ---------------------------------------------------------------


def above(factor: float) -> StopRule:
    """The rule of the contract, with other factors."""

    def rule(before: list[float], loss: float) -> bool:
        lowest = min(before, default=math.inf)
        return not math.isfinite(loss) or loss > factor * lowest

    return rule


def never(_before: list[float], _loss: float) -> bool:
    return False


# Losses that wrong rules compare with.


def recorded(scripts: list[list[float]], rule: StopRule) -> list[Tensor]:
    """The losses that a test records of each script; `drop` of those at the stop are lost."""
    kept = []
    for script in scripts:
        stop = next((i for i, loss in enumerate(script) if rule(script[:i], loss)), None)
        losses = script if stop is None else script[: stop + 1]
        kept.append(torch.tensor(losses, dtype=torch.float64))
    return kept


def run_scripts(student: Student, scripts: list[list[float]]) -> list[Tensor]:
    cases = [
        {"passes": [each], "options": {"lr_min": 0.01, "lr_max": 1.0, "steps": len(each)}}
        for each in scripts
    ]
    reported = entry(student.run("run_scripts", cases), kind=list, count=len(scripts))
    return [numbers(report, "losses") for report in reported]


@pytest.mark.points(6)
@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Keep the lowest loss so far; compare first, update it afterwards.")
def test_stop_rule(student: Student) -> None:
    """The test stops at the first loss above 4 times the lowest before it, and records it."""
    scripts = scaled(
        [
            [8.0, 4, 2, 1, 2, 4, 5, 9, 3, 30, 200],
            [16.0, 10, 3, 11, 13, 3, 100, 5],
            [1.0, 2, 3, 4, 3, 4],
            [2.0, 9, 1],
        ]
    )
    assert_close(
        run_scripts(student, scripts),
        recorded(scripts, above(4.0)),
        what=f"the list of recorded losses for the losses {scripts}",
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("NaN compares as False with everything: ask math.isfinite first.")
def test_stop_not_finite(student: Student) -> None:
    """The test stops at a loss that is NaN or infinite, and records it."""
    nan, inf = math.nan, math.inf
    scripts = scaled([[2.0, 1, nan, 5, 1, 9, 1], [2.0, inf, 1], [nan, 1.0, 9, 1], [inf, 1.0]])

    assert_close(
        run_scripts(student, scripts),
        recorded(scripts, above(4.0)),
        what=f"the list of recorded losses for the losses {scripts}",
    )


# --- lr_range_test: the result -------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.requires("test_rates", "test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Return LRRangeTest(rates[:n], losses), both float64, for the n recorded losses.")
def test_result(student: Student) -> None:
    """The result is an LRRangeTest of the rates and losses of the steps that were run."""
    script = near(1.0) * torch.tensor([2.0, 1.0, 9.0, 1.0, 1.0], dtype=torch.float64)
    options = {"lr_min": near(0.02), "lr_max": near(0.5), "steps": 5}
    case = {"passes": [script.tolist()], "options": options}
    reported = student.run("run_scripts", [case, {**case, "options": {}}])
    given, default = entry(reported, kind=list, count=2)
    assert entry(given, "named") is True, (
        f"lr_range_test returned an object of type {str(entry(given, 'type'))[:60]}, expected an "
        "LRRangeTest with the fields learning_rates and losses."
    )
    actual = [entry(given, "learning_rates"), entry(given, "losses")]
    for name, value in zip(("learning_rates", "losses"), actual, strict=True):
        assert_tensor(value, dtype=torch.float64, what=f"{name} of the result")
    # As many as there are: whether the test stops where it should is the affair of other tests.
    n = len(numbers(given, "losses"))
    losses, rates, usual = (
        script[:n],
        geometric(options["lr_min"], options["lr_max"], 5),
        geometric(1e-6, 10.0, 100),
    )
    assert_close(
        actual,
        [rates[:n], losses],
        what="the list of learning_rates and losses of a test of 5 steps that stops early",
        atol=0.0,
    )
    assert laws.same(entry(given, "requires_grad"), [False, False]), (
        "The result requires a gradient: detach each loss (loss.item()), so that it does not keep "
        "its graph alive."
    )
    assert_close(
        entry(default, "learning_rates"),
        usual[: len(numbers(default, "losses"))],
        what="learning_rates of a test without lr_min, lr_max and steps",
        atol=0.0,
    )


@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("A range test needs no randomness of its own: leave torch.manual_seed alone.")
def test_random_state(student: Student) -> None:
    """The global random state is left alone."""
    laws.check_changes_nothing(student, *call_of(student), call="lr_range_test", only=("random",))


# --- lr_range_test: what it leaves ---------------------------------------------------------------


def call_of(
    student: Student,
    losses: list[float] | None = None,
    *,
    modes: dict[str, bool] | None = None,
    optimizer: str = "SGD",
    used: list[str] | None = None,
) -> tuple[Any, ...]:
    """A range test that records these losses, of a network in these modes, with state in use."""
    network = student.made("network", modes or {})
    stepper = student.made("stepper", network, optimizer, used or [])
    return student.probe("range_test"), network, stepper, losses or [4.0, 3.0]


def check_ran(reported: Any) -> None:
    """That it trained: a test that does nothing leaves everything as it was."""
    assert len(numbers(entry(reported, "result"), "losses")) > 0, (
        "lr_range_test recorded no loss: it should run before it restores."
    )
    outputs = entry(reported, "outputs", kind=list)
    assert len(outputs) > 1, (
        "lr_range_test computed no two losses: it should run before it restores."
    )
    first, second = (assert_tensor(output, what="the model's output") for output in outputs[:2])
    alike = (first.shape, first.dtype) == (second.shape, second.dtype)
    assert alike and not torch.equal(first, second), (
        "lr_range_test does not train: from one step to the next the model's output for the same "
        "inputs stays the same, so that there is nothing to restore."
    )


def check_left(
    student: Student, only: tuple[str, ...], told: str, *losses: float, **setting: Any
) -> Any:
    """What a range test leaves as it was, and what it reports."""
    call = call_of(student, list(losses), **setting)
    reported = laws.check_restores(student, *call, call="lr_range_test", only=only, told=told)
    check_ran(reported)
    return reported


# What has to be as it was, and the advice where it is not.
PARTS = [
    (
        ("0.values",),
        (
            "the parameters are what they were: keep copies of the values (clone, or deepcopy of the state "
            "dict: without a copy, what you keep is trained along), and put them back before you return."
        ),
    ),
    (
        ("0.parameters", "1.parameters"),
        (
            "the model and the optimizer hold the same Parameter objects as before, or the optimizer trains "
            "others than the model's: copy the values back in place."
        ),
    ),
    (("0.requires_grad",), "requires_grad of the parameters is what it was."),
]


@pytest.mark.points(24)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Clone every parameter before the test, and copy the values back in place.")
def test_restores_parameters(student: Student) -> None:
    """Afterwards every parameter is what it was."""
    for only, told in PARTS:
        check_left(student, only, f"After the test {told}")


@pytest.mark.points(8)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("named_buffers() has them all; the state dict lacks those with persistent=False.")
def test_restores_buffers(student: Student) -> None:
    """Afterwards every buffer is what it was."""
    told = (
        "A batch norm changes its running statistics, and the integer that counts its batches, at "
        "every forward in train mode: keep copies of all buffers too. One that was registered with "
        "persistent=False (here body.2.2.seen) is not in the state dict."
    )
    check_left(student, ("0.buffers",), told)


@pytest.mark.points(5)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Remember module.training of every module of model.modules().")
def test_restores_modes(student: Student) -> None:
    """Afterwards every submodule is in the mode that it was in."""
    mixed = ["body.1", "body.2", "body.2.1"]
    found, wanted = [], []
    for root in (True, False):
        modes = {name: root if name not in mixed else not root for name in MODULES}
        seen = laws.observe(student, *call_of(student, modes=modes)).checked()
        check_ran(seen.value)
        found.append(entry(seen.after(0), "training"))
        wanted.append(modes)

    assert_equal(
        found,
        wanted,
        what="the list of training modes after two tests",
    )


@pytest.mark.points(4)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Keep copy.deepcopy(optimizer.state_dict()), and load it at the end.")
def test_restores_groups(student: Student) -> None:
    """Afterwards the learning rates and options of the optimizer's groups are what they were."""
    reported = laws.observe(student, *call_of(student)).checked().value
    check_ran(reported)
    assert_equal(
        [entry(group, "lr") for group in entry(reported, "groups", kind=list, count=2)],
        [0.25, 0.0625],
        what="the list of the learning rates of the optimizer's two groups after the test",
    )
    told = (
        "Every group of the optimizer's state dict should be what it was, without new entries such as "
        "the initial_lr of a scheduler."
    )
    check_left(student, ("1.options",), told)


@pytest.mark.points(5)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Keep copy.deepcopy(optimizer.state_dict()), and load it at the end.")
def test_restores_optimizer_state(student: Student) -> None:
    """Afterwards the optimizer's state of each parameter, such as its momentum, is what it was."""
    for optimizer, used, numbers_of in (
        ("Adam", ["body.0.weight", "head.weight"], [0, 6]),
        ("SGD", [], []),
    ):
        seen = laws.observe(student, *call_of(student, optimizer=optimizer, used=used)).checked()
        check_ran(seen.value)
        assert_equal(
            entry(seen.value, "state"),
            numbers_of,
            what=f"the list of the parameters for which {optimizer} has state after the test, as before",
        )
        told = (
            "Keep a copy of the state (copy.deepcopy of the state dict: without a copy, what you keep "
            "changes along), and put it back."
        )
        check_left(student, ("1.state",), told, optimizer=optimizer, used=used)


@pytest.mark.points(3)
@pytest.mark.requires("test_restores_parameters")
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Leave the loop by break, or restore in a finally clause.")
def test_restores_after_stop(student: Student) -> None:
    """A test that stops early restores everything too."""
    for words, loss in {"above 4 times the lowest": 9.0, "NaN": math.nan}.items():
        when = f"After a test that stopped early, at a loss that was {words}, "
        for only, told in PARTS:
            check_left(student, only, when + told, 1.0, 2.0, loss, 1.0)


# --- suggest_lr ----------------------------------------------------------------------------------


def result_of(student: Student, rates: Tensor, losses: Tensor) -> Made:
    return student.own("LRRangeTest", rates, losses)


def suggest(
    student: Student, losses: list[list[float]], **options: float
) -> tuple[list[Any], list[Tensor]]:
    """The suggestions for these losses, and the learning rates that go with each of them."""
    low, suggest_lr = near(1e-4), "suggest_lr"
    rates = [geometric(low, 10.0, len(run)) for run in losses]
    return [
        student.function(suggest_lr)(result_of(student, r, torch.tensor(run).double()), **options)
        for r, run in zip(rates, losses, strict=True)
    ], rates


def first(rule: StopRule, losses: list[float]) -> int:
    """The first index that diverges by this rule, the last of all if there is none."""
    found = [i for i, loss in enumerate(losses) if rule(losses[:i], loss)]
    return found[0] if found else len(losses) - 1


def decade_below(rates: list[Tensor], losses: list[list[float]], rule: StopRule) -> list[float]:
    """One decade below the first divergence by this rule, or `shift` entries from there."""
    pairs = zip(rates, losses, strict=True)
    return [r[max(0, first(rule, each))].item() / 10 for r, each in pairs]


@pytest.mark.points(24)
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("Walk through the losses, keep the lowest so far, stop at the first divergence.")
def test_suggestion(student: Student) -> None:
    """The suggestion is one decade below the rate at which the loss begins to diverge."""
    losses: list[list[float]] = [
        [2.3, 2.25, 2.2, 2.0, 1.5, 1.1, 0.9, 1.0, 1.9, 3.5, 8.5, 20.0, 21.0, 300.0, 100.0],
        [16.0, 15, 14.5, 14, 6, 5, 3, 4, 2.5, 2, 1.5, 5.9, 7, 1.2, 5.5, 100, 3],
        [1.2, 1.1, 1.02, 1.1, 1.05, 1.0, 4.5, 5.5, 12.0, 50.0],
    ]
    actual, rates = suggest(student, losses)
    right = decade_below(rates, losses, above(4.0))

    assert_close(
        actual,
        right,
        what="the list of suggestions for three results",
        atol=0.0,
    )


# Entries of the rates, beside the decade below.


@pytest.mark.points(2)
@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("Divergence is loss > factor * lowest, with the factor that was given.")
def test_suggestion_factor(student: Student) -> None:
    """A loss diverges above factor times the lowest before it, not at exactly that."""
    losses: list[list[float]] = [[4.0, 2, 1, 1.5, 2, 4, 3, 8, 16, 32, 40]]
    factors = (2.0, 4.0, 8.0, 1.5)
    actual, right = [], []
    for factor in factors:
        suggestions, rates = suggest(student, losses, factor=factor)
        actual += suggestions
        right += decade_below(rates, losses, above(factor))
    assert_close(
        actual,
        right,
        what=f"the list of suggestions for the losses {losses[0]} with the factors {factors}",
        atol=0.0,
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("NaN compares as False with everything: ask math.isfinite first.")
def test_suggestion_not_finite(student: Student) -> None:
    """A loss that is NaN or infinite is divergence, the first one too."""
    nan, inf = math.nan, math.inf
    losses = [
        [2.0, 1.0, nan, 1.5, 9.0, 10.0],
        [2.0, 1.0, 1.5, inf, 20.0, 30.0],
        [nan, 2.0, 1.0, 9.0],
        [inf, 2.0, 1.0, 9.0],
    ]
    actual, rates = suggest(student, losses)

    assert_close(
        actual,
        decade_below(rates, losses, above(4.0)),
        what=f"the list of suggestions for the losses {losses}",
        atol=0.0,
    )


@pytest.mark.place("suggest_lr")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If the loop ends without a divergence, raise ValueError.")
def test_never_diverges(student: Student) -> None:
    """Losses that never diverge are a ValueError."""
    # Those that do are none.
    ((suggestion,), _) = suggest(student, [[3.0, 1.0, 2.0, 30.0]])
    assert suggestion is not None, "For losses that diverge your code returns no suggestion."
    losses = [3.0, 2.5, 1.5, 1.0, 1.6, 1.8]
    call = f"suggest_lr for the losses {losses}, which never diverge,"
    text = refusal(call, lambda: suggest(student, [losses]))
    assert "loss" in text.lower() or "result" in text.lower(), (
        f"The ValueError for losses that never diverge says {text[:100]!r}; it should name the "
        "result or its losses."
    )


@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Work on a copy where you change the losses.")
def test_result_left_alone(student: Student) -> None:
    """suggest_lr leaves its result as it is."""
    losses = torch.tensor([2.0, 1.5, 1.0, math.nan, 9.0, 30.0], dtype=torch.float64)
    check_result_left(student, "suggest_lr", geometric(1e-4, 1.0, 6), losses)


def check_result_left(student: Student, function: str, rates: Tensor, losses: Tensor) -> None:
    result = result_of(student, rates, losses)
    told = (
        f"{function} changed losses or learning_rates of its argument; leave the result as it is."
    )
    laws.check_changes_nothing(student, function, result, only=("0.values",), told=told)


# --- plot_lr_range_test --------------------------------------------------------------------------


def curve() -> tuple[Tensor, Tensor]:
    losses = 2 + torch.rand(8, dtype=torch.float64)
    return geometric(1e-4, 1.0, 8), torch.cat([losses, torch.tensor([9.0]).double()])[1:]


def plot(student: Student, rates: Tensor, losses: Tensor, *suggestion: float | None) -> Any:
    result = result_of(student, rates, losses)
    return laws.figure_of(student, "plot_lr_range_test", result, *suggestion)


def drawn(student: Student) -> tuple[Tensor, Tensor, Any]:
    """Rates, losses and their plot without a suggestion: figures take long, and tests share them."""
    rates, losses = curve()
    losses[-1] = math.inf
    return student.once("plot", lambda: (rates, losses, plot(student, rates, losses)))


def curves_of(figure: Any) -> list[Tensor]:
    """What is drawn in the only Axes, as tensors (points, 2), the longest first."""
    lines = entry(laws.axes_of(figure), "lines", kind=list)
    return sorted(map(laws.points_of, lines), key=len, reverse=True)


def check_drawn(figure: Any, losses: Tensor) -> None:
    """Something of the result is in the axes; whether it is right has a test of its own."""
    wanted = losses[torch.isfinite(losses)]
    close = (torch.isclose(wanted[:, None], curve.flatten()) for curve in curves_of(figure))
    assert any(bool(hits.any()) for hits in close), (
        "None of the losses is drawn in the Axes: plot them first."
    )


def finite_points(points: Tensor) -> Tensor:
    return points[torch.isfinite(points).all(1)]


@pytest.mark.points(6)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("figure.add_subplot(), plot(learning_rates, losses), set_xscale('log').")
def test_plot_curve(student: Student) -> None:
    """The figure shows the losses over the learning rates, on a logarithmic x axis."""
    rates, losses, figure = drawn(student)
    curves = [points for points in map(finite_points, curves_of(figure)) if len(points)]
    expected = finite_points(torch.stack([rates, losses], 1))
    assert curves, "Nothing is drawn in the Axes."
    # The loss that is not finite is the last one: it may be drawn, at the top, or left out.
    whole = [xy[: len(expected)] for xy in curves if len(xy) - len(expected) in (0, 1)]
    right = (points for points in whole if torch.allclose(points, expected))
    assert_close(
        next(right, curves[0]),
        expected,
        what="the points (x, y) of the longest curve in the Axes",
        rtol=1e-5,
        atol=1e-8,
    )
    laws.check_axes(figure, x_scale="log", labels=False)
    check_result_left(student, "plot_lr_range_test", rates, losses)


@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("set_xlabel and set_ylabel.")
def test_plot_labels(student: Student) -> None:
    """Both axes have a label."""
    _, losses, figure = drawn(student)
    check_drawn(figure, losses)
    laws.check_axes(figure)


def verticals(figure: Any) -> list[float]:
    """The x of each vertical line in the axes."""
    return [
        xy[0, 0].item()
        for xy in curves_of(figure)
        if len(xy) > 1 and (xy[:, 0] == xy[0, 0]).all() and (xy[:, 1] != xy[0, 1]).any()
    ]


@pytest.mark.points(4)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("axes.axvline(suggestion)")
def test_plot_suggestion(student: Student) -> None:
    """A suggestion is marked by a vertical line."""
    (rates, losses), suggestion = curve(), 0.003 + 0.002 * torch.rand(()).item()
    figure = plot(student, rates, losses, suggestion)
    lines = verticals(figure)
    right = [x for x in lines if math.isclose(x, suggestion, rel_tol=1e-6)]
    flat = [xy for xy in curves_of(figure) if len(xy) > 1 and (xy[:, 1] == suggestion).all()]
    assert right or not flat, (
        "The line at the suggestion is horizontal: a learning rate is an x (axvline)."
    )
    assert lines, "There is no vertical line at the suggestion."
    assert_close(
        (right or lines)[0],
        suggestion,
        what="the x of the vertical line",
        rtol=1e-6,
        atol=0.0,
    )


@pytest.mark.requires("test_plot_suggestion")
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("if suggestion is not None: axes.axvline(suggestion)")
def test_plot_without_suggestion(student: Student) -> None:
    """Without a suggestion there is no vertical line."""
    rates, losses = curve()
    lines = verticals(plot(student, rates, losses, None))
    # One at every point is an error bar or a stem.
    assert not lines or len(lines) >= len(rates), (
        f"With None for a suggestion there is a vertical line all the same, at {lines[0]:.4g}."
    )


@pytest.mark.points(3)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("matplotlib.figure.Figure() makes a figure that pyplot knows nothing of.")
def test_plot_pyplot(student: Student) -> None:
    """pyplot's figures are as they were, and no window is opened."""
    rates, losses, figure = drawn(student)
    check_drawn(figure, losses)
    result = result_of(student, rates, losses)
    laws.check_leaves_pyplot(student, "plot_lr_range_test", result, 0.004)
