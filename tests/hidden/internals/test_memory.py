"""Tests of saved_bytes, training_bytes and checkpointed_forward."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws
from grader.judge.student import Student

ROWS = 6
DROPOUT = 0.4
# Expressions of x (n, k). All are functions of torch, which take tensors alone: an object of the student's
# cannot stand for x, and write down its methods.
# Of each of these autograd saves a result: a new tensor of the size of x.
SAVING_A_RESULT = [
    "torch.exp(x)",
    "torch.sqrt(x)",
    "torch.tanh(x)",
    "torch.sigmoid(x)",
    "torch.sin(torch.add(x, 1))",
    "torch.cos(torch.add(x, 2))",
]
# Of each of these it saves x itself or a view of it.
SAVING_X = [
    "torch.mul(x, x)",
    "torch.sin(x)",
    "torch.cos(x[1:3])",
    "torch.sin(x.t())",
    "torch.cos(x[:, 0])",
    "torch.sin(x.flatten()[2:5])",
]


class ParameterKind(NamedTuple):
    """What a parameter of the probe's network is."""

    shape: list[int]
    dtype: str
    trainable: bool
    has_gradient: bool


class BufferKind(NamedTuple):
    """What a buffer of the probe's network is."""

    shape: list[int]
    dtype: str
    persistent: bool


