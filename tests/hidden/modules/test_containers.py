"""Tests of MLP, ResidualStack and plain_containers."""

from __future__ import annotations

import functools
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

randn = functools.partial(torch.randn, dtype=torch.float64)
# Two widths in the middle are alike, and so are the first and the last.
WIDTHS = [4, 3, 3, 4]
# Wide enough that a few thousand weights tell how they are spread; the spread may be off by a third.
WIDE, SPREAD = (400, 100), 0.3
FEATURES = 3
BLOCKS = 3
# Of so many blocks, "10" stands before "2" where names are sorted as text.
MANY_BLOCKS = 12
# Attributes of the probe's models: those that hide a layer or a parameter, and others.
HIDING = [
    "list",
    "tuple",
    "dict",
    "OrderedDict",
    "NamedTuple",
    "list of Parameters",
    "dict of frozen Parameters",
    "list with a module first",
    "list with a module last",
    "list of modules without parameters",
]
OTHERS = [
    "list of numbers",
    "list of tensors",
    "list of tensors that require a gradient",
    "nn.LSTM",
    "nn.ModuleList",
    "nn.Sequential",
]
# Names of attributes, and of submodules.
WORDS = ["layers", "parts", "heads", "table", "stages", "sizes"]
WORDS += ["cells", "experts", "maps", "gates", "steps", "rows"]
SUBMODULES = ["encoder", "decoder", "block", "norm", "trunk"]


# --- MLP -----------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("self.layers = nn.Sequential(nn.Linear(...), nn.ReLU(), nn.Linear(...), ...)")
def test_mlp_parameters(student: Student) -> None:
    """The state dict holds layers.0.weight, layers.0.bias, layers.2.weight, ..., and nothing else."""
    # Where all widths are alike, one layer could stand for all.
    alike = [random.randint(2, 9)] * 4
    for widths in (new_widths(), alike):
        layer = student.module("MLP", widths)
        named = {name: list(tensor.shape) for name, tensor in layer.named_parameters()}
        right = shapes(widths)
        what = f"the dict of parameter shapes of MLP({widths})"
        assert_equal(named, right, what=what, ordered=False)
        laws.check_state_dict(layer, right)


@pytest.mark.points(3)
@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("Append a Linear and a ReLU for each two widths, and leave the last ReLU out.")
def test_mlp_layers(student: Student) -> None:
    """layers is an nn.Sequential of Linear, ReLU, ..., Linear."""
    widths = new_widths()
    report = student.run("layers_of", widths)
    assert_equal(entry(report, "class"), "Sequential", what="the class of layers")
    right = ["Linear", *["ReLU", "Linear"] * (len(widths) - 2)]
    items = [str(item) for item in entry(report, "items", kind=list)]
    what = f"the text of the classes in layers of MLP({widths})"
    assert_equal(", ".join(items), ", ".join(right), what=what)


@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("nn.Linear initializes itself: leave the weights as they come.")
def test_mlp_starts_as_pytorch(student: Student) -> None:
    """Weights and biases start as those of nn.Linear: uniform within 1 / sqrt(widths[i])."""
    bound = WIDE[0] ** -0.5
    layer = student.module("MLP", [*WIDE, 2])
    for kind in ("weight", "bias"):
        tensor = laws.parameter_named(layer, f"layers.0.{kind}")
        what = f"the {kind} of a Linear"
        formula = "1 / sqrt(in_features)"
        laws.check_starts_within(tensor, bound, fans=WIDE, what=what, formula=formula)
        # The standard deviation of a uniform distribution from -bound to bound is bound / sqrt(3).
        what = f"the standard deviation of {what}"
        assert_close(tensor.std().item(), bound / 3**0.5, what=what, rtol=SPREAD, atol=0.0)
    laws.check_starts_random(student, "MLP", [6, 5, 4])


@pytest.mark.place("MLP.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if len(widths) < 2 or min(widths) < 1: raise ValueError(f'widths ...')")
def test_mlp_errors(student: Student) -> None:
    """Fewer than two widths, or one below 1, are a ValueError that names widths."""
    laws.check_errors(student, "MLP", {"widths": [([4],), ([4, 0],), ([4, 0, 2],)]}, fine=([1, 1],))


@pytest.mark.points(6)
@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.forward")
@pytest.mark.hint("return self.layers(x)")
def test_mlp_forward(student: Student) -> None:
    """forward is Linear, ReLU, ..., Linear, in the dtype of the model."""
    layer, tensors = new_mlp(student)
    x = randn(24, WIDTHS[0])
    laws.check_float64(layer(x), mlp(x, *tensors).detach())


