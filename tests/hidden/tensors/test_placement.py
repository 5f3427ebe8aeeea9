"""Tests of to_device, unregistered and misplaced."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# Floating-point, integer, bool and complex.
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
]
# The ways in which the probe's model holds a tensor. .to() moves what is registered ("cache" is a buffer
# that is not persistent) and leaves behind what is plain.
REGISTERED = ("parameter", "frozen", "buffer", "cache")
PLAIN = ("plain", "_hidden", "integer", "trained", "empty")


class Sample(NamedTuple):
    """What the probe's Sample is."""

    image: Any
    label: Any


# --- to_device ------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_device")
@pytest.mark.hint(
    "tensor.to(device) moves a tensor; for a container, build a new one of the moved entries."
)
def test_moves(student: Student) -> None:
    """A tensor, and every tensor in a dict, list or tuple, is moved; containers keep their kind."""
    x, y = new_tensors()
    check_moved(student, x)
    check_moved(student, {"x": x, "label": y, 3: x[0]})
    check_moved(student, [x, y])
    check_moved(student, (x, y))
    check_moved(student, [y, x], sent=[y, student.made("parameter", x)])
    check_moved(student, x, device=student.made("device", "meta"))


@pytest.mark.points(6)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Call to_device again for every entry, whatever it is.")
def test_nested(student: Student) -> None:
    """Containers may be nested to any depth."""
    x, y = new_tensors()
    check_moved(student, {"views": [(x, y), [x[0], {"z": (y,)}]], "id": 7, "none": None})


@pytest.mark.points(6)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("A tuple with _fields is a NamedTuple, and type(batch)(*values) builds one.")
def test_named_tuples(student: Student) -> None:
    """A NamedTuple comes back as one of the same type."""
    x, y = new_tensors()
    check_moved(student, Sample(x, y), sent=student.made("sample", x, y))
    check_moved(student, [Sample([x], y)], sent=[student.made("sample", [x], y)])


@pytest.mark.points(36)
@pytest.mark.requires("test_nested")
@pytest.mark.place("to_device")
@pytest.mark.hint("Cast only where tensor.is_floating_point(): a label has to stay an integer.")
def test_dtype(student: Student) -> None:
    """Floating-point tensors are cast to dtype; integer, bool and complex ones keep theirs."""
    x, _ = new_tensors()
    numbers = of_every_dtype()
    for dtype in (torch.float64, torch.bfloat16):
        right = [cast(x, dtype), {name: cast(t, dtype) for name, t in numbers.items()}]
        live_dtype = laws.shipped(student, "value").made(str(dtype))
        moved = student.function("to_device")([x, numbers], "cpu", live_dtype)
        assert_close(moved, right, what=f"the batch cast to {dtype}")


@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Without a dtype only the device changes.")
def test_no_dtype(student: Student) -> None:
    """Without a dtype, and with None, every dtype is kept."""
    numbers = of_every_dtype()
    moved = student.function("to_device")(numbers, "cpu")
    assert_close(moved, numbers, what="the batch without a dtype")
    moved = student.function("to_device")(numbers, "cpu", None)
    assert_close(moved, numbers, what="the batch with None for the dtype")


@pytest.mark.points(4)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that an object is the same")
@pytest.mark.hint("Return the batch itself where it is neither a tensor nor one of the containers.")
def test_other_values(student: Student) -> None:
    """None, numbers, strings and anything else are passed on as the same object."""
    names = ["None", "a large number", "a string", "an array", "an object"]
    random.shuffle(names)
    answers = student.run("passed_on", names)
    assert_equal(answers, dict.fromkeys(names, True), what="whether the object is the same")


@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build an empty container of the same kind.")
def test_empty(student: Student) -> None:
    """Containers and tensors may be empty."""
    check_moved(student, [])
    check_moved(student, {"list": [], "dict": {}, "tuple": (), "x": torch.ones(0, 3)})


@pytest.mark.points(5)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build new containers; neither assign to batch[key] nor cast a tensor in place.")
def test_leaves_batch(student: Student) -> None:
    """The batch itself stays as it is: its containers, and the tensors in them."""
    x, y = new_tensors()
    dtype = laws.shipped(student, "value").made("torch.float64")
    for batch in ({"x": x, "inner": {"y": y}}, [x, [x[0], y]]):
        laws.check_changes_nothing(student, "to_device", batch, "cpu", dtype)


