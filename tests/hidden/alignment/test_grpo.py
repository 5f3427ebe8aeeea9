"""Tests of group_advantages, clipped_objective, kl_estimate and grpo_loss."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, laws, promise, within
from grader.judge.student import Student

COMPLETIONS, LENGTH = 4, 6
# Tolerances for sums in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
# Coarse enough to ignore an eps of 1e-4, which test_eps judges.
COARSE = {"rtol": 1e-3, "atol": 1e-3}
# Magnitudes of log-ratios. Up to INSIDE they are within the clip; between the two of BEYOND, far outside it.
CLIP, INSIDE, BEYOND = 0.2, 0.15, (0.4, 0.9)


# --- advantages ----------------------------------------------------------------------------------


@promise(
    "group_advantages", points=5, hint="mean and std with dim=1, keepdim=True: one for each row."
)
def test_advantages(code: Student, draw: Draw) -> Cases:
    """Each reward is compared with the mean and the standard deviation of its own group."""
    for shape in [(3, 5), (4, 4), (1, 2)]:
        advantages = code.function("group_advantages")(rewards(draw, *shape))
        yield f"the advantages for rewards of shape {shape}", within(advantages, **COARSE)


@promise("group_advantages", hint="std + eps, where the root is taken before eps is added.")
def test_eps(code: Student, draw: Draw) -> Cases:
    """eps is added to the standard deviation, and is 1e-4 by default."""
    advantages = code.function("group_advantages")
    yield "the advantages for eps = 0.5", within(advantages(rewards(draw, 3, 5), 0.5), **SUMS)
    small = advantages(1e-3 * rewards(draw, 3, 5))
    yield "the advantages for small rewards, without eps", within(small, **SUMS)


@promise("group_advantages", points=2, hint="0 / 0 is NaN: eps is added to the deviation.")
def test_equal_rewards(code: Student, draw: Draw) -> Cases:
    """The advantages of a group with equal rewards are 0."""
    given = rewards(draw, 3, 4)
    given[draw.size(0, 3)] = float(draw.size(1, 5))
    yield "the advantages", within(code.function("group_advantages")(given), **COARSE)


@promise(
    "group_advantages",
    points=2,
    hint="torch.std of one number is NaN: what is the advantage of a group of one?",
)
def test_group_of_one(code: Student, draw: Draw) -> Cases:
    """The advantage in a group of one is 0, also in float64."""
    given = rewards(draw, 3, 1).double()
    yield "the advantages for groups of one", code.function("group_advantages")(given)


# --- the objective -------------------------------------------------------------------------------


@promise(
    "clipped_objective", points=5, hint="exp(log p - log p_old) * advantage: (completions, length)."
)
def test_objective(code: Student, draw: Draw) -> Cases:
    """Within the clip, the objective is ratio * advantage, with one advantage for each completion."""
    # If both sizes are equal, advantages that are broadcast along the tokens raise no error.
    for length in (LENGTH, COMPLETIONS):
        new, old = pair(draw, inside(draw, length))
        objective = code.function("clipped_objective")(new, old, draw.normal(COMPLETIONS), CLIP)
        shape = (COMPLETIONS, length)
        yield f"the objective for tokens of shape {shape}", any_gradients(within(objective, **SUMS))


@promise(
    "clipped_objective", points=4, hint="torch.minimum of the products, and not of the ratios."
)
def test_clip(code: Student, draw: Draw) -> Cases:
    """Beyond the clip, the objective is the smaller of the two products, whatever the sign of the advantage."""
    for sign, words in ((1, "positive"), (-1, "negative")):
        new, old = pair(draw, beyond(draw))
        advantages = sign * (0.5 + draw.uniform(COMPLETIONS))
        objective = code.function("clipped_objective")(new, old, advantages, CLIP)
        yield f"the objective for {words} advantages", any_gradients(within(objective, **SUMS))


@promise("clipped_objective", hint="clamp(1 - clip, 1 + clip).")
def test_width_of_the_clip(code: Student, draw: Draw) -> Cases:
    """The ratio is clipped at 1 - clip and 1 + clip, and clip is 0.2 by default."""
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0]) * draw.number(0.5, 2.0)
    for clip in ((draw.number(0.22, 0.3),), ()):
        new, old = pair(draw, beyond(draw))
        objective = code.function("clipped_objective")(new, old, advantages, *clip)
        what = f"the objective for clip = {clip[0]:.2f}" if clip else "the objective without clip"
        yield what, any_gradients(within(objective, **SUMS))


@promise(
    "clipped_objective",
    points=4,
    hint="The minimum decides where the gradient is 0. Detach the old log-probabilities and advantages.",
)
def test_objective_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach only log_probs, and are 0 where the clipped product is the smaller one."""
    advantages = draw.leaf("advantages", draw.normal(COMPLETIONS))
    for what, ratios in (("within", inside(draw)), ("beyond", beyond(draw))):
        new, old = pair(draw, ratios)
        new, old = draw.leaf(f"log_probs {what}", new), draw.leaf(f"old_log_probs {what}", old)
        objective = code.function("clipped_objective")(new, old, advantages, CLIP)
        yield f"the objective {what} the clip", within(objective, **SUMS)


