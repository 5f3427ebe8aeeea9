"""What saved_bytes, training_bytes and checkpointed_forward promise, sentence by sentence."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

SIZES = {"float64": 8, "int64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "bool": 1, "int16": 2}
FREED = "A storage at the address of a freed one is not counted: keep the storages, not addresses."
# Parameters: shape, dtype, trainable, with a gradient. Buffers: shape, dtype, in the state dict.
PARAMETERS = [([4, 3], "float32", 1, 1), ([5], "float64", 1, 0), ([3, 2], "bfloat16", 0, 0)]
PARAMETERS += [([7], "float32", 0, 1), ([], "float64", 1, 1), ([0, 3], "float32", 1, 1)]
BUFFERS = [([6], "float32", 1), ([], "int64", 1), ([11], "bool", 0), ([3], "int16", 1)]
STATES: list[dict[str, Any]] = [
    {"step": [[], "float32"], "average": [[4, 3], "float64"], "name": "first", "none": None},
    {"step": [[], "int64"], "count": 12, "rate": 0.5, "seen": True},
    {"sum": [[3, 2], "float32"], "rows": [[3, 1], "bfloat16"]},
]
# Name, options, steps, copies of each parameter that has a gradient, step counters of each.
SGD: tuple[Any, ...] = ("SGD", {"lr": 0.1}, 1, 0, 0)
OPTIMIZERS = [SGD, ("SGD", {"lr": 0.1, "momentum": 0.9}, 2, 1, 0), ("Adam", {}, 0, 0, 0)]
OPTIMIZERS += [("Adam", {}, 1, 2, 1), ("AdamW", {"amsgrad": True}, 2, 3, 1)]
ROWS = 6


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("In pack: tensor.untyped_storage().nbytes().")
def test_saved_tensors(student: Student) -> None:
    """What autograd saves is counted, in bytes of every dtype."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for shape in (drawn(2), drawn(1), []):
            for work in ("exp", "sin"):
                check_saved(student, work, [torch.rand(shape).to(dtype)], [0])
    n, k, m = drawn(3)
    x = torch.rand(n, k)
    check_saved(student, "gather", [x, torch.randint(n, (m, k))], [0, 1])
    check_saved(student, "where", [x.double(), x > 0.5], [1])
    check_saved(student, "linear", [x, torch.rand(m, k), torch.rand(m)], [0, 1])


@pytest.mark.points(16)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("saved[storage.data_ptr()] = storage, of storage = tensor.untyped_storage().")
def test_saved_storages(student: Student) -> None:
    """Each storage counts once and as a whole, however many tensors and views of it are saved."""
    for x in (torch.rand(drawn(2)), torch.rand(drawn(1))):
        check_saved(student, "x * x", [x], [0])
        check_saved(student, "x.sin() + x.cos() * x", [x], [0, 0])
    n, k = drawn(2)
    x = torch.rand(n, k)
    check_saved(student, "x[1:3].sin()", [x], [0])
    check_saved(student, "four views", [x], [0])
    check_saved(student, "x.expand(50, *x.shape).sin()", [x], [0])


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("Keep the storages themselves until the end, so that no address is used again.")
def test_saved_and_freed(student: Student) -> None:
    """What is freed before f ends counts, and so does a storage at the address of a freed one."""
    x = torch.rand(1024 * random.randint(15, 30))
    value = entry(student.run("measured", "60 times sin", [x]), "value")
    right, some = 60 * size(x), isinstance(value, int) and value % size(x) == 0
    assert not (some and 0 < value < right), FREED
    what = "the result for 60 tensors of at least 60 KiB, each freed before the next"
    assert_equal(value, right, what=what)


@pytest.mark.points(6)
@pytest.mark.place("saved_bytes")
@pytest.mark.hint("Compare storages: a saved tensor may be a view of an excluded one.")
def test_saved_exclude(student: Student) -> None:
    """Storages of excluded tensors are not counted, whichever view of them is saved or excluded."""
    n, k, m = drawn(3)
    x, weight, bias = torch.rand(n, k), torch.rand(m, k), torch.rand(m)
    for form in ("itself", "a part", "transposed"):
        for exclude in ([1], [0], [0, 1], []):
            saved = [i for i in (0, 1) if i not in exclude]
            check_saved(student, "linear", [x, weight, bias], saved, exclude=exclude, form=form)
    check_saved(student, "linear", [x, weight, bias], [0], exclude=[1, 2])
    check_saved(student, "x[1:3].sin()", [x], [], exclude=[0, 0], form="a part")


