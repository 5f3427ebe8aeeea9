"""Tests of saved_bytes, training_bytes and checkpointed_forward."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise
from grader.judge.student import Student

ROWS = 6
DROPOUT = 0.4
# Expressions of x (n, k). All are functions of torch, which take only tensors: no other object can take the
# place of x and record calls of its methods.
# For each of these, autograd saves a result: a new tensor of the size of x.
SAVING_A_RESULT = [
    "torch.exp(x)",
    "torch.sqrt(x)",
    "torch.tanh(x)",
    "torch.sigmoid(x)",
    "torch.sin(torch.add(x, 1))",
    "torch.cos(torch.add(x, 2))",
]
# For each of these, it saves x itself or a view of it.
SAVING_X = [
    "torch.mul(x, x)",
    "torch.sin(x)",
    "torch.cos(x[1:3])",
    "torch.sin(x.t())",
    "torch.cos(x[:, 0])",
    "torch.sin(x.flatten()[2:5])",
]
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


# --- saved_bytes ----------------------------------------------------------------------------------


@promise("saved_bytes", points=6, hint="In pack: tensor.untyped_storage().nbytes().")
def test_saved_tensors(code: Student, draw: Draw) -> Cases:
    """The tensors that autograd saves are counted in bytes, for every dtype."""
    for dtype in DTYPES:
        x = draw.uniform(*sizes(draw, 2), dtype=dtype)
        yield f"saved_bytes of results in {dtype}", saved(code, draw, [], [x], least=1)

    n, k, m = sizes(draw, 3)
    x, index = draw.uniform(n, k), draw.integers(m, k, high=n)
    saved_of_gather = saved(code, draw, ["torch.gather(x, 0, y)"], [x, index])
    yield "saved_bytes of gather, which saves x and an index,", saved_of_gather
    bytes_of_layer = code.run("layer_bytes", draw.uniform(n, k), draw.uniform(m, k))
    yield "saved_bytes of a layer, excluding nothing", exactly(bytes_of_layer)


@promise(
    "saved_bytes",
    points=16,
    hint="saved[storage.data_ptr()] = storage, of storage = tensor.untyped_storage().",
)
def test_saved_storages(code: Student, draw: Draw) -> Cases:
    """Each storage counts once and as a whole, however many tensors and views of it are saved."""
    x = draw.uniform(*sizes(draw, 2))
    for saving_x in (["torch.mul(x, x)"], ["torch.sin(x[1:3])"], SAVING_X):
        yield f"saved_bytes of {', '.join(saving_x)} and others", saved(code, draw, saving_x, [x])


@promise(
    "saved_bytes",
    points=6,
    hint="Keep the storages themselves until the end, so that no address is used again.",
)
def test_saved_and_freed(code: Student, draw: Draw) -> Cases:
    """A storage that is freed before f ends counts, and so does a new one at its address."""
    x, times = draw.uniform(1024 * draw.size(15, 31)), draw.size(40, 71)
    program = f"for i in range({times}): torch.sin(torch.add(x, i))"
    yield "saved_bytes of a loop", exactly(code.run("bytes_without", program, [x], [], 0))


@promise(
    "saved_bytes",
    points=6,
    hint="Compare storages: a saved tensor may be a view of an excluded one.",
)
def test_saved_exclude(code: Student, draw: Draw) -> Cases:
    """Storages of excluded tensors are not counted, whichever view of them is saved or excluded."""
    n, k, m = sizes(draw, 3)
    tensors = [draw.uniform(n, k), draw.uniform(m, k), draw.uniform(m)]
    # linear saves x and the weight, but no bias.
    linear, names = ["torch.nn.functional.linear(x, y, z)"], ("x", "weight", "bias")
    for excluded, begin in itertools.product(([1, 2], [0], [0, 1]), (0, 1)):
        value = saved(code, draw, linear, tensors, excluded, begin)
        yield f"saved_bytes excluding rows of {[names[i] for i in excluded]}", value


@promise(
    "saved_bytes",
    points=3,
    hint="with saved_tensors_hooks(pack, lambda tensor: tensor): f(*args)",
    word="the sandbox says how f was called",
)
def test_saved_calls(code: Student, draw: Draw) -> Cases:
    """f runs once, as it would without you; its error comes out, and no hook is left."""
    x = draw.uniform(*sizes(draw, 2), low=0.5, high=1.5)
    for gradients_on in (True, False):
        report = code.run("called", x, draw.seed(), gradients_on)
        yield "the list of calls of f", entry(report, "calls")
        yield "saved_bytes in the caller's grad mode", entry(report, "bytes")
    report = code.run("with_backward", x)
    yield "the gradient of a backward pass in f", entry(report, "gradient")
    yield "saved_bytes of a forward and a backward pass in f", entry(report, "bytes")
    yield "the state after an error of f", code.run("with_error", x)


# --- training_bytes -------------------------------------------------------------------------------


@promise(
    "training_bytes",
    points=10,
    hint="sum(t.numel() * t.element_size() for t in ...), for each of the four.",
)
def test_training(code: Student, draw: Draw) -> Cases:
    """Each part is counted in bytes, and a parameter that several modules share counts once."""
    counted = code.function("training_bytes")(*new_training(code, draw, "cpu"))
    yield "the result of training_bytes", counted


@promise(
    "training_bytes",
    hint="numel() and element_size() read no value; look, and change nothing.",
    after="test_training",
)
def test_training_only_looks(code: Student, draw: Draw) -> Cases:
    """Tensors on the meta device, which have no values, are counted too, and nothing is changed."""
    counted = code.function("training_bytes")(*new_training(code, draw, "meta"))
    yield "the result of training_bytes on the meta device", counted
    laws.check_changes_nothing(code, "training_bytes", *new_training(code, draw, "cpu"))


# --- checkpointed_forward -------------------------------------------------------------------------


@promise(
    "checkpointed_forward",
    points=5,
    hint="for layer in layers: x = checkpoint(layer, x, use_reentrant=False)",
)
def test_checkpoint(code: Student, draw: Draw) -> Cases:
    """The output and the gradients of x and of every parameter are those of the plain loop."""
    yield from passes(code, draw, needs_gradient=True)


@promise(
    "checkpointed_forward",
    points=28,
    hint="A checkpoint of its own around each layer, not one around the whole loop.",
)
def test_checkpoint_runs(code: Student, draw: Draw) -> Cases:
    """Only inputs are saved, and each layer runs again right before its gradients, the last one first."""
    # The input of a dropout is not the input of a layer: it lives on only if it is kept behind autograd's back.
    for count, frozen, dropout in ((1, [], 0.0), (3, [1], 0.0), (draw.size(4, 7), [], DROPOUT)):
        own_sizes, names = sizes(draw, count + 1), draw.permutation(1000)[:count].tolist()
        layers = blocks(code, draw, own_sizes, dropout, frozen, names)
        report = code.run("logged", layers, leaf(code, new_x(draw, own_sizes[0])))
        for when in ("forward", "backward"):
            yield f"the list of events in the {when} pass", entry(report, when)
        yield (
            "the statement that more is saved than the layers' inputs",
            entry(report, "saves too much"),
        )
        if dropout:
            yield "the amount of the layers' results that is kept", entry(report, "alive")


@promise(
    "checkpointed_forward",
    points=5,
    hint="use_reentrant=False; a Function of your own has to see the parameters.",
    after="test_checkpoint",
)
def test_checkpoint_without_gradient(code: Student, draw: Draw) -> Cases:
    """Gradients are right if x requires none, and if layers are frozen; x stays as it was."""
    yield from passes(code, draw, needs_gradient=False)
    yield from passes(code, draw, needs_gradient=False, frozen=[0])
    yield from passes(code, draw, needs_gradient=True, frozen=[1])
    yield from passes(code, draw, needs_gradient=True, frozen=[0, 1, 2])


@promise(
    "checkpointed_forward",
    points=4,
    hint="preserve_rng_state=True, which is the default; or keep torch.get_rng_state().",
    after="test_checkpoint",
)
def test_checkpoint_dropout(code: Student, draw: Draw) -> Cases:
    """Dropout drops the same numbers in the backward pass, which leaves the random state alone."""
    yield from passes(code, draw, needs_gradient=True, dropout=DROPOUT)


@promise(
    "checkpointed_forward",
    hint="Call layer(x), not layer.forward(x).",
    after="test_checkpoint",
)
def test_checkpoint_hooks(code: Student, draw: Draw) -> Cases:
    """Each layer is called as layer(x), so that its hooks run."""
    layers = code.made("doubled", blocks(code, draw, [3, 5, 4]))
    output = code.function("checkpointed_forward")(layers, new_x(draw, 3))
    yield "the output of layers whose hooks double their results", output


@promise(
    "checkpointed_forward",
    hint="Under no_grad checkpoint makes no graph; change nothing that you are given.",
    after="test_checkpoint",
)
def test_checkpoint_leaves_all(code: Student, draw: Draw) -> Cases:
    """Under no_grad no graph is built, without layers the result is x, and nothing is changed."""
    x, layers = new_x(draw, 3), blocks(code, draw, [3, 5, 4])
    needs_gradient = code.run("graph_under_no_grad", layers, leaf(code, x))
    yield "the output's requires_grad under no_grad", needs_gradient
    yield "the output without layers", code.function("checkpointed_forward")([], x)
    for kind in laws.kinds_of(x):
        layers = code.made("evaluating", blocks(code, draw, [3, 5, 4]))
        laws.check_changes_nothing(code, "checkpointed_forward", layers, kind)


# --- helpers of the tests -------------------------------------------------------------------------


def sizes(draw: Draw, count: int) -> list[int]:
    """Draw different sizes, of which none is likely to make up for another one."""
    return [5 + int(size) for size in draw.permutation(9)[:count]]


def saved(
    code: Student,
    draw: Draw,
    expressions: Sequence[str],
    tensors: list[Tensor],
    excluded: Sequence[int] = (),
    begin: int = 0,
    *,
    least: int = 0,
) -> Any:
    """Return the bytes that a program saves: these expressions and some that save a result, in any order.

    The program holds all values until it ends.
    """
    order = draw.permutation(len(SAVING_A_RESULT))[: draw.size(least, len(SAVING_A_RESULT) + 1)]
    every = [*expressions, *(SAVING_A_RESULT[i] for i in order)]
    program = f"values = [{', '.join(every[i] for i in draw.permutation(len(every)))}]"
    return exactly(code.run("bytes_without", program, tensors, list(excluded), begin))


def new_training(code: Student, draw: Draw, device: str) -> tuple[Any, Any]:
    """Make a network, and an optimizer that keeps tensors and other things under odd names."""
    one, two, three, *more = sizes(draw, 9)
    # The shape and dtype of each parameter, whether it learns, and whether it has a gradient.
    parameters = [
        ([one, two], "float32", True, True),
        ([three], "float64", True, False),
        (more[:2], "bfloat16", False, False),
        (more[2:3], "float32", False, True),
        ([], "float64", True, True),
    ]
    # The shape and dtype of each buffer, and whether it is part of the state dict.
    buffers = [(more[3:4], "float32", True), ([], "int64", True), (more[4:5], "bool", False)]
    tensors = {
        "step": ([], "int64"),
        "average": ([two, three], "float64"),
        "rows": (more[5:6], "bfloat16"),
    }
    network = code.made("network", parameters, buffers, device)
    others = {"name": "first", "count": 12, "none": None}
    return network, code.made("optimizer", network, tensors, others)


def new_x(draw: Draw, columns: int) -> Tensor:
    return draw.normal(ROWS, columns, dtype=torch.float64)


def blocks(
    code: Student,
    draw: Draw,
    own_sizes: Sequence[int],
    dropout: float = 0.0,
    frozen: Sequence[int] = (),
    names: Sequence[int] = range(3),
) -> Any:
    """Make the probe's layers of these sizes, some of them frozen. They have `names` in the log."""
    pairs = itertools.pairwise(own_sizes)
    weights = [draw.normal(*pair, dtype=torch.float64) for pair in pairs]
    return code.made("blocks", weights, list(names)[: len(weights)], dropout, list(frozen))


def leaf(code: Student, x: Tensor) -> Any:
    """Make x a leaf that requires a gradient, for a probe."""
    return laws.shipped(code, "tensor").made(x, None, True)


def passes(
    code: Student,
    draw: Draw,
    *,
    needs_gradient: bool,
    dropout: float = 0.0,
    frozen: Sequence[int] = (),
) -> Cases:
    """Yield the output, the gradients of x and of the layers' weights, and the random state after each pass."""
    own_sizes = [3, 5, 2, 4]
    x, factors = new_x(draw, own_sizes[0]), new_x(draw, own_sizes[-1])
    layers = blocks(code, draw, own_sizes, dropout, frozen)
    argument = leaf(code, x) if needs_gradient else x
    report = code.run("both_passes", layers, argument, factors, draw.seed())
    for what, value in entry(report, kind=dict).items():
        yield f"the {what} of checkpointed_forward", value