@pytest.mark.points(2)
@pytest.mark.requires("test_mlp_forward")
@pytest.mark.place("MLP.forward")
@pytest.mark.hint("nn.Sequential takes x as it is: reshape nothing.")
def test_mlp_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions is fine, none included."""
    layer, _ = new_mlp(student)
    x = randn(24, WIDTHS[0])
    laws.check_leading_dimensions(student, layer, x, shape=(WIDTHS[-1],))


@pytest.mark.points(2)
@pytest.mark.requires("test_mlp_forward")
@pytest.mark.place("MLP")
@pytest.mark.hint("Leave requires_grad as nn.Linear sets it, and detach nothing.")
def test_mlp_gradients(student: Student) -> None:
    """Gradients reach x and the parameters of all layers."""
    layer, tensors = new_mlp(student)
    x = randn(5, WIDTHS[0]).requires_grad_()
    leaves = {"x": x, **dict(zip(shapes(WIDTHS), tensors, strict=True))}
    laws.check_gradients(layer(x), leaves, mlp)


@pytest.mark.points(2)
@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP")
@pytest.mark.hint("Read widths and x, and write into neither.")
def test_mlp_changes_nothing(student: Student) -> None:
    """The list widths stays as it is, and forward leaves x and the parameters as they are."""
    laws.check_changes_nothing(student, "MLP", WIDTHS, allow=("random",))
    layer, _ = new_mlp(student)
    laws.check_changes_nothing(student, layer, randn(5, WIDTHS[0]), call="forward")


# --- ResidualStack -------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("ResidualStack.__init__")
@pytest.mark.hint("self.blocks = nn.ModuleList(blocks)")
def test_stack_blocks(student: Student) -> None:
    """blocks is an nn.ModuleList of the given modules, in order."""
    weights = list(torch.randn(MANY_BLOCKS, FEATURES))
    blocks = [student.made("block", weight) for weight in weights]
    check_blocks(student, blocks, weights)
    twice = [blocks[0], blocks[1], blocks[0]]
    check_blocks(student, twice, [weights[0], weights[1], weights[0]])


@pytest.mark.requires("test_stack_blocks")
@pytest.mark.place("ResidualStack.__init__")
@pytest.mark.hint("A generator can be iterated once: give it to nn.ModuleList as it is.")
def test_stack_generator(student: Student) -> None:
    """Any iterable is fine, a generator or an empty list, too."""
    weights = list(torch.randn(BLOCKS, FEATURES))
    check_blocks(student, student.made("generator", weights), weights)
    check_blocks(student, [], [])


@pytest.mark.points(5)
@pytest.mark.requires("test_stack_blocks")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("for block in self.blocks: x = x + block(x)")
def test_stack_forward(student: Student) -> None:
    """forward is x = x + block(x) for each block in order."""
    weights, x = new_weights(), randn(2, 5, FEATURES)
    assert_close(new_stack(student, weights)(x), residual(x, weights))


@pytest.mark.points(4)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("if index not in skip: x = x + block(x), and nothing else.")
def test_stack_skip(student: Student) -> None:
    """x goes on unchanged where a block is in skip, a list or a tuple; a repeated index counts once."""
    weights, x = new_weights(), randn(4, FEATURES)
    stack = new_stack(student, weights)
    early = random.randrange(BLOCKS - 1)
    late = random.randrange(early + 1, BLOCKS)
    repeated = (late, early, late, late)  # more indices than blocks
    for skip in ([early], repeated, list(range(BLOCKS))):
        assert_close(stack(x, skip), residual(x, weights, skip), what=f"the output for {skip=}")


@pytest.mark.points(2)
@pytest.mark.requires("test_stack_skip")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("Ask only which blocks this call skips: for no attribute, and not for the mode.")
def test_stack_each_call(student: Student) -> None:
    """Only the skip of this call counts, not that of an earlier one, and not the mode."""
    weights, x, skip = new_weights(), randn(4, FEATURES), [random.randrange(BLOCKS)]
    stack = new_stack(student, weights).eval()
    what = f"the output in evaluation mode for {skip=}"
    assert_close(stack(x, skip), residual(x, weights, skip), what=what)
    what = "the output in evaluation mode without skip, after a call with it"
    assert_close(stack(x), residual(x, weights), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_stack_skip")
@pytest.mark.place("ResidualStack")
@pytest.mark.hint("Keep the given blocks, and call block(x), which runs its hooks, once for each.")
def test_stack_calls(student: Student) -> None:
    """A block in skip is not called; the others, the given ones, are called once each, as block(x)."""
    skip = [random.randrange(BLOCKS)]
    right = [int(i not in skip) for i in range(BLOCKS)]
    report = student.run("calls", new_weights(), randn(4, FEATURES), skip)
    what = f"the list of how often each block is called for {skip=}"
    assert_equal(entry(report, "called"), right, what=what)
    what = f"the list of how often each block's hook runs for {skip=}"
    assert_equal(entry(report, "hooked"), right, what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack")
@pytest.mark.hint("x = x + block(x) makes a new tensor; x += block(x) writes into the old one.")
def test_stack_changes_nothing(student: Student) -> None:
    """The caller's x and skip stay as they are, and so do the given blocks, with their modes."""
    blocks = [student.made("block", weight) for weight in new_weights()]
    laws.check_changes_nothing(student, "ResidualStack", blocks)
    stack = new_stack(student, new_weights())
    laws.check_changes_nothing(student, stack, randn(4, FEATURES), [2, 0], call="forward")


