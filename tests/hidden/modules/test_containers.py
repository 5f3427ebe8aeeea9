"""Tests of MLP, ResidualStack and plain_containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_gradients,
    entry,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.student import Student

# The two widths in the middle are equal, and so are the first and the last.
WIDTHS = [4, 3, 3, 4]
# Wide enough to measure the spread of the weights. The spread may be off by SPREAD.
WIDE, SPREAD = (400, 100), 0.3
FEATURES = 3
BLOCKS = 3
# So many that sorting the names as text puts "10" before "2".
MANY_BLOCKS = 12
# Attributes of the probe's models: some hide a layer or a parameter, the others do not.
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
# Names for attributes and for submodules.
WORDS = ["layers", "parts", "heads", "table", "stages", "sizes"]
WORDS += ["cells", "experts", "maps", "gates", "steps", "rows"]
SUBMODULES = ["encoder", "decoder", "block", "norm", "trunk"]


# --- MLP -----------------------------------------------------------------------------------------


@promise(
    "MLP.__init__",
    points=4,
    hint="self.layers = nn.Sequential(nn.Linear(...), nn.ReLU(), nn.Linear(...), ...)",
)
def test_mlp_parameters(code: Student, draw: Draw) -> Cases:
    """The state dict holds layers.0.weight, layers.0.bias, layers.2.weight, ..., and nothing else."""
    # With equal widths, a single shared layer would fit everywhere.
    for widths in (new_widths(draw), [draw.size(2, 10)] * 4):
        layer = code.module("MLP", widths)
        named = {name: list(tensor.shape) for name, tensor in layer.named_parameters()}
        yield f"the dict of parameter shapes of MLP({widths})", named
        laws.check_state_dict(layer, named)


@promise(
    "MLP.__init__",
    points=3,
    hint="Append a Linear and a ReLU for each two widths, and leave the last ReLU out.",
    after="test_mlp_parameters",
)
def test_mlp_layers(code: Student, draw: Draw) -> Cases:
    """layers is an nn.Sequential of Linear, ReLU, ..., Linear."""
    widths = new_widths(draw)
    report = code.run("layers_of", widths)
    yield "the class of layers", entry(report, "class")
    yield f"the text of the classes in layers of MLP({widths})", entry(report, "items")


@promise(
    "MLP.__init__",
    hint="nn.Linear initializes itself: leave the weights as they come.",
    after="test_mlp_parameters",
)
def test_mlp_starts_as_pytorch(code: Student, draw: Draw) -> Cases:
    """Weights and biases start as those of nn.Linear: uniform within 1 / sqrt(widths[i])."""
    layer, bound, formula = code.module("MLP", [*WIDE, 2]), WIDE[0] ** -0.5, "1 / sqrt(in_features)"
    for kind in ("weight", "bias"):
        tensor, what = laws.parameter_named(layer, f"layers.0.{kind}"), f"the {kind} of a Linear"
        laws.check_starts_within(tensor, bound, fans=WIDE, what=what, formula=formula)
        yield f"the standard deviation of {what}", within(tensor.std().item(), rtol=SPREAD)
    laws.check_starts_random(code, "MLP", [6, 5, 4])


@promise(
    "MLP.__init__",
    hint="if len(widths) < 2 or min(widths) < 1: raise ValueError(f'widths ...')",
    word="the sandbox says that it raised",
)
def test_mlp_errors(code: Student, draw: Draw) -> Cases:
    """Fewer than two widths, or one below 1, are a ValueError that names widths."""
    for widths in ([4], [4, 0], [4, 0, 2]):
        yield f"MLP({widths})", raises(ValueError, "widths", code.module, "MLP", widths)
    code.module("MLP", [1, 1])


@promise("MLP.forward", points=6, hint="return self.layers(x)", after="test_mlp_parameters")
def test_mlp_forward(code: Student, draw: Draw) -> Cases:
    """forward is Linear, ReLU, ..., Linear."""
    yield "the output", any_gradients(new_mlp(code, draw)(draw.normal(24, WIDTHS[0])))


@promise("MLP.forward", after="test_mlp_forward")
def test_mlp_float64(code: Student, draw: Draw) -> Cases:
    """After double() the model works in float64."""
    layer = draw.fill(code.module("MLP", WIDTHS).double())
    yield "the output", any_gradients(layer(draw.normal(24, WIDTHS[0], dtype=torch.float64)))


@promise(
    "MLP.forward",
    points=2,
    hint="nn.Sequential takes x as it is: reshape nothing.",
    after="test_mlp_forward",
)
def test_mlp_leading_dimensions(code: Student, draw: Draw) -> Cases:
    """Any number of leading dimensions is fine, also none."""
    layer = new_mlp(code, draw)
    for leading in ((2, 3), (1,), ()):
        output = any_gradients(layer(draw.normal(*leading, WIDTHS[0])))
        yield f"the output for x of shape {(*leading, WIDTHS[0])}", output


@promise(
    "MLP",
    points=2,
    hint="Leave requires_grad as nn.Linear sets it, and detach nothing.",
    after="test_mlp_forward",
)
def test_mlp_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x and the parameters of all layers."""
    yield "the output", new_mlp(code, draw)(draw.normal(5, WIDTHS[0], grad="x"))