@pytest.mark.points(3)
@pytest.mark.place("saved_bytes")
@pytest.mark.word("the sandbox says how f was called")
@pytest.mark.hint("with saved_tensors_hooks(pack, lambda tensor: tensor): f(*args)")
def test_saved_calls(student: Student) -> None:
    """f runs once as it would without you; its error comes out, and no hook is left."""
    x = torch.rand(drawn(2)) + 0.5
    for grad, needs in ((False, True), (True, False)):
        check_call(check_saved(student, "exp", [x], [], grad=grad, needs=needs), grad)
    check_call(check_saved(student, "exp with gradients", [x], [0], grad=False), grad=False)
    report = student.run("measured", "backward", [x])
    check_call(report)
    what = "the list of gradients of a backward pass in f"
    assert_close(entry(report, "gradients"), [x.exp() * (x.sin() + x.cos())], what=what)
    what = "the result for a forward and a backward pass in f"
    assert_equal(entry(report, "value"), 3 * size(x), what=what)
    report = student.run("measured", "an error", [x])
    assert entry(report, "raised") is True, "The exception of f disappears: pass it on."
    check_call(report)


@pytest.mark.points(6)
@pytest.mark.place("training_bytes")
@pytest.mark.hint("sum(t.numel() * t.element_size() for t in ...), for each of the four.")
def test_training(student: Student) -> None:
    """Each part is counted in bytes, and a parameter that several modules share counts once."""
    check_training(student, STATES)
    buffers = [(drawn(len(item[0])), *item[1:]) for item in BUFFERS]
    check_training(student, STATES[:1], parameters=PARAMETERS[:2], buffers=buffers[1:3])
    check_training(student, STATES, tied=True)


@pytest.mark.points(4)
@pytest.mark.place("training_bytes")
@pytest.mark.hint("for state in optimizer.state.values(): for value in state.values(): a tensor?")
def test_training_optimizers(student: Student) -> None:
    """The state of torch's optimizers is counted, with Adam's step counters."""
    parameters = [(drawn(len(item[0])), *item[1:]) for item in PARAMETERS]
    for way in OPTIMIZERS:
        check_training(student, [], way=way, parameters=parameters)


@pytest.mark.requires("test_training")
@pytest.mark.place("training_bytes")
@pytest.mark.hint("numel() and element_size() read no value; look, and change nothing.")
def test_training_only_looks(student: Student) -> None:
    """Tensors on the meta device, which have no values, are counted too, and nothing is changed."""
    check_training(student, STATES, device="meta")
    model = student.made("network", PARAMETERS, BUFFERS)
    optimizer = student.made("optimizer", model, "SGD", {}, 0, STATES)
    laws.check_changes_nothing(student, "training_bytes", model, optimizer)


@pytest.mark.points(5)
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("for layer in layers: x = checkpoint(layer, x, use_reentrant=False)")
def test_checkpoint(student: Student) -> None:
    """The output and the gradients of x and of every parameter are those of the plain loop."""
    for dtype in (torch.float64, torch.float32):
        check_passes(student, chain(3, 5, 2, 4, dtype=dtype))
    check_passes(student, chain(4, 4, 4), order=[0, 1, 0, 1, 1])


