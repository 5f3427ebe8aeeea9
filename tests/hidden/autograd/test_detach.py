"""What to_numpy, td_target, td_loss and soft_update promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.outcomes import StudentError
from grader.judge.student import Student

State = dict[str, Tensor]
GAMMA = 0.75
# The probe's Network: 4 inputs, 5 hidden units, 3 actions.
SHAPES = {"body.weight": (5, 4), "body.bias": (5,), "head.weight": (3, 5), "head.bias": (3,)}
BUFFERS = ("offset", "body.steps")
# What its body and the network itself do to their values in training mode only.
BODY_FACTOR, NETWORK_SHIFT = 1.5, 0.25
# Its parts ("" is the network itself) in two halves: one at a time is in training mode.
BODY, ALL_BUT_BODY = ("body",), ("", "head")
# The network's values are all below 0, and the rewards make up for it: what is rounded to float32 shows.
MEAN_VALUE, MEAN_REWARD = -100, 75
# A td_target with a mistake is off by less than this; anything farther off is no target at all.
FAR_OFF = 500.0


# --- to_numpy ------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("to_numpy")
@pytest.mark.hint("x.detach().numpy() has the shape, dtype and values of x, and no graph.")
def test_numpy_values(student: Student) -> None:
    """The array has the values, shape and dtype of x, also where x requires a gradient."""
    x = 4 * torch.randn(3, 4)
    kinds = [x, x.double(), x.long(), x > 0, x.t(), torch.randn(()), torch.zeros(2, 0, 3)]
    for tensor in [x.clone().requires_grad_(), *kinds]:
        what = f"to_numpy of a tensor of shape {tuple(tensor.shape)} and {tensor.dtype}"
        assert_equal(student.function("to_numpy")(tensor), tensor.detach().numpy(), what=what)


@pytest.mark.points(5)
@pytest.mark.place("to_numpy")
@pytest.mark.hint("detach_() and requires_grad_(False) change x; x.detach() is a new tensor.")
def test_numpy_leaves_x(student: Student) -> None:
    """x still requires a gradient if it did, and keeps its graph."""
    for x in laws.kinds_of(torch.randn(3, 2)):
        array = laws.check_changes_nothing(student, "to_numpy", x)
        # What does nothing changes nothing, and earns nothing.
        assert_equal(array, x.detach().numpy(), what="to_numpy(x)")


# --- td_target -----------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("td_target")
@pytest.mark.hint("rewards + gamma * target_net(next_states).amax(1) * ~dones")
def test_target_values(student: Student) -> None:
    """The target is reward plus gamma times the next state's largest value, or reward alone."""
    for shape in ((6, 4), (5, 2, 2)):
        state, batch = new_state(), new_batch(*shape)
        net = student.made("network", state)
        target = student.function("td_target")(net, *batch.for_target, GAMMA)
        assert_close(target, target_of(state, batch), what="the target")


@pytest.mark.place("td_target")
@pytest.mark.hint("A tensor of your own takes its dtype from rewards: torch.zeros_like(rewards).")
def test_target_in_float64(student: Student) -> None:
    """The target of float64 tensors is computed in float64."""
    state, batch = new_state(torch.float64), new_batch(6, 4, dtype=torch.float64)
    target = student.function("td_target")(student.made("network", state), *batch.for_target, GAMMA)
    laws.check_float64(target, target_of(state, batch), what="the target")


@pytest.mark.points(10)
@pytest.mark.requires("test_target_values")
@pytest.mark.place("td_target")
@pytest.mark.hint("Compute it under torch.no_grad(), or detach the result.")
def test_target_is_a_constant(student: Student) -> None:
    """The target has no graph, and is not an inference tensor."""
    state, batch = new_state(), new_batch(6, 4)
    batch.next_states.requires_grad_()
    net = student.made("network", state)
    laws.check_ordinary(student, "td_target", net, *batch.for_target, GAMMA)