@promise(
    "MLP",
    points=2,
    hint="Read widths and x, and write into neither.",
    after="test_mlp_parameters",
)
def test_mlp_changes_nothing(student: Student) -> None:
    """The list widths stays as it is, and forward leaves x and the parameters as they are."""
    laws.check_changes_nothing(student, "MLP", WIDTHS, allow=("random",))
    layer = student.module("MLP", WIDTHS)
    laws.check_changes_nothing(student, layer, torch.randn(5, WIDTHS[0]), call="forward")


# --- ResidualStack -------------------------------------------------------------------------------


@promise("ResidualStack.__init__", points=2, hint="self.blocks = nn.ModuleList(blocks)")
def test_stack_blocks(code: Student, draw: Draw) -> Cases:
    """blocks is an nn.ModuleList of the given modules, in order."""
    blocks = [code.made("block", draw.normal(FEATURES)) for _ in range(MANY_BLOCKS)]
    yield from kept(code, f"made of {MANY_BLOCKS} blocks", blocks)
    yield from kept(
        code, "made of a block, another one and the first again", [*blocks[:2], blocks[0]]
    )


@promise(
    "ResidualStack.__init__",
    hint="A generator can be iterated once: give it to nn.ModuleList as it is.",
    after="test_stack_blocks",
)
def test_stack_generator(code: Student, draw: Draw) -> Cases:
    """Any iterable is fine, a generator or an empty list, too."""
    weights = list(draw.normal(BLOCKS, FEATURES))
    yield from kept(code, "made of a generator", code.made("generator", weights))
    yield from kept(code, "made of no blocks", [])


@promise(
    "ResidualStack.forward",
    points=5,
    hint="for block in self.blocks: x = x + block(x)",
    after="test_stack_blocks",
)
def test_stack_forward(code: Student, draw: Draw) -> Cases:
    """forward is x = x + block(x) for each block in order."""
    stack = new_stack(code, draw)
    yield "the output", any_gradients(stack(draw.normal(2, 5, FEATURES)))


@promise(
    "ResidualStack.forward",
    points=4,
    hint="if index not in skip: x = x + block(x), and nothing else.",
    after="test_stack_forward",
)
def test_stack_skip(code: Student, draw: Draw) -> Cases:
    """x goes on unchanged where a block is in skip, a list or a tuple; a repeated index counts once."""
    stack, x = new_stack(code, draw), draw.normal(4, FEATURES)
    early = draw.size(0, BLOCKS - 1)
    late = draw.size(early + 1, BLOCKS)
    repeated = (late, early, late, late)  # more indices than blocks
    for skip in ([early], repeated, list(range(BLOCKS))):
        yield f"the output for {skip=}", any_gradients(stack(x, skip))


