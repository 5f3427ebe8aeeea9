"""Tests of to_numpy, td_target, td_loss and soft_update."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise
from grader.judge.student import Student

GAMMA = 0.75
# Rewards this large make up for the values of the probe's Network, which are all below 0.
MEAN_REWARD = 75
PARAMETERS = ("body.weight", "body.bias", "head.weight", "head.bias")
BUFFERS = ("offset", "body.steps")
# The network's parts ("" is the network itself) in two groups, of which one at a time is in training mode.
BODY, ALL_BUT_BODY = ("body",), ("", "head")


# --- to_numpy ------------------------------------------------------------------------------------


@promise(
    "to_numpy",
    points=4,
    hint="x.detach().numpy() has the shape, dtype and values of x, and no graph.",
)
def test_numpy_values(code: Student, draw: Draw) -> Cases:
    """The array has the values, shape and dtype of x, also where x requires a gradient."""
    x, leaf = draw.normal(3, 4, scale=4), draw.normal(3, 4, grad="x")
    for tensor in [leaf, x, x.double(), x.long(), x > 0, x.t(), x[0, 0], torch.zeros(2, 0, 3)]:
        what = f"to_numpy of a tensor of shape {tuple(tensor.shape)} and {tensor.dtype}"
        yield what, exactly(code.function("to_numpy")(tensor))


@promise(
    "to_numpy",
    points=5,
    hint="detach_() and requires_grad_(False) change x; x.detach() is a new tensor.",
)
def test_numpy_leaves_x(code: Student, draw: Draw) -> Cases:
    """x still requires a gradient if it did, and keeps its graph."""
    for x in laws.kinds_of(draw.normal(3, 2)):
        # The array is compared, too, because code that does nothing changes nothing either.
        yield "to_numpy(x)", exactly(laws.check_changes_nothing(code, "to_numpy", x))


# --- td_target -----------------------------------------------------------------------------------


@promise(
    "td_target",
    points=3,
    hint="rewards + gamma * target_net(next_states).amax(1) * ~dones",
)
def test_target_values(code: Student, draw: Draw) -> Cases:
    """The target is the reward plus gamma times the next state's largest value; at the end, only the reward."""
    for shape in ((6, 4), (5, 2, 2)):
        batch, net = new_batch(draw, *shape), code.made("network", draw.seed())
        yield "the target", code.function("td_target")(net, *batch.for_target, GAMMA)


@promise(
    "td_target",
    hint="A tensor of your own takes its dtype from rewards: torch.zeros_like(rewards).",
)
def test_target_in_float64(code: Student, draw: Draw) -> Cases:
    """The target of float64 tensors is computed in float64."""
    batch = new_batch(draw, 6, 4, dtype=torch.float64)
    net = code.made("network", draw.seed(), dtype="float64")
    yield "the target", code.function("td_target")(net, *batch.for_target, GAMMA)


@promise(
    "td_target",
    points=10,
    hint="Compute it under torch.no_grad(), or detach the result.",
    after="test_target_values",
)
def test_target_is_a_constant(code: Student, draw: Draw) -> Cases:
    """The target has no graph, and is not an inference tensor."""
    batch, net = new_batch(draw, 6, 4), code.made("network", draw.seed())
    batch.next_states.requires_grad_()
    target = laws.check_ordinary(code, "td_target", net, *batch.for_target, GAMMA)
    yield "the target", target


@promise(
    "td_target",
    points=2,
    hint="Call neither train(), eval(), requires_grad_() nor zero_grad(): compute the result only.",
)
def test_target_leaves_the_rest(code: Student, draw: Draw) -> Cases:
    """target_net runs in its own modes, and everything is left as it was."""
    for training in (BODY, ALL_BUT_BODY):
        net = code.made("network", draw.seed(), training=training, frozen=["body.bias"])
        arguments = net, *new_batch(draw, 6, 4).for_target, GAMMA
        target = laws.check_changes_nothing(code, "td_target", *arguments)
        yield "the target of a network with a part in training mode", target