# --- saved_bytes ----------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("In pack: tensor.untyped_storage().nbytes().")
def test_saved_tensors(student: Student) -> None:
    """What autograd saves is counted, in bytes of every dtype."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x, results = torch.rand(new_sizes(2)).to(dtype), some_of(SAVING_A_RESULT, least=1)
        check_saved(student, program_of(results), [x], len(results) * size_of(x))

    n, k, m = new_sizes(3)
    x, index = torch.rand(n, k), torch.randint(n, (m, k))
    results = some_of(SAVING_A_RESULT, least=0)
    # gather saves x and the index.
    right = size_of(x, index) + len(results) * size_of(x)
    check_saved(student, program_of(["torch.gather(x, 0, y)", *results]), [x, index], right)

    x, weight = torch.rand(n, k), torch.rand(m, k)
    bytes_of_layer = student.run("layer_bytes", x, weight)
    what = "the result of saved_bytes for a layer, excluding nothing"
    assert_equal(bytes_of_layer, size_of(x, weight), what=what)


@pytest.mark.points(16)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("saved[storage.data_ptr()] = storage, of storage = tensor.untyped_storage().")
def test_saved_storages(student: Student) -> None:
    """Each storage counts once and as a whole, however many tensors and views of it are saved."""
    x = torch.rand(new_sizes(2))
    for saving_x in [["torch.mul(x, x)"], ["torch.sin(x[1:3])"], SAVING_X]:
        results = some_of(SAVING_A_RESULT, least=0)
        right = size_of(x) + len(results) * size_of(x)
        check_saved(student, program_of(saving_x + results), [x], right)


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("Keep the storages themselves until the end, so that no address is used again.")
def test_saved_and_freed(student: Student) -> None:
    """What is freed before f ends counts, and so does a storage at the address of a freed one."""
    x, times = torch.rand(1024 * random.randint(15, 30)), random.randint(40, 70)
    program = f"for i in range({times}): torch.sin(torch.add(x, i))"
    check_saved(student, program, [x], times * size_of(x))


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("Compare storages: a saved tensor may be a view of an excluded one.")
def test_saved_exclude(student: Student) -> None:
    """Storages of excluded tensors are not counted, whichever view of them is saved or excluded."""
    n, k, m = new_sizes(3)
    x, weight, bias = torch.rand(n, k), torch.rand(m, k), torch.rand(m)
    tensors, results = [x, weight, bias], some_of(SAVING_A_RESULT, least=0)
    program = program_of(["torch.nn.functional.linear(x, y, z)", *results])
    # linear saves x and the weight, and no bias.
    for excluded, of_linear in [([1, 2], size_of(x)), ([0], size_of(weight)), ([0, 1], 0)]:
        right = of_linear + len(results) * size_of(x)
        names = [("x", "weight", "bias")[i] for i in excluded]
        value = student.run("bytes_without", program, tensors, excluded)
        assert_equal(value, right, what=f"the result of saved_bytes excluding {names}")
        value = student.run("bytes_without_views", program, tensors, excluded)
        assert_equal(value, right, what=f"the result of saved_bytes excluding views of {names}")


@pytest.mark.points(3)
@pytest.mark.place("saved_bytes")
@pytest.mark.word("the sandbox says how f was called")
@pytest.mark.hint("with saved_tensors_hooks(pack, lambda tensor: tensor): f(*args)")
def test_saved_calls(student: Student) -> None:
    """f runs once as it would without you; its error comes out, and no hook is left."""
    x = torch.rand(new_sizes(2)) + 0.5
    seed = new_seed()
    numbers = torch.rand(3, generator=torch.Generator().manual_seed(seed))
    for gradients_on in (True, False):
        report = student.run("called", x, seed, gradients_on)
        call = {"training": True, "grad mode": gradients_on, "drawn": numbers}
        assert_equal(entry(report, "calls"), [call], what="the list of calls of f")
        right = size_of(x) if gradients_on else 0
        what = "the result of saved_bytes for a module that was called in the caller's grad mode"
        assert_equal(entry(report, "bytes"), right, what=what)

    report = student.run("with_backward", x)
    gradient = x.exp() * (x.sin() + x.cos())
    assert_close(entry(report, "gradient"), gradient, what="the gradient of a backward pass in f")
    what = "the result of saved_bytes for a forward and a backward pass in f"
    assert_equal(entry(report, "bytes"), 2 * size_of(x), what=what)

    report = student.run("with_error", x)
    assert entry(report, "raised") is True, "The exception of f disappears: pass it on."
    told = "Hooks are left after the call: use saved_tensors_hooks in a with block."
    assert entry(report, "hooks left") is False, told


# --- training_bytes -------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("training_bytes")
@pytest.mark.hint("sum(t.numel() * t.element_size() for t in ...), for each of the four.")
def test_training(student: Student) -> None:
    """Each part is counted in bytes, and a parameter that several modules share counts once."""
    check_training(student, "cpu")


@pytest.mark.requires("test_training")
@pytest.mark.place("training_bytes")
@pytest.mark.hint("numel() and element_size() read no value; look, and change nothing.")
def test_training_only_looks(student: Student) -> None:
    """Tensors on the meta device, which have no values, are counted too, and nothing is changed."""
    check_training(student, "meta")
    network, optimizer, _ = new_training(student, "cpu")
    laws.check_changes_nothing(student, "training_bytes", network, optimizer)


# --- checkpointed_forward -------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("for layer in layers: x = checkpoint(layer, x, use_reentrant=False)")
def test_checkpoint(student: Student) -> None:
    """The output and the gradients of x and of every parameter are those of the plain loop."""
    check_passes(student, new_weights(3, 5, 2, 4), needs_gradient=True)


@pytest.mark.points(28)
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("A checkpoint of its own around each layer, not one around the whole loop.")
def test_checkpoint_runs(student: Student) -> None:
    """Only inputs are saved, and each layer runs again right before its gradients, the last one first."""
    for count, frozen in [(1, []), (3, [1]), (random.randint(4, 6), [])]:
        sizes = new_sizes(count + 1)
        names = random.sample(range(1000), count)
        layers = blocks(student, new_weights(*sizes), frozen=frozen, names=names)
        x = torch.randn(ROWS, sizes[0], dtype=torch.float64)
        report = student.run("logged", layers, leaf(student, x))

        forward = [f"layer {name} runs" for name in names]
        what = "the list of what happens in the forward pass"
        assert_equal(entry(report, "forward"), forward, what=what)
        backward: list[str] = []
        for name in reversed(names):
            backward += [f"layer {name} runs", f"gradients of layer {name}"]
        what = "the list of what happens in the backward pass"
        assert_equal(entry(report, "backward"), backward, what=what)

        saved = entry(report, "bytes", kind=int)
        inputs = sum(ROWS * size * x.element_size() for size in sizes[:-1])
        told = f"The forward pass saves {saved} bytes, but the layers' inputs have only {inputs}"
        assert saved <= inputs, f"{told}: keep nothing else."
    # What goes into a dropout is no layer's input: it lives on only where it is kept behind autograd's back.
    layers = blocks(student, new_weights(3, 5, 4), DROPOUT)
    x = torch.randn(ROWS, 3, dtype=torch.float64)
    report = student.run("logged", layers, leaf(student, x))
    told = "What the layers compute is still in memory after the forward pass: keep their inputs alone."
    assert entry(report, "alive", kind=int) == 0, told


@pytest.mark.points(5)
@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("use_reentrant=False; a Function of your own has to see the parameters.")
def test_checkpoint_without_gradient(student: Student) -> None:
    """Gradients are right where x requires none, and where layers are frozen; x stays as it was."""
    weights = new_weights(3, 5, 2, 4)
    check_passes(student, weights, needs_gradient=False)
    check_passes(student, weights, needs_gradient=False, frozen=[0])
    check_passes(student, weights, needs_gradient=True, frozen=[1])
    check_passes(student, weights, needs_gradient=True, frozen=[0, 1, 2])


@pytest.mark.points(4)
@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("preserve_rng_state=True, which is the default; or keep torch.get_rng_state().")
def test_checkpoint_dropout(student: Student) -> None:
    """Dropout drops the same numbers in the backward pass, which leaves the random state alone."""
    weights = new_weights(3, 6, 5, 4)
    report = check_passes(student, weights, needs_gradient=True, dropout=DROPOUT)
    before, after = fields(report, "random after forward", "random after backward")
    told = "The backward pass moves the global random state: fork_rng() restores it."
    assert laws.same(before, after), told


@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("Call layer(x), not layer.forward(x).")
def test_checkpoint_hooks(student: Student) -> None:
    """Each layer is called as layer(x), so that its hooks run."""
    weights = new_weights(3, 5, 4)
    layers = student.made("doubled", blocks(student, weights))
    x = torch.randn(ROWS, 3, dtype=torch.float64)
    right = 2 * torch.tanh(2 * torch.tanh(x @ weights[0]) @ weights[1])
    output = student.function("checkpointed_forward")(layers, x)
    assert_close(output, right, what="the output of layers whose hooks double what they return")


@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("Under no_grad checkpoint makes no graph; change nothing that you are given.")
def test_checkpoint_leaves_all(student: Student) -> None:
    """Under no_grad no graph is built; without layers x comes back; all stays as it was."""
    layers = blocks(student, new_weights(3, 5, 4))
    x = torch.randn(ROWS, 3, dtype=torch.float64)
    needs_gradient = student.run("graph_under_no_grad", layers, leaf(student, x))
    assert_equal(needs_gradient, False, what="the output's requires_grad under no_grad")
    output = student.function("checkpointed_forward")([], x)
    assert_close(output, x, what="the output without layers")
    layers = student.made("evaluating", blocks(student, new_weights(3, 5, 4)))
    for kind in laws.kinds_of(x):
        laws.check_changes_nothing(student, "checkpointed_forward", layers, kind)


# --- what is right --------------------------------------------------------------------------------


def new_sizes(count: int) -> list[int]:
    """Sizes, all of them different, that no other size here is likely to make up for."""
    return random.sample(range(5, 14), count)


def new_seed() -> int:
    return random.randrange(2**31)


def size_of(*tensors: Tensor) -> int:
    """The bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def some_of(expressions: list[str], *, least: int) -> list[str]:
    """At least so many of these expressions, in any order."""
    return random.sample(expressions, random.randint(least, len(expressions)))


