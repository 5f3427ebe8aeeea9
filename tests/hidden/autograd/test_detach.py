"""What to_numpy, td_target, td_loss and soft_update promise, sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.outcomes import StudentError
from grader.judge.student import Student

State = dict[str, Tensor]
Names = Sequence[str]
GAMMA = 0.75
# The parts of a network that are in training mode: none, all, one, some ("" is the network itself).
MODES: list[Names] = [(), ("", "body", "head"), ("body",), ("", "head")]


@pytest.mark.points(5)
@pytest.mark.place("to_numpy")
@pytest.mark.hint("detach_() and requires_grad_(False) change x; x.detach() is a new tensor.")
def test_numpy_leaves_x(student: Student) -> None:
    """x still requires a gradient if it did, and keeps its graph."""
    told = "Afterwards x is not what it was: detach() makes a new tensor, detach_() changes x."
    for x in reversed(laws.kinds_of(torch.randn(3, 2))):
        laws.check_changes_nothing(student, "to_numpy", x, told=told)
        leaf = laws.observe(student, "to_numpy", x).checked().after(0, "leaf")
        assert leaf is x.is_leaf, told
        check_array(student, x)  # what does nothing changes nothing


@pytest.mark.points(4)
@pytest.mark.place("to_numpy")
@pytest.mark.hint("x.detach().numpy() has the shape, dtype and values of x, and no graph.")
def test_numpy_values(student: Student) -> None:
    """The array has the values, shape and dtype of x, also where x requires a gradient."""
    for shape in ((3, 4), (), (2, 0, 3)):
        numbers = torch.randn(shape, dtype=torch.float64) * 4
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
            check_array(student, numbers.to(dtype))
        for x in laws.kinds_of(numbers):
            check_array(student, x)
    for x in laws.layouts_of(torch.randn(3, 4)).values():
        check_array(student, x)


@pytest.mark.points(4)
@pytest.mark.place("td_target")
@pytest.mark.hint("rewards + gamma * target_net(next_states).amax(1) * ~dones")
def test_target_values(student: Student) -> None:
    """The target is reward plus gamma times the next state's largest value, or reward alone."""
    for shape in ((6, 4), (5, 2, 2), (1, 4)):
        _, rewards, later, dones = batch(*shape)
        for ended in (torch.arange(shape[0]) % 3 == 1, dones & False, dones | True):
            check_target(student, rewards, later, ended)


@pytest.mark.points(10)
@pytest.mark.requires("test_target_values")
@pytest.mark.place("td_target")
@pytest.mark.hint("Compute it under torch.no_grad(), or detach the result.")
def test_target_is_a_constant(student: Student) -> None:
    """The target has no graph, and is not an inference tensor."""
    _, rewards, later, dones = batch(6, 4)
    for x in laws.kinds_of(later):
        net = made(student, new_state())
        laws.check_ordinary(student, "td_target", net, rewards, x, dones, GAMMA)


@pytest.mark.points(2)
@pytest.mark.place("td_target")
@pytest.mark.hint(
    "Call neither train(), eval(), requires_grad_() nor zero_grad(): compute the result only."
)
def test_target_leaves_the_rest(student: Student) -> None:
    """target_net runs in its own modes, and everything is left as it was."""
    for training, x in zip(MODES, laws.kinds_of(torch.randn(6, 4).double()), strict=True):
        _, rewards, _, dones = batch(6, 4)
        check_target(student, rewards, x.detach(), dones, training=training)
        options = {"training": list(training), "frozen": ["body.bias"] if training else []}
        net = student.made("network", new_state(), stale=True, **options)
        laws.check_changes_nothing(student, "td_target", net, rewards, x, dones, GAMMA)


