"""Tests of to_device, unregistered and misplaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

# The tensors of one of the probe's models: the kind of each, by its dotted name.
Held = dict[str, str]
# The dtypes of most batches, and less common ones.
COMMON = (torch.float32, torch.float64, torch.int64)
RARE = (torch.float16, torch.bfloat16, torch.uint8, torch.bool, torch.complex64)
NOT_FLOATING = (torch.int64, torch.bool, torch.complex64)
# The kinds of tensors in the probe's models. .to() moves the registered ones ("cache" is a buffer that is not
# persistent) and leaves the plain ones behind.
REGISTERED = ("parameter", "frozen", "buffer", "cache")
PLAIN = ("plain", "_hidden", "integer", "trained", "empty")


# --- to_device ------------------------------------------------------------------------------------


@promise(
    "to_device",
    points=8,
    hint="tensor.to(device) moves a tensor; for a container, build a new one of the moved entries.",
)
def test_moves(code: Student, draw: Draw) -> Cases:
    """A tensor, and every tensor in a dict, list or tuple, is moved; containers keep their kind."""
    x, y = new_tensors(draw)
    batches = {
        "a tensor": x,
        "a dict": {"x": x, "label": y, 3: x[0]},
        "a list": [x, y],
        "a tuple": (x, y),
        "a Parameter": code.made("parameter", x),
    }
    for name, batch in batches.items():
        yield f"{name} on meta", code.run("moved", batch, "meta")
    yield 'a tensor on torch.device("meta")', code.run("moved", x, code.made("device", "meta"))


@promise(
    "to_device",
    points=7,
    hint="Call to_device again for every entry, whatever it is, and for none at all.",
    after="test_moves",
)
def test_nested(code: Student, draw: Draw) -> Cases:
    """Containers may be nested to any depth, and empty."""
    x, y = new_tensors(draw)
    batch = {"views": [(x, y), [x[:0], {"z": (y,)}]], "empty": [[], {}, ()]}
    yield "the nested batch on meta", code.run("moved", batch, "meta")


@promise(
    "to_device",
    points=6,
    hint="A tuple with _fields is a NamedTuple, and type(batch)(*values) builds one.",
    after="test_moves",
)
def test_named_tuples(code: Student, draw: Draw) -> Cases:
    """A NamedTuple comes back as a NamedTuple of the same type."""
    x, y = new_tensors(draw)
    yield "a NamedTuple on meta", code.run("moved", code.made("sample", x, y), "meta")
    inner = [code.made("sample", [x], y)]
    yield "a list of a NamedTuple on meta", code.run("moved", inner, "meta")


@promise(
    "to_device",
    points=30,
    hint="Cast only where tensor.is_floating_point(): a label has to stay an integer.",
    after="test_moves",
)
def test_dtype(code: Student, draw: Draw) -> Cases:
    """Floating-point tensors are cast to dtype, in containers, too; integer labels keep theirs."""
    yield from casts(code, draw, COMMON)


@promise(
    "to_device",
    points=6,
    hint="Ask tensor.is_floating_point(), which is False for bool and for complex numbers.",
    after="test_dtype",
)
def test_dtype_of_any_tensor(code: Student, draw: Draw) -> Cases:
    """float16 and bfloat16 tensors are cast, too; uint8, bool and complex ones keep their dtype."""
    yield from casts(code, draw, RARE)


@promise("to_device", hint="Without a dtype only the device changes.", after="test_moves")
def test_no_dtype(code: Student, draw: Draw) -> Cases:
    """Without a dtype, and with None, every dtype is kept."""
    numbers = numbers_of(draw, COMMON + RARE)
    for given in ((), (None,)):
        yield "the batch without a dtype", code.function("to_device")(numbers, "cpu", *given)


@promise(
    "to_device",
    points=4,
    hint="Return the batch itself if it is neither a tensor nor one of the containers.",
    after="test_moves",
    word="the sandbox says that an object is the same",
)
def test_other_values(code: Student, draw: Draw) -> Cases:
    """None, numbers, strings and anything else are passed on as the same object."""
    yield "the dict of objects that are the same", code.run("passed_on")


@promise(
    "to_device",
    points=5,
    hint="Build new containers; neither assign to batch[key] nor cast a tensor in place.",
    after="test_moves",
)
def test_leaves_batch(student: Student) -> None:
    """The batch itself stays as it is: its containers, and the tensors in them."""
    x, y = new_tensors(Draw(student.draw_seed))
    dtype = made_dtype(student, torch.float64)
    for batch in ({"x": x, "inner": {"y": y}}, [x, [x[0], y]]):
        laws.check_changes_nothing(student, "to_device", batch, "cpu", dtype)


@promise(
    "to_device",
    points=3,
    hint="Ask dtype.is_floating_point before you cast.",
    after="test_moves",
    word="the sandbox says that it raised",
)
def test_bad_dtype(code: Student, draw: Draw) -> Cases:
    """A dtype that is not floating-point is a ValueError that names dtype."""
    for dtype in NOT_FLOATING:
        call = (code.function("to_device"), torch.ones(2), "cpu", made_dtype(code, dtype))
        yield f"to_device with {dtype}", raises(ValueError, "dtype", *call)


# --- unregistered ---------------------------------------------------------------------------------


@promise(
    "unregistered",
    points=8,
    hint="For each path, submodule of named_modules(): which values of vars(submodule) are tensors?",
)
def test_unregistered(code: Student, draw: Draw) -> Cases:
    """Tensors that are plain attributes of a submodule are named; parameters and buffers are not."""
    yield unregistered(code, new_model(draw, ["parameter", "buffer", "plain"]))


@promise(
    "unregistered",
    points=5,
    hint="vars(submodule), of the module itself, too; every torch.Tensor in it counts.",
    after="test_unregistered",
)
def test_unregistered_of_any_kind(code: Student, draw: Draw) -> Cases:
    """All plain tensors of the module and its submodules are named, whatever their dtype and name."""
    for kinds in (REGISTERED + PLAIN, PLAIN):
        yield unregistered(code, new_model(draw, kinds))


@promise(
    "unregistered",
    points=3,
    hint="Where no plain attribute is a tensor, the list is empty. Look only; move nothing.",
)
def test_all_registered(code: Student, draw: Draw) -> Cases:
    """If nothing is left behind, the list is empty; tensors on meta count; nothing is changed."""
    held = new_model(draw, ["parameter", "buffer", "plain"])
    laws.check_changes_nothing(code, "unregistered", code.made("model", held, {}))
    yield unregistered(code, new_model(draw, REGISTERED))
    yield unregistered(code, held, dict.fromkeys(of_kind(held, "plain"), "meta"))


@promise("unregistered", hint="sorted(names)", after="test_unregistered")
def test_unregistered_sorted(code: Student, draw: Draw) -> Cases:
    """The names are sorted."""
    model = code.made("model", new_model(draw, PLAIN), {})
    yield "the list of names", code.function("unregistered")(model)


# --- misplaced ------------------------------------------------------------------------------------


@promise(
    "misplaced",
    points=12,
    hint="named_parameters() and named_buffers(): compare the device of each tensor.",
)
def test_misplaced(code: Student, draw: Draw) -> Cases:
    """Every parameter and every buffer that is not on the device is named."""
    yield from misplaced(code, draw, ["parameter", "frozen", "buffer"])


@promise(
    "misplaced",
    points=6,
    hint="Plain attributes are the third source of tensors, beside parameters and buffers.",
    after="test_misplaced",
)
def test_misplaced_plain(code: Student, draw: Draw) -> Cases:
    """Plain attributes that are not on the device are named, too."""
    yield from misplaced(code, draw, ["parameter", *PLAIN])


@promise(
    "misplaced",
    points=6,
    hint="Buffers that are not persistent are in named_buffers(), but not in the state dict.",
    after="test_misplaced",
)
def test_misplaced_not_persistent(code: Student, draw: Draw) -> Cases:
    """Buffers that are not persistent are named, too."""
    yield from misplaced(code, draw, ["buffer", "cache"])


@promise(
    "misplaced",
    points=6,
    hint="Compare device.type; compare the index only where one is given, and not for the CPU.",
    after="test_misplaced",
)
def test_devices(code: Student, draw: Draw) -> Cases:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    held = new_model(draw, ["parameter", "frozen", "buffer"])
    model = code.made("model", held, dict.fromkeys(some_of(draw, held), "cuda:1"))
    for device in ("cpu", "cpu:0", "cuda", "cuda:1", "cuda:0", "mps"):
        yield not_on(code, model, device)
    found = code.function("misplaced")(model, code.made("device", "cuda:1"))
    yield 'the names of tensors that are not on torch.device("cuda:1")', in_any_order(found)


@promise("misplaced", hint="sorted(names)", after="test_misplaced")
def test_misplaced_sorted(code: Student, draw: Draw) -> Cases:
    """The names are sorted."""
    model = code.made("model", new_model(draw, REGISTERED + PLAIN), {})
    yield "the list of names", code.function("misplaced")(model, "meta")


@promise(
    "misplaced",
    points=2,
    hint="Only look at the tensors: module.to(device) moves them.",
    after="test_misplaced",
)
def test_misplaced_changes_nothing(code: Student, draw: Draw) -> Cases:
    """Nothing is changed, and a module without tensors gives an empty list."""
    model = code.made("model", new_model(draw, ["parameter", "frozen", "buffer"]), {})
    laws.check_changes_nothing(code, "misplaced", model, "meta")
    found = code.function("misplaced")(code.made("model", {}, {}), "cpu")
    yield "the list of names of a module without tensors", found


# --- batches --------------------------------------------------------------------------------------


def new_tensors(draw: Draw) -> tuple[Tensor, Tensor]:
    """Inputs and labels of drawn sizes."""
    sizes = [draw.size(2, 10) for _ in range(3)]
    return draw.normal(*sizes[:2]), draw.integers(sizes[2], high=9)


def made_dtype(code: Student, dtype: torch.dtype) -> Made:
    """A dtype, made in the sandbox because it cannot be sent."""
    return laws.shipped(code, "value").made(str(dtype))


def numbers_of(draw: Draw, dtypes: Sequence[torch.dtype]) -> dict[str, Tensor]:
    """A tensor of each dtype, by its name."""
    numbers = draw.integers(6, high=9) / 2
    return {str(dtype): numbers.to(dtype) for dtype in dtypes}


def casts(code: Student, draw: Draw, dtypes: Sequence[torch.dtype]) -> Cases:
    """A batch with tensors of these dtypes, cast to others."""
    batch = [draw.normal(3), numbers_of(draw, dtypes)]
    for dtype in (torch.float64, torch.bfloat16):
        cast = code.function("to_device")(batch, "cpu", made_dtype(code, dtype))
        yield f"the batch cast to {dtype}", cast


# --- models ---------------------------------------------------------------------------------------


def new_model(draw: Draw, kinds: Sequence[str]) -> Held:
    """A model with a tensor of each of these kinds in itself and in two submodules, under drawn names."""
    paths = ["", f"encoder{draw.size(0, 10)}.", f"layers.{draw.size(0, 10)}."]
    return {f"{path}{kind}{draw.size(0, 10)}": kind for path in paths for kind in kinds}


def of_kind(held: Held, kind: str) -> list[str]:
    return [name for name, own in held.items() if own == kind]


def some_of(draw: Draw, held: Held) -> list[str]:
    """The names of one or two of the three tensors of each kind."""
    names: list[str] = []
    for kind in dict.fromkeys(held.values()):
        own = of_kind(held, kind)
        names += [own[place] for place in draw.permutation(3)[: draw.size(1, 3)].tolist()]
    return names


def unregistered(
    code: Student, held: Held, devices: dict[str, str] | None = None
) -> tuple[str, Any]:
    """The names that unregistered gives for a model, in any order."""
    names = code.function("unregistered")(code.made("model", held, devices or {}))
    return "the names of unregistered tensors", in_any_order(names)


def misplaced(code: Student, draw: Draw, kinds: Sequence[str]) -> Cases:
    """The tensors that are not on cpu, and those not on meta, of a model that is partly on meta."""
    held = new_model(draw, kinds)
    model = code.made("model", held, dict.fromkeys(some_of(draw, held), "meta"))
    for device in ("cpu", "meta"):
        yield not_on(code, model, device)


def not_on(code: Student, model: Made, device: str) -> tuple[str, Any]:
    """The names that misplaced gives, in any order."""
    names = code.function("misplaced")(model, device)
    return f"the names of tensors that are not on {device}", in_any_order(names)


def in_any_order(names: Any) -> dict[str, bool]:
    """The names as keys of a dict, so that a message tells which one is missing."""
    listed = entry(names, kind=(list, tuple), told="The names do not come as a list.")
    return {entry(name, kind=str): True for name in listed}