@promise(
    "ResidualStack.forward",
    points=2,
    hint="Ask only which blocks this call skips: for no attribute, and not for the mode.",
    after="test_stack_skip",
)
def test_stack_each_call(code: Student, draw: Draw) -> Cases:
    """Only this call's skip counts, whatever earlier calls had, and whatever the mode is."""
    stack, x = new_stack(code, draw).eval(), draw.normal(4, FEATURES)
    skip = [draw.size(0, BLOCKS)]
    yield f"the output in evaluation mode for {skip=}", any_gradients(stack(x, skip))
    what = "the output in evaluation mode without skip, after a call with it"
    yield what, any_gradients(stack(x))


@promise(
    "ResidualStack",
    points=3,
    hint="Keep the given blocks, and call block(x), which runs its hooks, once for each.",
    after="test_stack_skip",
)
def test_stack_calls(code: Student, draw: Draw) -> Cases:
    """A block in skip is not called; the others, the given ones, are called once each, as block(x)."""
    skip = [draw.size(0, BLOCKS)]
    report = calls(code, draw, skip)
    yield f"the list of how often each block is called for {skip=}", entry(report, "called")
    yield f"the list of how often each block's hook runs for {skip=}", entry(report, "hooked")


@promise(
    "ResidualStack",
    points=4,
    hint="x = x + block(x) makes a new tensor; x += block(x) writes into the old one.",
    after="test_stack_forward",
)
def test_stack_changes_nothing(student: Student) -> None:
    """The caller's x and skip stay as they are, and so do the given blocks, with their modes."""
    blocks = [student.made("block", torch.randn(FEATURES)) for _ in range(BLOCKS)]
    laws.check_changes_nothing(student, "ResidualStack", blocks)
    stack, x = student.module("ResidualStack", blocks), torch.randn(4, FEATURES)
    laws.check_changes_nothing(student, stack, x, [2, 0], call="forward")


@promise(
    "ResidualStack.forward",
    points=2,
    hint="No += and no add_: autograd needs the inputs and the outputs of the blocks.",
    after="test_stack_forward",
)
def test_stack_blocks_keep(code: Student, draw: Draw) -> Cases:
    """Neither a block's input nor its output is changed in place."""
    report, left = calls(code, draw, []), "as the forward pass leaves it,"
    yield f"the list of what each block was given, {left}", entry(report, "inputs")
    yield f"the list of what each block returned, {left}", entry(report, "outputs")