@pytest.mark.points(2)
@pytest.mark.place("td_target")
@pytest.mark.hint("Compare rewards.shape and dones.shape with next_states.shape[:1].")
def test_target_shapes(student: Student) -> None:
    """Rewards or dones whose shape is not (B,) are a ValueError; B may be 0."""
    net = made(student, new_state(torch.float32))
    for n in (4, 1, 0):
        _, rewards, later, dones = batch(n, 4, dtype=torch.float32)
        target = student.function("td_target")(net, rewards, later, dones, GAMMA)
        assert_tensor(target, shape=(n,), dtype=torch.float32, what=f"the target for B = {n}")
        shapes = sorted({(n, 1), (1, n), (n + 1,), (), (4 - n,)} - {(n,)})
        wrong = [(torch.ones(shape), torch.ones(shape) > 0) for shape in shapes]
        bad = {
            "rewards": [(net, values, later, dones, GAMMA) for values, _ in wrong],
            "dones": [(net, rewards, later, ends, GAMMA) for _, ends in wrong],
            "rewards or dones": [(net, values, later, ends, GAMMA) for values, ends in wrong],
        }
        laws.check_errors(student, "td_target", bad)


@pytest.mark.points(5)
@pytest.mark.place("td_loss")
@pytest.mark.hint("net(states).gather(1, actions.unsqueeze(1)).squeeze(1) are the actions' values.")
def test_loss_value(student: Student) -> None:
    """The loss is the mean squared difference between the values of the actions and the targets."""
    for shape in ((6, 4), (1, 4), (5, 2, 2)):
        Case(*shape).check_loss(student)


@pytest.mark.points(12)
@pytest.mark.place("td_loss")
@pytest.mark.hint("The prediction keeps its graph; the target has none, even if target_net is net.")
def test_loss_gradient(student: Student) -> None:
    """Gradients reach net, through net(states) only, and none reaches target_net."""
    for case in (Case(6, 4), Case(5, 2, 2), Case(6, 4, one=True)):
        case.check_gradients(student)


@pytest.mark.points(5)
@pytest.mark.place("td_loss")
@pytest.mark.hint(
    "Call neither train(), eval(), backward(), zero_grad() nor requires_grad_() here."
)
def test_loss_leaves_the_rest(student: Student) -> None:
    """Both networks run in their own modes, and everything is left as it was."""
    for modes in zip(MODES, reversed(MODES), strict=True):
        case = Case(6, 4, modes=modes)
        case.check_loss(student)
        arguments = case.arguments(student, stale=True, frozen=["head.bias"])
        laws.check_changes_nothing(student, "td_loss", *arguments)


@pytest.mark.points(10)
@pytest.mark.place("soft_update")
@pytest.mark.hint("Under no_grad, for all parameters: target.mul_(1 - tau).add_(own, alpha=tau).")
def test_update_values(student: Student) -> None:
    """Every parameter of target_net, frozen or not, becomes (1 - tau) * target + tau * net."""
    for tau, frozen in ((0.125, []), (0.7, ["head.weight"]), (0, []), (1, list(SHAPES))):
        target, own = new_state(), new_state()
        nets = made(student, target, frozen), made(student, own, ["body.bias"])
        seen = laws.observe(student, "soft_update", *nets, tau).checked()
        right = mixed(target, own, tau)
        after = {name: seen.after(0, "parameters", name, "values") for name in SHAPES}
        what = f"the dict of target_net's parameters after tau = {tau}"
        assert_close(after, right, what=what)
        laws.check_float64(after["head.bias"], right["head.bias"], what="target_net's head.bias")