@pytest.mark.points(2)
@pytest.mark.place("td_target")
@pytest.mark.hint(
    "Call neither train(), eval(), requires_grad_() nor zero_grad(): compute the result only."
)
def test_target_leaves_the_rest(student: Student) -> None:
    """target_net runs in its own modes, and everything is left as it was."""
    for training in (BODY, ALL_BUT_BODY):
        state, batch = new_state(), new_batch(6, 4)
        net = student.made("network", state, training=training, frozen=["body.bias"])
        arguments = net, *batch.for_target, GAMMA
        target = laws.check_changes_nothing(student, "td_target", *arguments)
        what = "the target of a network of which a part is in training mode"
        assert_close(target, target_of(state, batch, training), what=what)


@pytest.mark.points(2)
@pytest.mark.place("td_target")
@pytest.mark.hint("Compare rewards.shape and dones.shape with next_states.shape[:1].")
def test_target_shapes(student: Student) -> None:
    """Rewards or dones whose shape is not (B,) are a ValueError; B may be 0."""
    net = student.made("network", new_state())
    for rows in (0, 4):
        target = student.function("td_target")(net, *new_batch(rows, 4).for_target, GAMMA)
        what = f"the target for B = {rows}"
        assert_tensor(target, shape=(rows,), dtype=torch.float32, what=what)
    rewards, states, dones = new_batch(4, 4).for_target
    shapes = ((4, 1), (1, 4), (5,), ())
    five_rewards, five_dones = torch.ones(5), torch.ones(5, dtype=torch.bool)
    bad = {
        "rewards": [(net, torch.ones(shape), states, dones, GAMMA) for shape in shapes],
        "dones": [(net, rewards, states, torch.ones(shape) > 0, GAMMA) for shape in shapes],
        # Where both are wrong the message may name either.
        "rewards or dones": [(net, five_rewards, states, five_dones, GAMMA)],
    }
    laws.check_errors(student, "td_target", bad)


# --- td_loss -------------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("td_loss")
@pytest.mark.hint("net(states).gather(1, actions.unsqueeze(1)).squeeze(1) are the actions' values.")
def test_loss_value(student: Student) -> None:
    """The loss is the mean squared difference between the values of the actions and the targets."""
    for shape in ((6, 4), (1, 4), (5, 2, 2)):
        state, target_state, batch = new_state(), new_state(), new_batch(*shape)
        nets = [student.made("network", values) for values in (state, target_state)]
        loss = student.function("td_loss")(*nets, *batch, GAMMA)
        target = own_target(student, target_state, batch)
        assert_close(loss, F.mse_loss(predicted(state, batch), target), what="the loss")


@pytest.mark.points(12)
@pytest.mark.place("td_loss")
@pytest.mark.hint("The prediction keeps its graph; the target has none, even if target_net is net.")
def test_loss_gradient(student: Student) -> None:
    """Gradients reach net, through net(states) only, and none reaches target_net."""
    state, target_state, batch = new_state(), new_state(), new_batch(6, 4)
    net, target_net = (student.made("network", values) for values in (state, target_state))
    report = student.run("gradients", net, target_net, *batch, GAMMA)
    right = gradients_at(state, batch, own_target(student, target_state, batch))
    assert_close(entry(report, "net"), right, what="net's dict of gradients")
    what = "target_net's dict of gradients, where there should be none,"
    assert_equal(entry(report, "target_net"), dict.fromkeys(SHAPES), what=what)
    what = "the gradient at next_states, where there should be none,"
    assert_equal(entry(report, "next_states"), None, what=what)
    report = student.run("gradients", net, net, *batch, GAMMA)
    right = gradients_at(state, batch, own_target(student, state, batch))
    what = "the dict of gradients of a net that is its own target_net"
    assert_close(entry(report, "net"), right, what=what)