def program_of(expressions: list[str]) -> str:
    """A program that computes these expressions in any order, and holds all values until it ends."""
    return f"values = [{', '.join(random.sample(expressions, len(expressions)))}]"


def check_saved(student: Student, program: str, tensors: list[Tensor], right: int) -> None:
    """Compare the bytes that a program of the probe saves."""
    value = student.run("bytes_without", program, tensors, [])
    x = tensors[0]
    what = f"the result of saved_bytes for {program}, with x of shape {tuple(x.shape)}, {x.dtype}"
    assert_equal(value, right, what=what)


def bytes_of(tensors: Iterable[tuple[list[int], str]]) -> int:
    """The bytes of tensors of these shapes and dtypes."""
    return sum(math.prod(shape) * getattr(torch, dtype).itemsize for shape, dtype in tensors)


def new_parameters() -> list[ParameterKind]:
    """Parameters of many kinds, with sizes that are drawn."""
    return [
        ParameterKind(new_sizes(2), "float32", trainable=True, has_gradient=True),
        ParameterKind(new_sizes(1), "float64", trainable=True, has_gradient=False),
        ParameterKind(new_sizes(2), "bfloat16", trainable=False, has_gradient=False),
        ParameterKind(new_sizes(1), "float32", trainable=False, has_gradient=True),
        ParameterKind([], "float64", trainable=True, has_gradient=True),
    ]