@promise(
    "ResidualStack.forward",
    points=2,
    hint="Between x and the output nothing may leave the graph: no detach, no .data.",
    after="test_stack_forward",
)
def test_stack_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x and the parameters of all blocks."""
    stack = new_stack(code, draw)
    yield "the output", draw.fill(stack)(draw.normal(4, FEATURES, grad="x"))


@promise(
    "ResidualStack.forward",
    points=3,
    hint="Each index has to be in range(len(self.blocks)): look at all of them first.",
    after="test_stack_skip",
    word="the sandbox says that it raised, and counts the calls",
)
def test_stack_errors(code: Student, draw: Draw) -> Cases:
    """An index in skip that no block has is a ValueError that names skip, and no block is called."""
    stack, x = new_stack(code, draw), draw.normal(4, FEATURES)
    for skip in ([BLOCKS], [-1]):
        what = f"a call of {BLOCKS} blocks, {skip=},"
        yield what, raises(ValueError, "skip", stack, x, skip)
    report = calls(code, draw, [1, BLOCKS])
    what = "the list of how often each block is called although skip is refused"
    yield what, entry(report, "called")


# --- plain_containers ----------------------------------------------------------------------------


@promise(
    "plain_containers",
    points=5,
    hint="isinstance(value, (list, tuple, dict)), with an nn.Module or nn.Parameter in it.",
)
def test_plain_found(code: Student, draw: Draw) -> Cases:
    """Lists, tuples and dicts, subclasses too, are found if they hold a module or a Parameter."""
    kinds = [*HIDING, "list of numbers"]
    attributes = dict(zip(sample(draw, WORDS, len(kinds)), kinds, strict=True))
    yield from names_in(code, code.made("holding", {"": attributes}))


@promise(
    "plain_containers",
    points=4,
    hint='named_modules() gives "" for the model itself and dotted names for the others.',
    after="test_plain_found",
)
def test_plain_names(code: Student, draw: Draw) -> Cases:
    """Containers of submodules are found, too, under dotted names."""
    first, second, third = sample(draw, SUBMODULES, 3)
    a, b, c, d = sample(draw, WORDS, 4)
    parts = {
        "": {a: "list", b: "list"},
        first: {c: "dict", d: "dict"},
        f"{second}.{third}": {a: "dict", b: "dict"},
    }
    yield from names_in(code, code.made("holding", parts))


@promise(
    "plain_containers",
    hint="The submodules are in named_modules(): convert no lists while you look.",
    after="test_plain_names",
)
def test_plain_registered(code: Student, draw: Draw) -> Cases:
    """A registered module is looked into, even if it is also in a plain list."""
    model = code.made("sharing", sample(draw, SUBMODULES, 2), sample(draw, WORDS, 2))
    yield from names_in(code, model)


@promise(
    "plain_containers",
    points=4,
    hint="Leave out names that begin with an underscore, and look at the contents of a container.",
)
def test_plain_not_others(code: Student, draw: Draw) -> Cases:
    """Underscores, containers of other things and PyTorch's own containers are not reported."""
    kinds = [*OTHERS, "list", "list"]
    names = sample(draw, WORDS, len(kinds))
    names[-1] = f"_{names[-1]}"
    yield from names_in(code, code.made("holding", {"": dict(zip(names, kinds, strict=True))}))


# --- helpers of the tests ------------------------------------------------------------------------


def sample(draw: Draw, options: Sequence[Any], count: int) -> list[Any]:
    """`count` of the options, in a drawn order."""
    return [options[place] for place in draw.permutation(len(options))[:count].tolist()]


def new_widths(draw: Draw) -> list[int]:
    """Four widths or more, all of them different."""
    return sample(draw, range(2, 9), draw.size(4, 7))


def new_mlp(code: Student, draw: Draw) -> Any:
    """An MLP with drawn weights."""
    return draw.fill(code.module("MLP", WIDTHS))


def new_stack(code: Student, draw: Draw) -> Any:
    """A stack of the probe's blocks."""
    blocks = [code.made("block", draw.normal(FEATURES)) for _ in range(BLOCKS)]
    return code.module("ResidualStack", blocks)


def kept(code: Student, how: str, blocks: Any) -> Cases:
    """The class of a stack's `blocks`, and the weights in it."""
    report = code.run("blocks_of", blocks)
    yield "the class of blocks", entry(report, "class")
    yield f"the list of the weights of blocks, {how},", entry(report, "weights")


def calls(code: Student, draw: Draw, skip: list[int]) -> Any:
    """The probe's report on how a forward pass of a new stack calls its blocks."""
    weights: list[Tensor] = list(draw.normal(BLOCKS, FEATURES))
    return code.run("calls", weights, draw.normal(4, FEATURES), skip)


def names_in(code: Student, model: Any) -> Cases:
    """The names that plain_containers reports for a model, in any order. The model may not change."""
    result = laws.check_changes_nothing(code, "plain_containers", model)
    names = entry(
        result, kind=(list, tuple), told="plain_containers has to return a list of names."
    )
    yield "the text of the sorted names in the result", " ".join(sorted(map(str, names)))