@pytest.mark.points(5)
@pytest.mark.place("td_loss")
@pytest.mark.hint(
    "Call neither train(), eval(), backward(), zero_grad() nor requires_grad_() here."
)
def test_loss_leaves_the_rest(student: Student) -> None:
    """Both networks run in their own modes, and everything is left as it was."""
    for training, target_training in ((BODY, ALL_BUT_BODY), (ALL_BUT_BODY, BODY)):
        state, target_state, batch = new_state(), new_state(), new_batch(6, 4)
        frozen = ["head.bias"]
        nets = [
            student.made("network", state, training=training, frozen=frozen),
            student.made("network", target_state, training=target_training, frozen=frozen),
        ]
        loss = laws.check_changes_nothing(student, "td_loss", *nets, *batch, GAMMA)
        target = own_target(student, target_state, batch, target_training)
        what = "the loss of networks of which some parts are in training mode"
        assert_close(loss, F.mse_loss(predicted(state, batch, training), target), what=what)


# --- soft_update ---------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("soft_update")
@pytest.mark.hint("Under no_grad, for all parameters: target.mul_(1 - tau).add_(own, alpha=tau).")
def test_update_values(student: Student) -> None:
    """Every parameter of target_net, frozen or not, becomes (1 - tau) * target + tau * net."""
    for tau, frozen in ((0.125, []), (random.uniform(0.6, 0.9), ["head.weight"])):
        target_state, state = new_state(torch.float64), new_state(torch.float64)
        target_net = student.made("network", target_state, frozen=frozen)
        net = student.made("network", state, frozen=["body.bias"])
        seen = laws.observe(student, "soft_update", target_net, net, tau).checked()
        for name in SHAPES:
            right = (1 - tau) * target_state[name] + tau * state[name]
            after = seen.after(0, "parameters", name, "values")
            laws.check_float64(after, right, what=f"target_net's {name} after the update")