@promise(
    "td_target",
    points=2,
    hint="Compare rewards.shape and dones.shape with next_states.shape[:1].",
)
def test_target_shapes(code: Student, draw: Draw) -> Cases:
    """Rewards or dones of another shape than (B,) are a ValueError; B may be 0."""
    net = code.made("network", draw.seed())
    nothing = code.function("td_target")(net, *new_batch(draw, 0, 4).for_target, GAMMA)
    yield "the target for B = 0", nothing
    rewards, states, dones = new_batch(draw, 4, 4).for_target
    shapes = ((4, 1), (1, 4), (5,), ())
    five_rewards, five_dones = torch.ones(5), torch.ones(5, dtype=torch.bool)
    bad = {
        "rewards": [(net, torch.ones(shape), states, dones, GAMMA) for shape in shapes],
        "dones": [(net, rewards, states, torch.ones(shape) > 0, GAMMA) for shape in shapes],
        # Where both are wrong the message may name either.
        "rewards or dones": [(net, five_rewards, states, five_dones, GAMMA)],
    }
    laws.check_errors(code, "td_target", bad)


# --- td_loss -------------------------------------------------------------------------------------

# td_loss may use td_target, which has tests of its own. So in most tests no game ends, gamma is 1 and
# target_net is flat: the target is then the reward, even if td_target has a mistake.


@promise(
    "td_loss",
    points=5,
    hint="net(states).gather(1, actions.unsqueeze(1)).squeeze(1) are the actions' values.",
)
def test_loss_value(code: Student, draw: Draw) -> Cases:
    """The loss is the mean squared difference between the values of the actions and the targets."""
    for shape in ((6, 4), (1, 4), (5, 2, 2)):
        nets = code.made("network", draw.seed()), code.made("network", 0, flat=True)
        batch = new_batch(draw, *shape, ends=False)
        yield "the loss", code.function("td_loss")(*nets, *batch, 1.0)


@promise(
    "td_loss",
    points=4,
    hint="The target is td_target(target_net, rewards, next_states, dones, gamma).",
    after=("test_loss_value", "test_target_values"),
)
def test_loss_target(code: Student, draw: Draw) -> Cases:
    """The target is that of td_target, also at the end of a game."""
    nets = [code.made("network", draw.seed()) for _ in range(2)]
    yield "the loss", code.function("td_loss")(*nets, *new_batch(draw, 6, 4), GAMMA)


@promise(
    "td_loss",
    points=12,
    hint="The prediction keeps its graph; the target has none, even if target_net is net.",
)
def test_loss_gradient(code: Student, draw: Draw) -> Cases:
    """Gradients reach net only through net(states), and none reaches target_net."""
    batch, target_net = new_batch(draw, 6, 4, ends=False), code.made("network", 0, flat=True)
    report = code.run("gradients", code.made("network", draw.seed()), target_net, *batch, 1.0)
    yield "the dict of gradients of net", entry(report, "net")
    what = "the dict of gradients of target_net, where there should be none,"
    yield what, entry(report, "target_net")
    what = "the gradient at next_states, where there should be none,"
    yield what, entry(report, "next_states")
    report = code.run("gradients", target_net, target_net, *batch, 1.0)
    what = "the dict of gradients of a net that is its own target_net"
    yield what, entry(report, "net")


@promise(
    "td_loss",
    points=5,
    hint="Call neither train(), eval(), backward(), zero_grad() nor requires_grad_() here.",
)
def test_loss_leaves_the_rest(code: Student, draw: Draw) -> Cases:
    """Both networks run in their own modes, and everything is left as it was."""
    for training in (BODY, ALL_BUT_BODY):
        net = code.made("network", draw.seed(), training=training, frozen=["head.bias"])
        target_net = code.made("network", 0, flat=True, training=BODY, frozen=["head.bias"])
        batch = new_batch(draw, 6, 4, ends=False)
        loss = laws.check_changes_nothing(code, "td_loss", net, target_net, *batch, 1.0)
        yield "the loss of a network with some parts in training mode", loss


# --- soft_update ---------------------------------------------------------------------------------


@promise(
    "soft_update",
    points=9,
    hint="Under no_grad, for all parameters: target.mul_(1 - tau).add_(own, alpha=tau).",
)
def test_update_values(code: Student, draw: Draw) -> Cases:
    """Every parameter of target_net, frozen or not, becomes (1 - tau) * target + tau * net."""
    for tau, frozen in ((0.125, []), (draw.number(0.6, 0.9), ["head.weight"])):
        target_net = code.made("network", draw.seed(), frozen=frozen)
        net = code.made("network", draw.seed(), frozen=["body.bias"])
        yield "target_net's parameters after the update", updated(code, target_net, net, tau)