@pytest.mark.points(3)
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Ask dtype.is_floating_point before you cast.")
def test_bad_dtype(student: Student) -> None:
    """A dtype that is not floating-point is a ValueError that names dtype."""
    dtype = laws.shipped(student, "value")
    x = torch.ones(2)
    names = ("int64", "bool", "complex64")
    bad = [(x, "cpu", dtype.made(f"torch.{name}")) for name in names]
    fine = (x, "cpu", dtype.made("torch.float64"))
    laws.check_errors(student, "to_device", {"dtype": bad}, fine=fine)


# --- unregistered ---------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "For each path, submodule of named_modules(): which values of vars(submodule) are tensors?"
)
def test_unregistered(student: Student) -> None:
    """Tensors that are plain attributes of a submodule are named, parameters and buffers are not."""
    held = new_model(["parameter", "buffer", "plain"])
    check_unregistered(student, held)


@pytest.mark.points(5)
@pytest.mark.requires("test_unregistered")
@pytest.mark.place("unregistered")
@pytest.mark.hint("vars(submodule), of the module itself, too; every torch.Tensor in it counts.")
def test_unregistered_of_any_kind(student: Student) -> None:
    """All plain tensors of the module and its submodules are named, whatever their dtype and name."""
    held = new_model(REGISTERED + PLAIN)
    check_unregistered(student, held)


@pytest.mark.points(3)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "Where no plain attribute is a tensor, the list is empty. Look only; move nothing."
)
def test_all_registered(student: Student) -> None:
    """Where nothing is left behind the list is empty; tensors on meta count; nothing is changed."""
    held = new_model(["parameter", "buffer", "plain"])
    model = student.made("model", held, {})
    laws.check_changes_nothing(student, "unregistered", model)
    check_unregistered(student, new_model(REGISTERED))
    check_unregistered(student, new_model(["plain"]))
    check_unregistered(student, held, where=dict.fromkeys(half_of(held), "meta"))


# --- misplaced ------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("misplaced")
@pytest.mark.hint("named_parameters() and named_buffers(): compare the device of each tensor.")
def test_misplaced(student: Student) -> None:
    """Every parameter and every buffer that is not on the device is named."""
    held = new_model(["parameter", "frozen", "buffer"])
    check_misplaced(student, held, on_meta=half_of(held))
    check_misplaced(student, held, on_meta=[])


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Plain attributes are the third source of tensors, beside parameters and buffers."
)
def test_misplaced_plain(student: Student) -> None:
    """Plain attributes that are not on the device are named, too."""
    held = new_model(["parameter", "plain"])
    check_misplaced(student, held, on_meta=of_kind(held, ["plain"]))
    check_misplaced(student, held, on_meta=half_of(held))


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Buffers that are not persistent are in named_buffers(), but not in the state dict."
)
def test_misplaced_of_any_kind(student: Student) -> None:
    """Buffers that are not persistent are named, and tensors of any dtype, with any name, at the root."""
    held = new_model(REGISTERED + PLAIN)
    check_misplaced(student, held, on_meta=half_of(held))


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Compare device.type; compare the index only where one is given, and not for the CPU."
)
def test_devices(student: Student) -> None:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    held = new_model(["parameter", "frozen", "buffer"])
    every = sorted(held)
    on_cuda_1 = half_of(held)
    on_cpu = [name for name in every if name not in on_cuda_1]
    model = student.made("model", held, dict.fromkeys(on_cuda_1, "cuda:1"))
    misplaced = {
        "cpu": on_cuda_1,
        "cpu:0": on_cuda_1,
        "cuda": on_cpu,
        "cuda:1": on_cpu,
        "cuda:0": every,
        "mps": every,
    }
    for device, right in misplaced.items():
        names = student.function("misplaced")(model, device)
        check_names(names, right, held, f'not on "{device}", where half is on cuda:1')
    names = student.function("misplaced")(model, student.made("device", "cuda:1"))
    check_names(names, on_cpu, held, 'not on torch.device("cuda:1")')


@pytest.mark.points(2)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Only look at the tensors: module.to(device) moves them.")
def test_misplaced_changes_nothing(student: Student) -> None:
    """Nothing is changed, and a module without tensors gives an empty list."""
    held = new_model(["parameter", "frozen", "buffer"])
    for device in ("cpu", "meta"):
        model = student.made("model", held, {})
        laws.check_changes_nothing(student, "misplaced", model, device)
    names = student.function("misplaced")(student.made("model", {}, {}), "cpu")
    assert_equal(names, [], what="the list of names of a module without tensors")