@pytest.mark.points(3)
@pytest.mark.place("soft_update")
@pytest.mark.hint("buffer.copy_(new) for each pair of buffers(): they are copied, not mixed.")
def test_update_of_buffers(student: Student) -> None:
    """Every buffer becomes that of net, whatever tau is."""
    for tau in (0.25, 0.0, 1.0):
        old, new = new_state(), new_state()
        nets = made(student, old), made(student, new)
        seen = laws.observe(student, "soft_update", *nets, tau).checked()
        buffers = [seen.after(0, "buffers", name, "values") for name in BUFFERS]
        (_x, _n), (y, m) = ([state[name] for name in BUFFERS] for state in (old, new))
        what = f"the list of target_net's buffers {BUFFERS} after tau = {tau}"
        assert_close(buffers, [y, m], what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_update_values")
@pytest.mark.place("soft_update")
@pytest.mark.hint("Write into the tensors under no_grad: copy_, lerp_, or mul_ and add_.")
def test_update_in_place(student: Student) -> None:
    """The parameters stay the same objects and leaves, in their own memory, and net does not change."""
    inference = "is now an inference tensor, which no training can change: update under no_grad."
    for training, tau in zip(MODES[1:], (1.0, 0.5, 0.0), strict=True):
        nets = [
            student.made("network", new_state(), training=list(mode), frozen=frozen, stale=True)
            for mode, frozen in ((training, ["body.weight"]), (["head"], ["head.bias"]))
        ]
        allow = ("0.values", "0.buffers")
        laws.check_changes_nothing(student, "soft_update", *nets, tau, allow=allow)
        seen = laws.observe(student, "soft_update", *nets, tau).checked()
        memory = [entry(fact, "storage", 0, kind=int) for fact in facts(seen, 1).values()]
        for name, fact in facts(seen, 0).items():
            told = f"After tau = {tau} target_net's {name} is net's memory: copy the values."
            assert entry(fact, "storage", 0, kind=int) not in memory, told
            assert entry(fact, "leaf") is True, f"target_net's {name} is now in a graph: no_grad."
            assert entry(fact, "inference") is False, f"target_net's {name} {inference}"


@pytest.mark.points(2)
@pytest.mark.place("soft_update")
@pytest.mark.hint("Check tau in the first line: if not 0 <= tau <= 1.")
def test_update_tau(student: Student) -> None:
    """A tau outside 0..1 is a ValueError, before anything changes."""
    nets = [made(student, new_state()) for _ in range(2)]
    for tau in (-0.125, 1.0625):
        laws.check_errors(student, "soft_update", {"tau": [(*nets, tau)]}, fine=(*nets, 0.5))
        laws.check_changes_nothing(student, "soft_update", *nets, tau, raises=ValueError)


# --- locally -------------------------------------------------------------------------------------

BUFFERS = ("offset", "body.steps")
SHAPES = {"body.weight": (5, 4), "body.bias": (5,), "head.weight": (3, 5), "head.bias": (3,)}


def new_state(dtype: torch.dtype = torch.float64) -> State:
    """A state of the probe's Network, of 4 inputs, 5 hidden units and 3 actions."""
    state = {name: torch.randn(shape, dtype=dtype) for name, shape in SHAPES.items()}
    # Values are below 0, and rewards make up for it: what is rounded to float32 shows.
    buffers = torch.randn(3, dtype=dtype) - 100, torch.randint(1, 1000, ())
    return state | dict(zip(BUFFERS, buffers, strict=True))


def values_of(state: State, states: Tensor, training: Names = ()) -> Tensor:
    """What the probe's Network gives, with these of its parts in training mode."""
    x, factor = states.movedim(1, -1).flatten(1), 1.5 if "body" in training else 1
    hidden = F.linear(x, state["body.weight"], state["body.bias"]).tanh() * factor
    values = F.linear(hidden, state["head.weight"], state["head.bias"]) + state["offset"]
    return values + 0.25 if "" in training else values


def batch(*shape: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """States, rewards, next states, and dones of which about a third are True."""
    states, later = (torch.randn(shape, dtype=dtype) for _ in range(2))
    return states, torch.randn(shape[0], dtype=dtype) * 3 + 75, later, torch.rand(shape[0]) < 0.35


def check_array(student: Student, x: Tensor) -> None:
    value = laws.observe(student, "to_numpy", x).checked().value
    kind = f"to_numpy of a tensor of shape {tuple(x.shape)} and {x.dtype}"
    assert isinstance(value, np.ndarray), f"{kind} is not a NumPy array: x.detach().numpy() is one."
    assert_equal(value, x.detach().numpy(), what=kind)


def target_of(state: State, batch: Sequence[Tensor], training: Names = ()) -> Tensor:
    rewards, later, dones = batch
    return rewards + GAMMA * values_of(state, later, training).amax(1) * ~dones


def check_target(student: Student, *batch: Tensor, training: Names = ()) -> None:
    """The target of a new network is right."""
    state, later = new_state(), batch[1]
    network = student.made("network", state, training=list(training))
    target = student.function("td_target")(network, *batch, GAMMA)
    if isinstance(target, Tensor) and len(later) != 3:
        batchwise = "the maximum is taken over the batch, not over the actions (dim=1)"
        assert target.shape != (3,), f"The target has shape (3,), one for each action: {batchwise}."
    right = target_of(state, batch, training)
    laws.check_float64(target, right, what="the target")


class Case:
    """Two networks and a batch of transitions, and what td_loss should make of them."""

    def __init__(self, *shape: int, one: bool = False, modes: Sequence[Names] = ((), ())) -> None:
        self.net = new_state()
        self.target_net = self.net if one else new_state()
        self.one, self.modes = one, modes
        self.states, *self.batch = batch(*shape)
        self.actions = torch.randint(3, shape[:1])
        self.target: Tensor | None = None

    def arguments(self, student: Student, **options: Any) -> list[Any]:
        states = zip((self.net, self.target_net), self.modes, strict=True)
        nets = [student.made("network", s, training=list(mode), **options) for s, mode in states]
        rewards, later, dones = self.batch
        own = nets[0], nets[0] if self.one else nets[1]
        return [*own, self.states, self.actions, rewards, later, dones, GAMMA]

    def predicted(self, state: State, mode: Names = ()) -> Tensor:
        return values_of(state, self.states, mode)[torch.arange(len(self.states)), self.actions]

    def loss(self, modes: Sequence[Names] | None = None) -> Tensor:
        own, others = modes or self.modes
        target = self.target
        if target is None:
            target = target_of(self.target_net, self.batch, others)
        return F.mse_loss(self.predicted(self.net, own), target)

    def check_loss(self, student: Student) -> None:
        """The loss is right."""
        value = laws.observe(student, "td_loss", *self.arguments(student)).checked().value
        if not self.follows_own_target(student, value):
            assert_close(value, self.loss(), what="the loss")

    def follows_own_target(self, student: Student, loss: Any) -> bool:
        """Whether the loss is right but for a wrong td_target, which has tests of its own.

        From then on that target is the one of this case, so that gradients are compared with it, too.
        """
        if not isinstance(loss, Tensor) or loss.shape != () or loss.dtype != torch.float64:
            return False
        if self.is_loss(loss):
            return True
        _, target_net, _, _, *others = self.arguments(student)
        try:
            target = student.function("td_target")(target_net, *others)
        except StudentError:
            return False
        if not isinstance(target, Tensor) or target.shape != self.actions.shape:
            return False
        if not target.is_floating_point():
            return False
        self.target = target.detach().double()
        if not self.is_loss(loss):
            self.target = None
        return self.target is not None

    def is_loss(self, loss: Tensor) -> bool:
        return torch.allclose(loss, self.loss(), rtol=1e-12, atol=1e-12)

    def slopes(self) -> dict[str, Tensor]:
        """The gradients at net through the prediction alone, or through the target as well."""
        net = {name: self.net[name].clone().requires_grad_() for name in SHAPES}
        state = {**self.net, **net}
        target = target_of(state if self.one else self.target_net, self.batch)
        if self.target is not None:
            target = self.target
        loss = F.mse_loss(self.predicted(state), target.detach())
        return dict(zip(net, torch.autograd.grad(loss, list(net.values())), strict=True))

    def check_gradients(self, student: Student) -> None:
        """The gradients at net are right, and there are no others but at states."""
        report = student.run("gradients", *self.arguments(student))
        constant = "the target has to be a constant, by torch.no_grad() or detach()."
        if not self.follows_own_target(student, entry(report, "loss")):
            assert_close(entry(report, "loss"), self.loss(), what="the loss")
        told = "The loss has no graph: only the target is a constant, net(states) is not."
        assert entry(report, "graph") is True, told
        for name, gradient in entry(report, "target_net", kind=dict).items():
            assert gradient is None, f"A gradient reaches target_net's {name}: {constant}"
        later = entry(report, "states", "next_states")
        assert later is None, f"A gradient reaches next_states: {constant}"
        assert_close(entry(report, "net"), self.slopes(), what="net's dict of gradients")


def made(student: Student, state: State, frozen: Sequence[str] = ()) -> Any:
    return student.made("network", state, frozen=list(frozen))


def facts(seen: laws.Observation, i: int, *kinds: str) -> dict[str, Any]:
    """What was seen of the i-th network's parameters and buffers."""
    parts = [entry(seen.after(i, k), kind=dict) for k in kinds or ("parameters", "buffers")]
    return {name: fact for part in parts for name, fact in part.items()}


def mixed(target: State, own: State, tau: float) -> State:
    return {name: (1 - tau) * target[name] + tau * own[name] for name in SHAPES}