# --- the distance from the reference -------------------------------------------------------------


@promise("kl_estimate", points=5, hint="d = reference - log p, and torch.exp(d) - d - 1.")
def test_kl(code: Student, draw: Draw) -> Cases:
    """The estimate is exp(d) - d - 1."""
    estimate = code.function("kl_estimate")(*pair(draw, draw.normal(COMPLETIONS, LENGTH)))
    yield "the estimate", any_gradients(within(estimate, **SUMS))


@promise("kl_estimate", points=3, hint="Detach the reference, and nothing else.")
def test_kl_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach log_probs, but not reference_log_probs."""
    new, reference = pair(draw, draw.normal(COMPLETIONS, LENGTH))
    leaves = draw.leaf("log_probs", new), draw.leaf("reference_log_probs", reference)
    yield "the estimate", within(code.function("kl_estimate")(*leaves), **SUMS)


# --- the loss ------------------------------------------------------------------------------------


@promise("grpo_loss", points=4, hint="The loss falls as the objective grows: -objective.mean().")
def test_loss(code: Student, draw: Draw) -> Cases:
    """Without KL and padding, the loss is minus the mean of the objective."""
    new, old = pair(draw, inside(draw))
    loss = code.function("grpo_loss")(new, old, new, draw.normal(COMPLETIONS), full(), CLIP, 0.0)
    yield "the loss for beta = 0", any_gradients(within(loss, **SUMS))


@promise("grpo_loss", points=3, hint="beta * kl_estimate(log_probs, reference_log_probs), added.")
def test_kl_term(code: Student, draw: Draw) -> Cases:
    """beta times the mean KL estimate is added to the loss."""
    new, reference = pair(draw, draw.normal(COMPLETIONS, LENGTH))
    advantages, beta = torch.zeros(COMPLETIONS), draw.number(0.5, 2.0)
    loss = code.function("grpo_loss")(new, new, reference, advantages, full(), CLIP, beta)
    yield f"the loss for beta = {beta:.2f}", any_gradients(within(loss, **SUMS))


@promise("grpo_loss", points=4, hint="(losses * mask).sum(1) / mask.sum(1): no padding counts.")
def test_mask(code: Student, draw: Draw) -> Cases:
    """Padding does not count: the mean is over the tokens where the mask is True."""
    for length in (2, 5):
        # All completions are equally long: test_completions_count_alike judges how they are averaged.
        mask = (torch.arange(LENGTH) < length).expand(COMPLETIONS, -1)
        yield f"the loss for {length} tokens of {LENGTH}", any_gradients(loss_of(code, draw, mask))


@promise("grpo_loss", points=3, hint="First a mean for each completion, then the mean of these.")
def test_completions_count_alike(code: Student, draw: Draw) -> Cases:
    """A long completion counts as much as a short one."""
    mask = torch.arange(LENGTH) < 1 + draw.permutation(LENGTH)[:COMPLETIONS, None]
    yield "the loss for completions of different lengths", any_gradients(loss_of(code, draw, mask))


@promise("grpo_loss", hint="Hand clip on, and write both defaults into the signature.")
def test_clip_and_defaults(code: Student, draw: Draw) -> Cases:
    """The ratio is clipped at `clip`; the defaults are 0.2 for clip and 0.04 for beta."""
    for settings in ((draw.number(0.22, 0.3), 0.0), ()):
        new, old = pair(draw, beyond(draw))
        given = new, old, new + draw.normal(COMPLETIONS, LENGTH), torch.ones(COMPLETIONS), full()
        loss = code.function("grpo_loss")(*given, *settings)
        what = f"for clip = {settings[0]:.2f}" if settings else "without clip and beta"
        yield f"the loss {what}", any_gradients(within(loss, **SUMS))


@promise("grpo_loss", points=3, hint="No detach, no .item() and no torch.no_grad() on the way.")
def test_loss_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach only log_probs."""
    new, old = pair(draw, inside(draw))
    names = ("log_probs", "old_log_probs", "reference_log_probs", "advantages")
    given = new, old, draw.normal(COMPLETIONS, LENGTH), draw.normal(COMPLETIONS)
    leaves = [draw.leaf(*named) for named in zip(names, given, strict=True)]
    loss = code.function("grpo_loss")(*leaves, full(), CLIP, 1.0)
    yield "the loss", within(loss, **SUMS)