@pytest.mark.points(3)
@pytest.mark.place("soft_update")
@pytest.mark.hint("buffer.copy_(new) for each pair of buffers(): they are copied, not mixed.")
def test_update_of_buffers(student: Student) -> None:
    """Every buffer becomes that of net, whatever tau is."""
    for tau in (0.25, 0.0, 1.0):
        state = new_state()
        target_net, net = student.made("network", new_state()), student.made("network", state)
        seen = laws.observe(student, "soft_update", target_net, net, tau).checked()
        after = {name: seen.after(0, "buffers", name, "values") for name in BUFFERS}
        what = f"the dict of target_net's buffers after tau = {tau}"
        assert_close(after, {name: state[name] for name in BUFFERS}, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_update_values")
@pytest.mark.place("soft_update")
@pytest.mark.hint("Write into the tensors under no_grad: copy_, lerp_, or mul_ and add_.")
def test_update_in_place(student: Student) -> None:
    """The parameters stay the same objects, in their own memory, and net does not change."""
    target_net = student.made("network", new_state(), training=BODY, frozen=["body.weight"])
    net = student.made("network", new_state(), training=ALL_BUT_BODY, frozen=["head.bias"])
    allow = ("0.values", "0.buffers")
    for tau in (0.5, 1.0):
        laws.check_changes_nothing(student, "soft_update", target_net, net, tau, allow=allow)
        seen = laws.observe(student, "soft_update", target_net, net, tau).checked()
        memory = [entry(fact, "storage", 0, kind=int) for fact in facts(seen, 1).values()]
        for name, fact in facts(seen, 0).items():
            what = f"After tau = {tau} target_net's {name} is"
            assert entry(fact, "storage", 0, kind=int) not in memory, f"{what} net's memory: copy."
            assert entry(fact, "inference") is False, f"{what} an inference tensor: use no_grad."


@pytest.mark.points(2)
@pytest.mark.place("soft_update")
@pytest.mark.hint("Check tau in the first line: if not 0 <= tau <= 1.")
def test_update_tau(student: Student) -> None:
    """A tau outside 0..1 is a ValueError, before anything changes."""
    nets = [student.made("network", new_state()) for _ in range(2)]
    bad = {"tau": [(*nets, -0.125), (*nets, 1.0625)]}
    laws.check_errors(student, "soft_update", bad, fine=(*nets, 0.5))
    laws.check_changes_nothing(student, "soft_update", *nets, 1.0625, raises=ValueError)


# --- what goes in ----------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Some transitions, in the order in which td_loss takes them."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    dones: Tensor

    @property
    def for_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """What td_target takes of them, in its order."""
        return self.rewards, self.next_states, self.dones


def new_batch(*shape: int, dtype: torch.dtype = torch.float32) -> Batch:
    """Transitions with states of this shape; every third one is the last of its game."""
    rows = shape[0]
    return Batch(
        states=torch.randn(shape, dtype=dtype),
        actions=torch.randint(3, (rows,)),
        rewards=torch.randn(rows, dtype=dtype) * 3 + MEAN_REWARD,
        next_states=torch.randn(shape, dtype=dtype),
        dones=torch.arange(rows) % 3 == 1,
    )


def new_state(dtype: torch.dtype = torch.float32) -> State:
    """A state of the probe's Network."""
    state = {name: torch.randn(shape, dtype=dtype) for name, shape in SHAPES.items()}
    offset, steps = torch.randn(3, dtype=dtype) + MEAN_VALUE, torch.randint(1, 1000, ())
    return {**state, "offset": offset, "body.steps": steps}


# --- what should come out --------------------------------------------------------------------------


def values_of(state: State, states: Tensor, training: Sequence[str] = ()) -> Tensor:
    """What the probe's Network gives, with these of its parts in training mode."""
    x = states.movedim(1, -1).flatten(1)
    hidden = F.linear(x, state["body.weight"], state["body.bias"]).tanh()
    if "body" in training:
        hidden = hidden * BODY_FACTOR
    values = F.linear(hidden, state["head.weight"], state["head.bias"]) + state["offset"]
    return values + NETWORK_SHIFT if "" in training else values


def predicted(state: State, batch: Batch, training: Sequence[str] = ()) -> Tensor:
    """The values of the actions taken."""
    values = values_of(state, batch.states, training)
    return values[torch.arange(len(values)), batch.actions]


def target_of(state: State, batch: Batch, training: Sequence[str] = ()) -> Tensor:
    future = values_of(state, batch.next_states, training).amax(1)
    return batch.rewards + GAMMA * future * ~batch.dones


def gradients_at(state: State, batch: Batch, target: Tensor) -> State:
    """The gradients of the loss at a network of this state, where the target is a constant."""
    leaves = {name: state[name].clone().requires_grad_() for name in SHAPES}
    loss = F.mse_loss(predicted({**state, **leaves}, batch), target)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    return dict(zip(leaves, gradients, strict=True))


def own_target(
    student: Student, state: State, batch: Batch, training: Sequence[str] = ()
) -> Tensor:
    """What td_loss should learn from: what the student's own td_target gives, with its mistakes.

    td_loss may rely on it, and other tests judge td_target. Where it gives no target at all, the right one
    takes its place.
    """
    right = target_of(state, batch, training)
    net = student.made("network", state, training=training)
    try:
        target = student.function("td_target")(net, *batch.for_target, GAMMA)
    except StudentError:
        return right
    if not isinstance(target, Tensor) or target.shape != right.shape:
        return right
    target = target.detach().to(right.dtype)
    # A NaN is not near either.
    is_near = bool(((target - right).abs() < FAR_OFF).all())
    return target if is_near else right


def facts(seen: laws.Observation, position: int) -> dict[str, Any]:
    """What was seen of the parameters and buffers of the network at this position."""
    parameters = entry(seen.after(position, "parameters"), kind=dict)
    return {**parameters, **entry(seen.after(position, "buffers"), kind=dict)}
