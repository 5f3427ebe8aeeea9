"""Tests of to_device, unregistered and misplaced."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

# The tensors that a model of the probe holds: the kind of each, by its dotted name.
Held = dict[str, str]
# The dtypes of most batches, and further ones: floating-point ones, and others.
COMMON_FLOATING, COMMON_OTHER = (torch.float32, torch.float64), (torch.int64,)
RARE_FLOATING = (torch.float16, torch.bfloat16)
RARE_OTHER = (torch.uint8, torch.bool, torch.complex64)
# The kinds of tensors that a model of the probe may hold. .to() moves what is registered ("cache" is a buffer
# that is not persistent) and leaves behind what is plain.
REGISTERED = ("parameter", "frozen", "buffer", "cache")
PLAIN = ("plain", "_hidden", "integer", "trained", "empty")
# What the probe's `passed_on` puts into a batch beside a tensor.
OTHERS = ("None", "a large number", "a string", "an object", "an array")


class Sample(NamedTuple):
    """What the probe's Sample is, with the same words."""

    image: Any
    label: Any

    def __repr__(self) -> str:
        return f"a sample: {self.image}, {self.label}"


# --- to_device ------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_device")
@pytest.mark.hint(
    "tensor.to(device) moves a tensor; for a container, build a new one of the moved entries."
)
def test_moves(student: Student) -> None:
    """A tensor, and every tensor in a dict, list or tuple, is moved; containers keep their kind."""
    tensors, on_meta = new_tensors()
    for batch, right in zip(containers(*tensors), containers(*on_meta), strict=True):
        check_moved(student, batch, right)
    check_moved(student, student.made("parameter", tensors[0]), on_meta[0])
    check_moved(student, tensors[0], on_meta[0], device=student.made("device", "meta"))


@pytest.mark.points(7)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Call to_device again for every entry, whatever it is, and for none at all.")
def test_nested(student: Student) -> None:
    """Containers may be nested to any depth, and empty."""
    tensors, on_meta = new_tensors()
    check_moved(student, nested(*tensors), nested(*on_meta))


@pytest.mark.points(6)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("A tuple with _fields is a NamedTuple, and type(batch)(*values) builds one.")
def test_named_tuples(student: Student) -> None:
    """A NamedTuple comes back as one of the same type."""
    (x, y), on_meta = new_tensors()
    check_moved(student, student.made("sample", x, y), Sample(*on_meta))
    check_moved(student, [student.made("sample", [x], y)], [Sample([on_meta[0]], on_meta[1])])


@pytest.mark.points(30)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Cast only where tensor.is_floating_point(): a label has to stay an integer.")
def test_dtype(student: Student) -> None:
    """Floating-point tensors are cast to dtype, in containers, too; integer labels keep theirs."""
    check_cast(student, COMMON_FLOATING, COMMON_OTHER)


@pytest.mark.points(6)
@pytest.mark.requires("test_dtype")
@pytest.mark.place("to_device")
@pytest.mark.hint(
    "Ask tensor.is_floating_point(), which is False for bool and for complex numbers."
)
def test_dtype_of_any_tensor(student: Student) -> None:
    """float16 and bfloat16 tensors are cast, too; uint8, bool and complex ones keep their dtype."""
    check_cast(student, RARE_FLOATING, RARE_OTHER)


@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Without a dtype only the device changes.")
def test_no_dtype(student: Student) -> None:
    """Without a dtype, and with None, every dtype is kept."""
    numbers = numbers_of(COMMON_FLOATING + COMMON_OTHER + RARE_FLOATING + RARE_OTHER)
    to_device = student.function("to_device")
    for moved in (to_device(numbers, "cpu"), to_device(numbers, "cpu", None)):
        assert_close(moved, numbers, what="the batch without a dtype")


@pytest.mark.points(4)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that an object is the same")
@pytest.mark.hint("Return the batch itself where it is neither a tensor nor one of the containers.")
def test_other_values(student: Student) -> None:
    """None, numbers, strings and anything else are passed on as the same object."""
    answers = student.run("passed_on")
    assert_equal(answers, dict.fromkeys(OTHERS, True), what="whether the object is the same")