@pytest.mark.points(28)
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("A checkpoint of its own around each layer, not one around the whole loop.")
def test_checkpoint_runs(student: Student) -> None:
    """Only inputs are saved, and each layer runs again right before its gradients, the last one first."""
    deep = drawn(random.choice([5, 6]))
    cases: list[tuple[list[int], list[int]]] = [(drawn(4), []), (drawn(2), []), (deep, [])]
    for sizes, frozen in [*cases, (drawn(4), [1, 2])]:
        report, *_ = passed(student, chain(*sizes), frozen=frozen)
        count = len(sizes) - 1
        runs = [f"layer {i} runs" for i in range(count)]
        gradients = [f"gradients of {i}" for i in reversed(range(count))]
        what = "the list of what happens in the forward pass"
        assert_equal(entry(report, "forward"), runs, what=what)
        pairs = zip(reversed(runs), gradients, strict=True)
        right, what = [*itertools.chain(*pairs)], "the list of what happens in the backward pass"
        assert_equal(entry(report, "backward"), right, what=what)
        saved, bound = entry(report, "bytes", kind=int), sum(ROWS * n * 8 for n in sizes[:-1])
        told = f"The forward pass saves {saved} bytes, but the layers' inputs have only {bound}"
        assert saved <= bound, f"{told}: keep nothing else."
    # What dropout gets is nobody's input: it lives on only where it is kept, also behind autograd's hooks.
    report, *_ = passed(student, chain(*drawn(3)), dropout=0.4)
    told = "What the layers compute is still in memory after the forward pass: keep their inputs alone."
    assert entry(report, "alive", kind=int) == 0, told


@pytest.mark.points(5)
@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("use_reentrant=False; a Function of your own has to see the parameters.")
def test_checkpoint_without_gradient(student: Student) -> None:
    """Gradients are right where x requires none, and where layers are frozen; x stays as it was."""
    for frozen in ([], [0], [1], [2], [0, 2], [0, 1, 2]):
        for needs in (False, True):
            check_passes(student, chain(3, 5, 2, 4), frozen=frozen, needs=needs)


@pytest.mark.points(4)
@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("preserve_rng_state=True, which is the default; or keep torch.get_rng_state().")
def test_checkpoint_dropout(student: Student) -> None:
    """Dropout drops the same numbers in the backward pass, which leaves the random state alone."""
    for sizes in ((3, 6, 5, 4), (8, 8)):
        weights = chain(*sizes)
        report, *_, state = passed(student, weights, dropout=0.4)
        told = "The forward pass does not draw what the plain loop draws."
        assert laws.same(entry(report, "random"), state), told
        report = check_passes(student, weights, dropout=0.4)
        states = [entry(report, key) for key in ("random", "random afterwards")]
        told = "The backward pass moves the global random state: fork_rng() restores it."
        assert laws.same(*states), told


@pytest.mark.points(2)
@pytest.mark.requires("test_checkpoint")
@pytest.mark.place("checkpointed_forward")
@pytest.mark.hint("Call layer(x), not layer.forward(x), and change nothing that you are given.")
def test_checkpoint_else(student: Student) -> None:
    """Hooks run; under no_grad no graph is built; without layers x comes back; all stays as it was."""
    check_passes(student, chain(3, 5, 4), scale=2)
    report = check_passes(student, chain(3, 5, 4), grad=False)
    runs = ["layer 0 runs", "layer 1 runs"]
    assert_equal(entry(report, "forward"), runs, what="the list of what runs under no_grad")
    check_passes(student, chain(3))
    layers = student.made("blocks", chain(3, 5, 4), train=False)
    for x in laws.kinds_of(torch.rand(2, 3).double()):
        laws.check_changes_nothing(student, "checkpointed_forward", layers, x)


def drawn(count: int) -> list[int]:
    """Sizes, all of them different, that no other size here is likely to make up for."""
    return random.sample(range(5, 14), count)