@promise(
    "grpo_loss",
    hint="x[~mask] = 0 writes into the caller's tensor: multiply, or use masked_fill.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """grpo_loss and group_advantages leave their arguments as they are."""
    laws.check_changes_nothing(student, "group_advantages", torch.rand(3, 4))
    tokens = [torch.randn(COMPLETIONS, LENGTH) for _ in range(3)]
    mask = torch.arange(LENGTH) < torch.tensor([[2], [6], [1], [4]])
    laws.check_changes_nothing(student, "grpo_loss", *tokens, torch.randn(COMPLETIONS), mask)


# --- helpers of the tests ------------------------------------------------------------------------


def rewards(draw: Draw, *shape: int) -> Tensor:
    """Draw rewards that differ clearly within each group."""
    order = torch.stack([draw.permutation(shape[1]) for _ in range(shape[0])])
    return order + 0.4 * draw.uniform(*shape) + draw.number(0.5, 2.0)


def pair(draw: Draw, differences: Tensor) -> tuple[Tensor, Tensor]:
    """Draw two tensors of log-probabilities with these differences, the first minus the second."""
    second = -1 - 2 * draw.uniform(*differences.shape)
    return second + differences, second


def inside(draw: Draw, length: int = LENGTH) -> Tensor:
    return draw.uniform(COMPLETIONS, length, low=-INSIDE, high=INSIDE)


def beyond(draw: Draw) -> Tensor:
    """Draw log-ratios outside the clip: in each row, half are above it and half below."""
    size = draw.uniform(COMPLETIONS, LENGTH, low=BEYOND[0], high=BEYOND[1])
    return size * torch.tensor([1, -1]).repeat(LENGTH // 2)


def full() -> Tensor:
    return torch.ones(COMPLETIONS, LENGTH, dtype=torch.bool)


def loss_of(code: Student, draw: Draw, mask: Tensor) -> object:
    """Return the loss with this mask. beta is 1, so that KL counts as much as the objective."""
    new, old = pair(draw, inside(draw))
    given = new, old, new + draw.normal(COMPLETIONS, LENGTH), draw.normal(COMPLETIONS), mask
    return within(code.function("grpo_loss")(*given, CLIP, 1.0), **SUMS)