@pytest.mark.points(5)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build new containers; neither assign to batch[key] nor cast a tensor in place.")
def test_leaves_batch(student: Student) -> None:
    """The batch itself stays as it is: its containers, and the tensors in them."""
    (x, y), _ = new_tensors()
    dtype = made_dtype(student, torch.float64)
    for batch in ({"x": x, "inner": {"y": y}}, [x, [x[0], y]]):
        laws.check_changes_nothing(student, "to_device", batch, "cpu", dtype)


@pytest.mark.points(3)
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Ask dtype.is_floating_point before you cast.")
def test_bad_dtype(student: Student) -> None:
    """A dtype that is not floating-point is a ValueError that names dtype."""
    x = torch.ones(2)
    wrong = (torch.int64, torch.bool, torch.complex64)
    bad = [(x, "cpu", made_dtype(student, dtype)) for dtype in wrong]
    fine = (x, "cpu", made_dtype(student, torch.float64))
    laws.check_errors(student, "to_device", {"dtype": bad}, fine=fine)


# --- unregistered ---------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "For each path, submodule of named_modules(): which values of vars(submodule) are tensors?"
)
def test_unregistered(student: Student) -> None:
    """Tensors that are plain attributes of a submodule are named, parameters and buffers are not."""
    check_unregistered(student, new_model(["parameter", "buffer", "plain"]))


@pytest.mark.points(5)
@pytest.mark.requires("test_unregistered")
@pytest.mark.place("unregistered")
@pytest.mark.hint("vars(submodule), of the module itself, too; every torch.Tensor in it counts.")
def test_unregistered_of_any_kind(student: Student) -> None:
    """All plain tensors of the module and its submodules are named, whatever their dtype and name."""
    check_unregistered(student, new_model(REGISTERED + PLAIN))


@pytest.mark.points(3)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "Where no plain attribute is a tensor, the list is empty. Look only; move nothing."
)
def test_all_registered(student: Student) -> None:
    """Where nothing is left behind the list is empty; tensors on meta count; nothing is changed."""
    held = new_model(["parameter", "buffer", "plain"])
    laws.check_changes_nothing(student, "unregistered", student.made("model", held, {}))
    check_unregistered(student, new_model(REGISTERED))
    check_unregistered(student, new_model(["plain"]))
    check_unregistered(student, held, on_meta=["plain"])


# --- misplaced ------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("misplaced")
@pytest.mark.hint("named_parameters() and named_buffers(): compare the device of each tensor.")
def test_misplaced(student: Student) -> None:
    """Every parameter and every buffer that is not on the device is named."""
    check_misplaced(student, ["parameter", "frozen", "buffer"])


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Plain attributes are the third source of tensors, beside parameters and buffers."
)
def test_misplaced_plain(student: Student) -> None:
    """Plain attributes that are not on the device are named, too."""
    check_misplaced(student, ["parameter", *PLAIN])


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Buffers that are not persistent are in named_buffers(), but not in the state dict."
)
def test_misplaced_not_persistent(student: Student) -> None:
    """Buffers that are not persistent are named, too."""
    check_misplaced(student, ["buffer", "cache"])


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Compare device.type; compare the index only where one is given, and not for the CPU."
)
def test_devices(student: Student) -> None:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    held = new_model(["parameter", "frozen", "buffer"])
    everything = sorted(held)
    on_cuda_1 = some_of(held)
    on_cpu = [name for name in everything if name not in on_cuda_1]
    model = student.made("model", held, dict.fromkeys(on_cuda_1, "cuda:1"))
    # What is not on a device.
    right = {
        "cpu": on_cuda_1,
        "cpu:0": on_cuda_1,
        "cuda": on_cpu,
        "cuda:1": on_cpu,
        "cuda:0": everything,
        "mps": everything,
    }
    for device, names in right.items():
        check_names(student.function("misplaced")(model, device), names, f"not on {device}")
    names = student.function("misplaced")(model, student.made("device", "cuda:1"))
    check_names(names, on_cpu, 'not on torch.device("cuda:1")')


@pytest.mark.points(2)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Only look at the tensors: module.to(device) moves them.")
def test_misplaced_changes_nothing(student: Student) -> None:
    """Nothing is changed, and a module without tensors gives an empty list."""
    held = new_model(["parameter", "frozen", "buffer"])
    model = student.made("model", held, {})
    laws.check_changes_nothing(student, "misplaced", model, "meta")
    names = student.function("misplaced")(student.made("model", {}, {}), "cpu")
    assert_equal(names, [], what="the list of names of a module without tensors")