def size(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def check_saved(student: Student, work: str, tensors: list[Tensor], saved: Any, **how: Any) -> Any:
    """Some work saves those of its tensors, or results that are as large; returns the report."""
    report, kept = student.run("measured", work, tensors, **how), [tensors[i] for i in saved]
    what = f"the result of saved_bytes for {work} with x {tensors[0].dtype} {[*tensors[0].shape]}"
    assert_equal(entry(report, "value"), size(*kept), what=what)
    return report


def check_call(report: Any, grad: bool = True) -> None:
    calls = entry(report, "calls", kind=list)
    assert len(calls) == 1, f"f runs {len(calls)} times, it should run once."
    told = "f does not get the same objects as *args, or is no longer in train mode."
    assert entry(calls[0], 0) is True, told
    assert entry(calls[0], 2) is True, "f finds another random state than by itself: do not seed."
    modes = entry(calls[0], 1), entry(report, "grad")
    told = "Grad mode is changed, in f or after the call: leave it as the caller has it."
    assert modes == (grad, grad), told
    told = "Hooks are left after the call: use saved_tensors_hooks in a with block."
    assert entry(report, "left") is False, told


def weighed(items: Any) -> int:
    """The bytes of tensors of which shape and dtype are given."""
    return sum(math.prod(shape) * SIZES[dtype] for shape, dtype, *_ in items)


def check_training(student: Student, states: Any, way: Any = SGD, **how: Any) -> None:
    """Each part has the bytes of its tensors."""
    name, options, steps, copies, counters = way
    parameters, buffers = how.pop("parameters", PARAMETERS), how.pop("buffers", BUFFERS)
    model = student.made("network", parameters, buffers, **how)
    optimizer = student.made("optimizer", model, name, options, steps, states)
    gradients = [item for item in parameters if item[3]]
    tensors = [v for state in states for v in state.values() if isinstance(v, list)]
    tensors += gradients * copies + [([], "float32")] * (counters * len(gradients))
    keys = ("parameters", "buffers", "gradients", "optimizer_state")
    parts = dict(zip(keys, (parameters, buffers, gradients, tensors), strict=True))
    right = {key: weighed(part) for key, part in parts.items()}
    value = student.function("training_bytes")(model, optimizer)
    what = f"the result of training_bytes ({name}, step {steps})"
    assert_equal(value, right, what=what, ordered=False)


def chain(*sizes: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """The matrices of layers of these sizes."""
    return [torch.randn(pair, dtype=dtype) for pair in itertools.pairwise(sizes)]


def passed(
    student: Student, weights: list[Tensor], dropout: float = 0.0, frozen: Any = (), **how: Any
) -> tuple[Any, list[Tensor], Tensor, Tensor]:
    """The report of checkpointed layers; the leaves, output and random state of a plain loop."""
    order = how.pop("order", list(range(len(weights))))
    x = torch.randn(ROWS, len(weights[0]) if weights else 3, dtype=torch.float64)
    x = x.to(weights[0].dtype) if weights else x
    seed = int(torch.randint(2**31, ()))
    layers = student.made("blocks", weights, dropout=dropout, frozen=list(frozen))
    report = student.run("passed", layers, x, order, seed, **how)
    leaves = [x.clone().requires_grad_(how.get("needs", True))]
    leaves += [w.clone().requires_grad_(i not in frozen) for i, w in enumerate(weights)]
    y = leaves[0]
    with torch.random.fork_rng(devices=()), torch.set_grad_enabled(how.get("grad", True)):
        torch.manual_seed(seed)
        for i in order:
            y = F.dropout(torch.tanh(y @ leaves[i + 1]), dropout) * how.get("scale", 1)
        state = torch.get_rng_state()
    return report, leaves, y, state


def check_passes(
    student: Student, weights: list[Tensor], dropout: float = 0.0, frozen: Any = (), **how: Any
) -> Any:
    """Output and gradients are those of the plain loop; returns the report."""
    report, leaves, y, _ = passed(student, weights, dropout, frozen, **how)
    needs = how.get("needs", True)
    hooks = " of layers whose hooks double what they return" if "scale" in how else ""
    assert_close(entry(report, "output"), y.detach(), what=f"the output{hooks}")
    assert entry(report, "needs") is needs, "The requires_grad of x is changed: leave it."
    told = "The output has a graph, which a plain loop would not build."
    if y.requires_grad:
        told = "The output has no graph, though a layer learns: use_reentrant=False."
    assert entry(report, "attached") is y.requires_grad, told
    if y.requires_grad:
        (y * torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    for i, leaf in enumerate(leaves):
        name = f"the weight of layer {i - 1}" if i else "x"
        value = entry(report, "gradients", i)
        if leaf.grad is None:
            assert value is None, f"There is a gradient of {name}, which has none in a plain loop."
            continue
        told = f"The gradient of {name} is missing"
        told += "." if needs else ", where x requires none: use_reentrant=False."
        assert value is not None, told
        masks = ", with the masks of the forward pass" if dropout else ""
        assert_close(value, leaf.grad, what=f"the gradient of {name}{masks}")
    return report