# --- what is right --------------------------------------------------------------------------------


def new_tensors() -> tuple[Tensor, Tensor]:
    """Inputs and labels, of sizes that are drawn."""
    rows, columns, count = (random.randint(2, 9) for _ in range(3))
    return torch.randn(rows, columns), torch.randint(9, (count,))


def described(value: Any, device: str, path: str = "batch") -> dict[str, str]:
    """What each entry of a batch is, by its path, with all tensors on this device."""
    if isinstance(value, Tensor):
        return {path: f"{value.dtype} of shape {tuple(value.shape)} on {device}"}
    if not isinstance(value, (dict, list, tuple)):
        return {path: repr(value)}
    entries = {path: type(value).__name__}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        entries |= described(part, device, f"{path}[{key!r}]")
    return entries


def check_moved(student: Student, batch: Any, *, sent: Any = None, device: Any = "meta") -> None:
    """Compare what each entry of a batch is once it was moved to meta; `sent` is it with live parts."""
    entries = student.run("moved", batch if sent is None else sent, device)
    assert_equal(entries, described(batch, "meta"), what="what was moved")


def of_every_dtype() -> dict[str, Tensor]:
    """A tensor of each dtype, by its name, with values that are drawn."""
    numbers = torch.randint(9, (6,)) / 2
    return {str(dtype): numbers.to(dtype) for dtype in DTYPES}


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in this dtype, if it is a floating-point tensor."""
    return x.to(dtype) if x.is_floating_point() else x


def new_model(kinds: Sequence[str]) -> dict[str, str]:
    """The dotted names of a model's tensors, and how each is held: all kinds in the root and two parts."""
    paths = ["", f"encoder{random.randrange(10)}.", f"layers.{random.randrange(10)}."]
    held = {}
    for path in paths:
        for kind in kinds:
            held[f"{path}{kind}{random.randrange(10)}"] = kind
    return held


def of_kind(held: dict[str, str], kinds: Sequence[str]) -> list[str]:
    """The sorted names of the tensors that are held in one of these ways."""
    return sorted(name for name, kind in held.items() if kind in kinds)


def half_of(held: dict[str, str]) -> list[str]:
    """Half of the names, at random: one or two of each kind."""
    chosen = []
    for kind in dict.fromkeys(held.values()):
        chosen += random.sample(of_kind(held, [kind]), random.randint(1, 2))
    return sorted(chosen)


def by_kind(names: Any, held: dict[str, str]) -> dict[str, list[Any]]:
    """The names of a list, by how the model holds each tensor."""
    kinds: dict[str, list[Any]] = {"unknown": []}
    kinds |= {kind: [] for kind in held.values()}
    for name in entry(names, kind=(list, tuple), told="The names do not come as a list."):
        kind = held.get(entry(name, kind=str), "unknown")
        kinds[kind].append(name)
    return kinds


def check_names(names: Any, right: list[str], held: dict[str, str], what: str) -> None:
    """Compare a list of names, and their order."""
    what = f"the names of what is {what}"
    assert_equal(by_kind(names, held), by_kind(right, held), what=f"{what}, by how it is held,")
    assert_equal(names, right, what=what)


def check_unregistered(
    student: Student, held: dict[str, str], where: dict[str, str] | None = None
) -> None:
    """Compare the names of the plain tensors of a model."""
    names = student.function("unregistered")(student.made("model", held, where or {}))
    check_names(names, of_kind(held, PLAIN), held, "unregistered")


def check_misplaced(student: Student, held: dict[str, str], on_meta: list[str]) -> None:
    """Compare what is not on cpu, and what is not on meta, of a model that is partly on meta."""
    model = student.made("model", held, dict.fromkeys(on_meta, "meta"))
    on_cpu = sorted(name for name in held if name not in on_meta)
    not_on_cpu = student.function("misplaced")(model, "cpu")
    check_names(not_on_cpu, on_meta, held, 'not on "cpu"')
    not_on_meta = student.function("misplaced")(model, "meta")
    check_names(not_on_meta, on_cpu, held, 'not on "meta"')