# --- what is right --------------------------------------------------------------------------------


def new_tensors() -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and labels, of sizes that are drawn, and the same on meta."""
    rows, columns, count = (random.randint(2, 9) for _ in range(3))
    tensors = [torch.randn(rows, columns), torch.randint(9, (count,))]
    return tensors, [tensor.to("meta") for tensor in tensors]


def made_dtype(student: Student, dtype: torch.dtype) -> Made:
    """A dtype as it is made in the sandbox: it does not travel."""
    return laws.shipped(student, "value").made(str(dtype))


def containers(x: Tensor, y: Tensor) -> list[Any]:
    """A tensor alone, and a container of each kind."""
    return [x, {"x": x, "label": y, 3: x[0]}, [x, y], (x, y)]


def nested(x: Tensor, y: Tensor) -> Any:
    """Containers in containers, some of them empty."""
    return {"views": [(x, y), [x[:0], {"z": (y,)}]], "empty": [[], {}, ()]}


def check_moved(student: Student, batch: Any, right: Any, *, device: Any = "meta") -> None:
    """Compare the words for a batch that was moved to meta: its tensors there do not travel."""
    assert_equal(student.run("moved", batch, device), repr(right), what="the batch on meta")


def numbers_of(dtypes: Iterable[torch.dtype]) -> dict[str, Tensor]:
    """A tensor of each dtype, by its name, with values that are drawn."""
    numbers = torch.randint(9, (6,)) / 2
    return {str(dtype): numbers.to(dtype) for dtype in dtypes}


def check_cast(
    student: Student, floating: Sequence[torch.dtype], others: Sequence[torch.dtype]
) -> None:
    """In a batch of all these dtypes the floating-point tensors are cast, and no other ones."""
    x, numbers = torch.randn(3), numbers_of([*floating, *others])
    for dtype in (torch.float64, torch.bfloat16):
        cast = {str(old): numbers[str(old)].to(dtype) for old in floating}
        right = [x.to(dtype), {**numbers, **cast}]
        batch = student.function("to_device")([x, numbers], "cpu", made_dtype(student, dtype))
        assert_close(batch, right, what=f"the batch cast to {dtype}")


def new_model(kinds: Iterable[str]) -> Held:
    """A model with a tensor of each of these kinds in itself and in two submodules, under drawn names."""
    paths = ["", f"encoder{random.randrange(10)}.", f"layers.{random.randrange(10)}."]
    return {f"{path}{kind}{random.randrange(10)}": kind for path in paths for kind in kinds}


def of_kind(held: Held, kinds: Iterable[str]) -> list[str]:
    """The sorted names of the tensors of these kinds."""
    return sorted(name for name, kind in held.items() if kind in kinds)


def some_of(held: Held) -> list[str]:
    """The sorted names of one or two of the three tensors of each kind, at random."""
    names: list[str] = []
    for kind in dict.fromkeys(held.values()):
        names += random.sample(of_kind(held, [kind]), random.randint(1, 2))
    return sorted(names)


def check_names(names: Any, right: list[str], where: str) -> None:
    """Compare which names there are, then their order; they are those of the tensors that are `where`."""
    told = "The names do not come as a list."
    listed = [entry(name, kind=str) for name in entry(names, kind=(list, tuple), told=told)]
    what = f"the list of names of what is {where}"
    assert_equal(dict.fromkeys(listed), dict.fromkeys(right), what=what, ordered=False)
    assert_equal(listed, right, what=what)


def check_unregistered(student: Student, held: Held, on_meta: Iterable[str] = ()) -> None:
    """Compare the names of the plain tensors of a model; tensors of the kinds in `on_meta` are there."""
    devices = dict.fromkeys(of_kind(held, on_meta), "meta")
    names = student.function("unregistered")(student.made("model", held, devices))
    check_names(names, of_kind(held, PLAIN), "unregistered")


def check_misplaced(student: Student, kinds: Iterable[str]) -> None:
    """Compare what is not on cpu, and what is not on meta, of a model of which some is on meta."""
    held = new_model(kinds)
    on_meta = some_of(held)
    model = student.made("model", held, dict.fromkeys(on_meta, "meta"))
    on_cpu = sorted(set(held) - set(on_meta))
    for device, right in (("cpu", on_meta), ("meta", on_cpu)):
        check_names(student.function("misplaced")(model, device), right, f"not on {device}")