@promise(
    "soft_update",
    hint="Write into the tensors as they are: no .float(), no dtype.",
    after="test_update_values",
)
def test_update_in_float64(code: Student, draw: Draw) -> Cases:
    """The update of float64 networks is computed in float64."""
    target_net, net = (code.made("network", draw.seed(), dtype="float64") for _ in range(2))
    for name, values in updated(code, target_net, net, draw.number(0.1, 0.9)).items():
        yield f"target_net's {name} after the update", values


@promise(
    "soft_update",
    points=3,
    hint="buffer.copy_(new) for each pair of buffers(): they are copied, not mixed.",
)
def test_update_of_buffers(code: Student, draw: Draw) -> Cases:
    """Every buffer becomes a copy of net's, whatever tau is."""
    for tau in (0.25, 0.0, 1.0):
        nets = [code.made("network", draw.seed()) for _ in range(2)]
        seen = laws.observe(code, "soft_update", *nets, tau).checked()
        after = {name: seen.after(0, "buffers", name, "values") for name in BUFFERS}
        yield f"the dict of target_net's buffers after tau = {tau}", after


@promise(
    "soft_update",
    points=5,
    hint="Write into the tensors under no_grad: copy_, lerp_, or mul_ and add_.",
    after="test_update_values",
)
def test_update_in_place(student: Student) -> None:
    """The parameters stay the same objects, in their own memory, and net does not change."""
    target_net = student.made("network", 0, training=BODY, frozen=["body.weight"])
    net = student.made("network", 1, training=ALL_BUT_BODY, frozen=["head.bias"])
    allow = ("0.values", "0.buffers")
    for tau in (0.5, 1.0):
        laws.check_changes_nothing(student, "soft_update", target_net, net, tau, allow=allow)
        seen = laws.observe(student, "soft_update", target_net, net, tau).checked()
        memory = [entry(fact, "storage", 0, kind=int) for fact in facts(seen, 1)]
        for fact in facts(seen, 0):
            shares = entry(fact, "storage", 0, kind=int) in memory
            assert not shares, "target_net shares memory with net: copy the values."
            is_ordinary = entry(fact, "inference") is False
            assert is_ordinary, "target_net has an inference tensor after the update: use no_grad."


@promise(
    "soft_update",
    points=2,
    hint="Check tau in the first line: if not 0 <= tau <= 1.",
)
def test_update_tau(student: Student) -> None:
    """A tau outside 0..1 is a ValueError, before anything changes."""
    nets = [student.made("network", seed) for seed in range(2)]
    bad = {"tau": [(*nets, -0.125), (*nets, 1.0625)]}
    laws.check_errors(student, "soft_update", bad, fine=(*nets, 0.5))
    laws.check_changes_nothing(student, "soft_update", *nets, 1.0625, raises=ValueError)


# --- helpers of the tests ------------------------------------------------------------------------


class Batch(NamedTuple):
    """Transitions, with the fields in the order of td_loss's arguments."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    dones: Tensor

    @property
    def for_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """The fields that td_target takes, in its order."""
        return self.rewards, self.next_states, self.dones


def new_batch(
    draw: Draw, *shape: int, dtype: torch.dtype = torch.float32, ends: bool = True
) -> Batch:
    """Draw transitions with states of this shape. If `ends`, every third one is the last of its game."""
    rows = shape[0]
    return Batch(
        states=draw.normal(*shape, dtype=dtype),
        actions=draw.integers(rows, high=3),
        rewards=draw.normal(rows, dtype=dtype, scale=3) + MEAN_REWARD,
        next_states=draw.normal(*shape, dtype=dtype),
        dones=(torch.arange(rows) % 3 == 1) & ends,
    )


def updated(code: Student, target_net: Any, net: Any, tau: float) -> dict[str, Any]:
    """Return the parameters of target_net after an update."""
    seen = laws.observe(code, "soft_update", target_net, net, tau).checked()
    return {name: seen.after(0, "parameters", name, "values") for name in PARAMETERS}


def facts(seen: laws.Observation, position: int) -> list[Any]:
    """Return the facts observed of each parameter and buffer of the network at this position."""
    parameters = entry(seen.after(position, "parameters"), kind=dict)
    return [*parameters.values(), *entry(seen.after(position, "buffers"), kind=dict).values()]
