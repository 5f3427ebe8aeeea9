"""Tests of LoRALinear, and of models that are adapted with it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises, within
from grader.judge.student import Student

# Most tests use a rank and an alpha of 1 and a base without a bias, which other tests judge.
IN, OUT, RANK = 6, 4, 1
# Tolerances for sums in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
# Names of layers to adapt. Only test_replaces has one that is the end of another name.
NAMES = (["value", "output"], ["output", "head"])
SIMILAR = ["query", "output"]


# --- the layer -----------------------------------------------------------------------------------


@promise(
    "LoRALinear.__init__",
    points=4,
    hint="self.B = nn.Parameter(torch.zeros(out, rank)).",
    word="the base alone gives the same",
)
def test_start(code: Student, draw: Draw) -> Cases:
    """A new layer computes what its base does, with and without a bias."""
    for bias in (draw.normal(OUT), None):
        output = code.run("first_output", draw.normal(OUT, IN), bias, draw.normal(5, IN))
        what = "the output of a new layer " + ("without" if bias is None else "with") + " a bias"
        yield what, within(output, **SUMS)


@promise(
    "LoRALinear.__init__", points=2, hint="A may come from torch.randn or nn.init: only not zeros."
)
def test_starts_random(student: Student) -> None:
    """A starts random, and differs in each new layer."""
    base = student.made("plain", OUT, IN)
    laws.check_starts_random(student, "LoRALinear", base, 2, 1.0, name="A")
    laws.check_filled(student, "LoRALinear", base, 2, 1.0)


@promise(
    "LoRALinear.__init__",
    points=3,
    hint="base.requires_grad_(False), and two parameters.",
)
def test_only_a_and_b_learn(code: Student, draw: Draw) -> Cases:
    """A and B get gradients, and so does x; weight and bias of the base get none."""
    x, incoming = draw.normal(5, IN), draw.normal(5, OUT)
    gradients = code.run("gradients", {**numbers(draw), "bias": draw.normal(OUT)}, x, incoming)
    yield "the gradients of x and of all parameters that require one", within(gradients, **SUMS)


@promise(
    "LoRALinear.__init__", hint="base.weight.new_zeros(out, rank) has its dtype and its device."
)
def test_dtype(code: Student, draw: Draw) -> Cases:
    """A and B have the dtype of the base's weight."""
    wide, x = numbers(draw, dtype=torch.float64), draw.normal(5, IN, dtype=torch.float64)
    yield "the output of a float64 layer", code.run("output", wide, 1.0, x)


