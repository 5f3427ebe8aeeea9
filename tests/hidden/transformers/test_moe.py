"""Tests of a mixture of experts, and of the loss that balances it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, entry, laws, promise, raises, within
from grader.judge.student import Student

DIM, EXPERTS, TOKENS = 5, 4, 12
# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}
NO_PAIR = "forward does not return a pair: the output, and the router's scores."


# --- the layer -----------------------------------------------------------------------------------


@promise(
    "MoE.__init__",
    points=2,
    hint="nn.Linear(dim, experts, bias=False) and nn.ModuleList(Expert(dim) for ...).",
)
def test_parameters(student: Student) -> None:
    """The layer has a router without bias and a list of experts, and nothing else."""
    shapes: dict[str, tuple[int, ...]] = {"router.weight": (2, 3)}
    for i in range(2):
        shapes |= {f"experts.{i}.up.weight": (6, 3), f"experts.{i}.up.bias": (6,)}
        shapes |= {f"experts.{i}.down.weight": (3, 6), f"experts.{i}.down.bias": (3,)}
    layer = student.module("MoE", 3, 2, 1)
    laws.check_parameters(layer, shapes, call="MoE(3, 2, 1)")
    laws.check_state_dict(layer, shapes)


@promise(
    "MoE.__init__",
    hint="if not 1 <= k <= experts: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_k(code: Student, draw: Draw) -> Cases:
    """A k below 1 or above the number of experts is a ValueError that names k."""
    for k in (0, EXPERTS + 1):
        yield (
            f"MoE({DIM}, {EXPERTS}, {k})",
            raises(ValueError, "k", code.module, "MoE", DIM, EXPERTS, k),
        )


@promise(
    "MoE.forward",
    points=5,
    hint="Take an expert's tokens by their indices, and put its outputs back at these.",
)
def test_one_expert(code: Student, draw: Draw) -> Cases:
    """With k = 1, each token gets the output of its best expert, in its own place."""
    yield "the output for k = 1", output_of(code, draw, draw.normal(TOKENS, DIM), 1)


@promise(
    "MoE.forward",
    points=5,
    hint="Divide the k probabilities by their sum, and add up the outputs times these.",
)
def test_weights(code: Student, draw: Draw) -> Cases:
    """With several experts, the weights are their probabilities, normalized over the chosen ones."""
    for k in (2, 3, EXPERTS):
        yield f"the output for k = {k}", output_of(code, draw, draw.normal(TOKENS, DIM), k)


@promise(
    "MoE.forward", points=2, hint="reshape(-1, dim) in the beginning, reshape(x.shape) in the end."
)
def test_leading_dimensions(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine, or none."""
    for leading in [(2, 6), (2, 2, 3), ()]:
        what = f"the output for an x of shape {(*leading, DIM)}"
        yield what, output_of(code, draw, draw.normal(*leading, DIM), 1)


@promise("MoE.forward", points=2, hint="Return self.router(x) as it is, beside the output.")
def test_scores(code: Student, draw: Draw) -> Cases:
    """The router's scores are returned beside the output."""
    layer = draw.fill(code.module("MoE", DIM, EXPERTS, 1))
    for leading in [(TOKENS,), (2, 3)]:
        scores = pair(layer(draw.normal(*leading, DIM)))[1]
        what = f"the scores for an x of shape {(*leading, DIM)}"
        yield what, any_gradients(within(scores, **SUMS))


@promise(
    "MoE.forward",
    points=4,
    hint="The weights must stay tensors of the graph: no detach, no .item(), no .tolist().",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x, the experts and the router."""
    layer = draw.fill(code.module("MoE", DIM, EXPERTS, 2), scale=0.5)
    output = pair(layer(draw.normal(TOKENS, DIM, grad="x")))[0]
    yield "the output", within(output, **SUMS)


@promise(
    "MoE.forward",
    points=3,
    hint="expert(tokens[mine]), not expert(tokens) and a mask afterwards.",
)
def test_computes_its_own_tokens(code: Student, draw: Draw) -> Cases:
    """An expert computes the tokens that chose it, and no others."""
    for k in (1, 2):
        router, x = draw.normal(EXPERTS, DIM), draw.normal(40, DIM)
        rows = code.run("rows", router, x, k)
        yield f"the number of rows that each expert computes for k = {k}", rows


@promise("MoE.forward", hint="A mean over no tokens is NaN, and so may be a loss made of it.")
def test_idle_experts(code: Student, draw: Draw) -> Cases:
    """Experts without tokens do no harm."""
    # There are fewer tokens than experts.
    yield "the output for one token", output_of(code, draw, draw.normal(1, DIM), 1)
    yield "the output for two tokens", output_of(code, draw, draw.normal(2, DIM), 1)


# --- the loss ------------------------------------------------------------------------------------


@promise(
    "load_balancing_loss",
    points=6,
    hint="experts * (shares * softmax(scores, -1).mean(0)).sum()",
)
def test_loss(code: Student, draw: Draw) -> Cases:
    """For k = 1 the loss is experts * sum of f * P, where f is the share of tokens."""
    loss = code.function("load_balancing_loss")(scores(draw, TOKENS), 1)
    yield "the loss for k = 1", any_gradients(within(loss, **SUMS))


@promise("load_balancing_loss", points=3, hint="All k choices count, and there are tokens * k.")
def test_loss_of_several(code: Student, draw: Draw) -> Cases:
    """For k above 1 the shares are taken over all tokens * k choices."""
    for k in (2, 3):
        loss = code.function("load_balancing_loss")(scores(draw, TOKENS), k)
        yield f"the loss for k = {k}", any_gradients(within(loss, **SUMS))


@promise("load_balancing_loss", points=4, hint="P is made of tensors in the graph: no detach.")
def test_loss_gradient(code: Student, draw: Draw) -> Cases:
    """Gradients reach the scores, by way of P."""
    given = draw.leaf("scores", scores(draw, TOKENS))
    yield "the loss", within(code.function("load_balancing_loss")(given, 1), **SUMS)


@promise("load_balancing_loss", points=2, hint="scores.reshape(-1, experts) before you count.")
def test_loss_of_any_shape(code: Student, draw: Draw) -> Cases:
    """The scores may have any leading dimensions."""
    for shape in [(2, 6), (2, 2, 3), (1,)]:
        loss = code.function("load_balancing_loss")(scores(draw, *shape), 1)
        yield f"the loss for {(*shape, EXPERTS)}", any_gradients(within(loss, **SUMS))


# --- helpers of the tests ------------------------------------------------------------------------


def scores(draw: Draw, *shape: int) -> Tensor:
    """Scores that prefer some experts."""
    return 2 * draw.normal(*shape, EXPERTS) + draw.normal(EXPERTS)


def pair(answer: object) -> Any:
    return entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)


def output_of(code: Student, draw: Draw, x: Tensor, k: int) -> Any:
    """The output of a layer with drawn weights."""
    layer = draw.fill(code.module("MoE", DIM, EXPERTS, k), scale=0.5)
    return any_gradients(within(pair(layer(x))[0], **SUMS))