def new_buffers() -> list[BufferKind]:
    """Buffers of many kinds, with sizes that are drawn."""
    return [
        BufferKind(new_sizes(1), "float32", persistent=True),
        BufferKind([], "int64", persistent=True),
        BufferKind(new_sizes(1), "bool", persistent=False),
    ]


def new_training(student: Student, device: str) -> tuple[Any, Any, dict[str, int]]:
    """A network, an optimizer that keeps tensors and other things under odd names, and their bytes."""
    parameters, buffers = new_parameters(), new_buffers()
    tensors = {
        "step": ([], "int64"),
        "average": (new_sizes(2), "float64"),
        "rows": (new_sizes(1), "bfloat16"),
    }
    others = {"name": "first", "count": 12, "none": None}
    network = student.made("network", parameters, buffers, device)
    optimizer = student.made("optimizer_with_state", network, tensors, others)
    right = {
        "parameters": bytes_of((p.shape, p.dtype) for p in parameters),
        "buffers": bytes_of((b.shape, b.dtype) for b in buffers),
        "gradients": bytes_of((p.shape, p.dtype) for p in parameters if p.has_gradient),
        "optimizer_state": bytes_of(tensors.values()),
    }
    return network, optimizer, right


def check_training(student: Student, device: str) -> None:
    network, optimizer, right = new_training(student, device)
    counted = student.function("training_bytes")(network, optimizer)
    assert_equal(counted, right, what="the result of training_bytes", ordered=False)


def new_weights(*sizes: int) -> list[Tensor]:
    """The matrices of layers of these sizes."""
    return [torch.randn(pair, dtype=torch.float64) for pair in itertools.pairwise(sizes)]


def blocks(
    student: Student,
    weights: list[Tensor],
    dropout: float = 0.0,
    *,
    frozen: Sequence[int] = (),
    names: Sequence[int] | None = None,
) -> Any:
    """The probe's layers with these weights, some of them frozen, and with names for what they note."""
    names = range(len(weights)) if names is None else names
    return student.made("blocks", weights, list(names), dropout, list(frozen))


def leaf(student: Student, x: Tensor) -> Any:
    """x as a leaf that requires a gradient, for a probe."""
    return laws.shipped(student, "tensor").made(x, None, True)


def check_passes(
    student: Student,
    weights: list[Tensor],
    *,
    needs_gradient: bool,
    dropout: float = 0.0,
    frozen: Sequence[int] = (),
) -> Any:
    """Compare output and gradients with those of the plain loop, and return the report."""
    x = torch.randn(ROWS, weights[0].shape[0], dtype=torch.float64)
    factors = torch.randn(ROWS, weights[-1].shape[1], dtype=torch.float64)
    seed = new_seed()
    layers = blocks(student, weights, dropout, frozen=frozen)
    argument = leaf(student, x) if needs_gradient else x
    report = student.run("both_passes", layers, argument, factors, seed)

    inputs = x.clone().requires_grad_(needs_gradient)
    matrices = [w.clone().requires_grad_(i not in frozen) for i, w in enumerate(weights)]
    y = inputs
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        for matrix in matrices:
            y = F.dropout(torch.tanh(y @ matrix), dropout)
        random_state = torch.get_rng_state()
    (y * factors).sum().backward()

    assert_close(entry(report, "output"), y.detach(), what="the output")
    told = "The forward pass draws other numbers than the plain loop."
    assert laws.same(entry(report, "random after forward"), random_state), told
    gradients = [tensor.grad for tensor in (inputs, *matrices)]
    what = "the list of the gradients of x and of the layers' weights"
    assert_close(entry(report, "gradients"), gradients, what=what)
    return report