@promise(
    "LoRALinear.__init__",
    hint="if rank < 1: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_rank(code: Student, draw: Draw) -> Cases:
    """A rank below 1 is a ValueError that names it."""
    for rank in (0, -1):
        arguments = code.made("plain", OUT, draw.size()), rank, 1.0
        yield (
            f"LoRALinear with rank = {rank}",
            raises(ValueError, "rank", code.module, "LoRALinear", *arguments),
        )


@promise("LoRALinear.forward", points=6, hint="self.base(x) + (x @ A.T @ B.T) * alpha / rank.")
def test_forward(code: Student, draw: Draw) -> Cases:
    """The change is added to the base's output."""
    for leading in [(5,), (2, 3), ()]:
        output = code.run("output", numbers(draw), float(RANK), draw.normal(*leading, IN))
        yield f"the output for an x of shape {(*leading, IN)}", within(output, **SUMS)


@promise("LoRALinear.forward", points=3, hint="The factor is alpha / rank.")
def test_scale(code: Student, draw: Draw) -> Cases:
    """The change is multiplied by alpha / rank."""
    alpha, rank = draw.number(4.0, 9.0), draw.size(2, 6)
    output = code.run("output", numbers(draw, rank), alpha, draw.normal(5, IN))
    yield f"the output for alpha = {alpha:.2f} and rank = {rank}", within(output, **SUMS)


# --- merging -------------------------------------------------------------------------------------


@promise(
    "LoRALinear.merge",
    points=5,
    hint="with torch.no_grad(): self.base.weight += scale * B @ A.",
)
def test_merge(code: Student, draw: Draw) -> Cases:
    """merge adds the change to the base's weight, in place, and the output stays the same."""
    yield "the list of output and weight after merge()", merged(code, draw, ["merge"])


@promise(
    "LoRALinear.merge",
    points=2,
    hint="What forward adds, merge adds: with the same factor alpha / rank.",
)
def test_merge_scales(code: Student, draw: Draw) -> Cases:
    """The change that is merged is multiplied by alpha / rank."""
    alpha, rank = draw.number(6.0, 9.0), 3
    report = code.run("merges", numbers(draw, rank), alpha, draw.normal(5, IN), ["merge"])
    weight = within(entry(report, 0, "weight"), **SUMS)
    yield f"the weight after merge(), for alpha = {alpha:.2f} and rank = {rank}", weight


@promise(
    "LoRALinear.unmerge",
    points=4,
    hint="Subtract the change that merge added, and remember whether the layer is merged.",
)
def test_unmerge(code: Student, draw: Draw) -> Cases:
    """After merging and unmerging, weight and output are what they were."""
    yield (
        "the list of output and weight after merge() and unmerge()",
        merged(code, draw, ["merge", "unmerge"]),
    )


@promise("LoRALinear", points=2, hint="Keep a flag: merge only if the layer is not merged yet.")
def test_twice(code: Student, draw: Draw) -> Cases:
    """Merging a merged layer changes nothing, nor does unmerging one that is not merged."""
    calls = ["unmerge", "merge", "merge", "unmerge", "unmerge"]
    report = code.run("merges", numbers(draw, 3), 3.0, draw.normal(5, IN), calls)
    yield "output and weight after " + ", ".join(calls), within(report, **SUMS)


# --- models --------------------------------------------------------------------------------------


@promise(
    "add_lora",
    points=5,
    hint="setattr(model.get_submodule(parent), name, LoRALinear(...)) for each path.",
)
def test_replaces(code: Student, draw: Draw) -> Cases:
    """Each linear layer with one of the names is replaced, however deep it is, and no other."""
    for names in (*NAMES, SIMILAR):
        report = code.run("adapted", plan(draw, names), draw.normal(5, 3))
        yield f"the layers replaced for {names}", entry(report, "replaced")


@promise("add_lora", points=4, hint="model.requires_grad_(False) before you replace anything.")
def test_freezes(code: Student, draw: Draw) -> Cases:
    """Only A and B of the new layers require a gradient."""
    for names in NAMES:
        report = code.run("adapted", plan(draw, names), draw.normal(5, 3))
        yield f"the parameters that learn, for {names}", entry(report, "learns")


@promise(
    "add_lora",
    points=3,
    hint="The old layer is the base of the new one.",
    word="a model that is left alone computes the same",
)
def test_computes_the_same(code: Student, draw: Draw) -> Cases:
    """The model computes what it did before."""
    report = code.run("adapted", plan(draw, ["value", "head"]), draw.normal(5, 3))
    yield "the output after add_lora", within(entry(report, "after"), **SUMS)


@promise(
    "add_lora",
    points=2,
    hint="Find all layers first; then check that every name was found; then change.",
    word="the sandbox says that it raised",
)
def test_unknown_name(code: Student, draw: Draw) -> Cases:
    """A name that no linear layer has is a ValueError, and the model is not changed."""
    for name in ("key", "norm"):
        yield (
            f"the result of add_lora for ['value', '{name}']",
            code.run("refused", plan(draw, ["value", name])),
        )


@promise(
    "lora_state_dict", points=4, hint='f"{path}.A" and f"{path}.B", for each LoRALinear at path.'
)
def test_state_dict(code: Student, draw: Draw) -> Cases:
    """The dict has A and B of each adapted layer, by their dotted names, and nothing else."""
    for names in NAMES:
        yield f"the state for {names}", code.run("saved", plan(draw, names))


# --- helpers of the tests ------------------------------------------------------------------------


def numbers(
    draw: Draw, rank: int = RANK, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor | None]:
    """Draw weight, A and B of a layer whose base has no bias."""
    shapes = {"weight": (OUT, IN), "A": (rank, IN), "B": (OUT, rank)}
    drawn = {name: draw.normal(*shape, dtype=dtype) for name, shape in shapes.items()}
    return {**drawn, "bias": None}


def merged(code: Student, draw: Draw, calls: list[str]) -> Any:
    """Return output and weight after each of these calls."""
    report = code.run("merges", numbers(draw), float(RANK), draw.normal(5, IN), calls)
    return within(report, **SUMS)


def plan(draw: Draw, names: list[str]) -> dict[str, Any]:
    """Draw the plan of a model, with the names of the layers to adapt."""
    return {"seed": draw.seed(), "width": 4, "depth": draw.size(1, 5), "names": names}