@pytest.mark.points(2)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint(
    "No += and no add_: autograd needs what blocks were given and what they returned."
)
def test_stack_blocks_keep(student: Student) -> None:
    """Neither what a block was given nor what it returned is changed in place."""
    weights, x = new_weights(), randn(4, FEATURES)
    report = student.run("calls", weights, x, [])
    inputs = [residual(x, weights[:i]) for i in range(BLOCKS)]
    outputs = [block(given, weight) for given, weight in zip(inputs, weights, strict=True)]
    left = "as the forward pass leaves it,"
    assert_close(
        entry(report, "inputs"), inputs, what=f"the list of what each block was given, {left}"
    )
    assert_close(
        entry(report, "outputs"), outputs, what=f"the list of what each block returned, {left}"
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("Between x and the output nothing may leave the graph: no detach, no .data.")
def test_stack_gradients(student: Student) -> None:
    """Gradients reach x and the parameters of all blocks."""
    weights, x = new_weights(), randn(4, FEATURES).requires_grad_()
    stack = new_stack(student, weights)
    leaves = {"x": x}
    for i, parameter in enumerate(stack.parameters()):
        leaves[f"block {i}"] = assert_tensor(parameter, shape=(FEATURES,), what="a block's weight")
    laws.check_gradients(stack(x), leaves, lambda x, *weights: residual(x, weights))


@pytest.mark.points(3)
@pytest.mark.requires("test_stack_skip")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.word("the sandbox says that it raised, and counts the calls")
@pytest.mark.hint("Each index has to be in range(len(self.blocks)): look at all of them first.")
def test_stack_errors(student: Student) -> None:
    """An index in skip that no block has is a ValueError that names skip, and no block is called."""
    stack, x = new_stack(student, new_weights()), randn(4, FEATURES)
    for skip in ([BLOCKS], [-1]):
        with must_raise(ValueError, mentions="skip", call=f"a call of {BLOCKS} blocks, {skip=},"):
            stack(x, skip)
    report = student.run("calls", new_weights(), x, [1, BLOCKS])
    what = "the list of how often each block is called although skip is refused"
    assert_equal(entry(report, "called"), [0] * BLOCKS, what=what)


# --- plain_containers ----------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("plain_containers")
@pytest.mark.hint(
    "isinstance(value, (list, tuple, dict)), with an nn.Module or nn.Parameter in it."
)
def test_plain_found(student: Student) -> None:
    """Lists, tuples and dicts, subclasses too, are found if they hold a module or a Parameter."""
    kinds = [*HIDING, "list of numbers"]
    names = random.sample(WORDS, len(kinds))
    check_found(student, {"": dict(zip(names, kinds, strict=True))})


@pytest.mark.points(4)
@pytest.mark.requires("test_plain_found")
@pytest.mark.place("plain_containers")
@pytest.mark.hint('named_modules() gives "" for the model itself and dotted names for the others.')
def test_plain_names(student: Student) -> None:
    """Containers of submodules are found, too, under dotted names."""
    first, second, third = random.sample(SUBMODULES, 3)
    a, b, c, d = random.sample(WORDS, 4)
    parts = {
        "": {a: "list", b: "list"},
        first: {c: "dict", d: "dict"},
        f"{second}.{third}": {a: "dict", b: "dict"},
    }
    check_found(student, parts)


@pytest.mark.requires("test_plain_names")
@pytest.mark.place("plain_containers")
@pytest.mark.hint("Submodules are those of named_modules(): convert no lists while you look.")
def test_plain_registered(student: Student) -> None:
    """A module that PyTorch knows is looked into, even if it stands in a plain list, too."""
    first, second = random.sample(SUBMODULES, 2)
    outer, inner = random.sample(WORDS, 2)
    model = student.made("sharing", [first, second], [outer, inner])
    check_names(student, model, [f"{first}.{outer}", f"{second}.{inner}"])


@pytest.mark.points(4)
@pytest.mark.place("plain_containers")
@pytest.mark.hint(
    "Leave out names that begin with an underscore, and look at what a container holds."
)
def test_plain_not_others(student: Student) -> None:
    """Underscores, containers of other things and PyTorch's own containers are not reported."""
    kinds = [*OTHERS, "list", "list"]
    names = random.sample(WORDS, len(kinds))
    names[-1] = f"_{names[-1]}"
    check_found(student, {"": dict(zip(names, kinds, strict=True))})


# --- locally -------------------------------------------------------------------------------------


def new_widths() -> list[int]:
    """Four widths or more, no two of which are alike."""
    return random.sample(range(2, 9), random.randint(4, 6))


def shapes(widths: Sequence[int]) -> dict[str, list[int]]:
    """The shapes of the parameters of an MLP, by their names."""
    result = {}
    for i in range(len(widths) - 1):
        result[f"layers.{2 * i}.weight"] = [widths[i + 1], widths[i]]
        result[f"layers.{2 * i}.bias"] = [widths[i + 1]]
    return result


def new_mlp(student: Student) -> tuple[Any, list[Tensor]]:
    """An MLP in float64 with new values, and its weights and biases in turn."""
    layer = student.module("MLP", WIDTHS).double()
    tensors = laws.check_parameters(layer, shapes(WIDTHS), call=f"MLP({WIDTHS})")
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(torch.randn(tensor.shape))
    return layer, tensors


def mlp(x: Tensor, *tensors: Tensor) -> Tensor:
    """The output of an MLP with these weights and biases, in turn."""
    x = F.linear(x, tensors[0], tensors[1])
    for i in range(2, len(tensors), 2):
        x = F.linear(torch.relu(x), tensors[i], tensors[i + 1])
    return x


def check_blocks(student: Student, argument: Any, weights: list[Tensor]) -> None:
    """A stack of these blocks keeps them in an nn.ModuleList, in order."""
    report = student.run("blocks_of", argument)
    assert_equal(entry(report, "class"), "ModuleList", what="the class of blocks")
    what = f"the list of the weights of blocks, made of {len(weights)} blocks,"
    assert_close(entry(report, "weights"), weights, what=what)


def new_weights() -> list[Tensor]:
    return list(randn(BLOCKS, FEATURES))


def new_stack(student: Student, weights: list[Tensor]) -> Any:
    return student.module("ResidualStack", [student.made("block", weight) for weight in weights])


def block(x: Tensor, weight: Tensor) -> Tensor:
    """What the probe's Block of this weight gives."""
    return torch.tanh(torch.sin(x) * weight)


def residual(x: Tensor, weights: Sequence[Tensor], skip: Collection[int] = ()) -> Tensor:
    """What a stack of the probe's blocks gives without those in `skip`."""
    for i, weight in enumerate(weights):
        if i not in skip:
            x = x + block(x, weight)
    return x


def check_found(student: Student, parts: Mapping[str, Mapping[str, str]]) -> None:
    """Exactly the hiding attributes of a model with these parts are reported."""
    right = []
    for path, attributes in parts.items():
        for name, kind in attributes.items():
            if kind in HIDING and not name.startswith("_"):
                right.append(f"{path}.{name}".lstrip("."))
    check_names(student, student.made("holding", parts), right)


def check_names(student: Student, model: Any, right: list[str]) -> None:
    """These names are reported of a model, in any order, and it stays as it is."""
    result = laws.check_changes_nothing(student, "plain_containers", model)
    told = "plain_containers has to return a list of names."
    names = [str(name) for name in entry(result, kind=list, told=told)]
    what = "the text of the sorted names in the result"
    assert_equal(" ".join(sorted(names)), " ".join(sorted(right)), what=what)
