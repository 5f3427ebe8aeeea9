"""What the three functions of placement promise, sentence by sentence."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.checks.laws.observation import same
from grader.judge.student import Student


@pytest.mark.points(8)
@pytest.mark.place("to_device")
@pytest.mark.hint(
    "tensor.to(device) moves a tensor; for a container, build a new one of the moved entries."
)
def test_moves(student: Student) -> None:
    """A tensor, and every tensor in a dict, list or tuple, is moved; containers keep their kind."""
    for kind in ("tensor", "labels", "dict", "list", "tuple", "one"):
        check_moved(student, kind, "meta")
    check_moved(student, "dict", "meta", live=True)
    check_moved(student, "list", "cpu")


@pytest.mark.points(6)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Call to_device again for every entry, whatever it is.")
def test_nested(student: Student) -> None:
    """Containers may be nested to any depth."""
    for kind in ("nested", "deep"):
        check_moved(student, kind, "meta")


@pytest.mark.points(6)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("A tuple with _fields is a NamedTuple, and type(batch)(*values) builds one.")
def test_named_tuples(student: Student) -> None:
    """A NamedTuple comes back as one of the same type."""
    for kind in ("NamedTuple", "namedtuples"):
        check_moved(student, kind, "meta")
        check_moved(student, kind, "cpu", "float64")


@pytest.mark.points(36)
@pytest.mark.requires("test_nested")
@pytest.mark.place("to_device")
@pytest.mark.hint("Cast only where tensor.is_floating_point(): a label has to stay an integer.")
def test_dtype(student: Student) -> None:
    """Floating-point tensors are cast to dtype; integer, bool and complex ones keep theirs."""
    for dtype in ("float64", "float16", "bfloat16", "float32"):
        check_moved(student, "dtypes", "cpu", dtype)
    for kind in ("dtypes", "nested"):
        check_moved(student, kind, "meta", "float64")


@pytest.mark.place("to_device")
@pytest.mark.hint("Without a dtype only the device changes.")
def test_no_dtype(student: Student) -> None:
    """Without a dtype, and with None, every dtype is kept."""
    for dtype in ("", "None"):
        check_moved(student, "dtypes", "meta", dtype)
        check_moved(student, "dtypes", "cpu", dtype)


@pytest.mark.points(4)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that an object is the same")
@pytest.mark.hint("Return the batch itself where it is neither a tensor nor one of the containers.")
def test_other_values(student: Student) -> None:
    """None, numbers, strings and anything else are passed on as the same object."""
    for kind in ("others", "None", "text", "array"):
        check_moved(student, kind, "meta", "float64")


@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build an empty container of the same kind.")
def test_empty(student: Student) -> None:
    """Containers and tensors may be empty."""
    for kind in ("empty", "empty dict", "empty list", "empty tuple"):
        check_moved(student, kind, "meta", "float64")


@pytest.mark.points(5)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build new containers; neither assign to batch[key] nor cast a tensor in place.")
def test_leaves_batch(student: Student) -> None:
    """The batch itself stays as it is: its containers, and the tensors in them."""
    for kind in ("dict", "list", "nested", "dtypes"):
        for device in ("meta", "cpu"):
            given = batch(kind)
            report = student.run("moved", steps(given), device, "float64")
            after, result = (entry(report, name, kind=list) for name in ("after", "result"))
            told = "to_device changed its batch: build new containers."
            walked = list(walk(given))
            assert len(after) == len(walked), told
            for (_, was), seen in zip(walked, after, strict=True):
                assert same(entry(seen, "facts"), facts(was)), told
                if isinstance(was, Tensor):
                    assert same(entry(seen, "values"), was.detach()), told
            told = "to_device returned the batch as it was."
            assert any(
                not same(entry(seen, "facts"), facts(was))
                for (_, was), seen in zip(walked, result, strict=False)
            ), told


@pytest.mark.points(3)
@pytest.mark.place("to_device")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Ask dtype.is_floating_point before you cast.")
def test_bad_dtype(student: Student) -> None:
    """A dtype that is not floating-point is a ValueError that names dtype."""
    dtype = laws.shipped(student, "value")
    values: list[Any] = [torch.ones(2), {"x": torch.ones(3)}]
    names = ("int64", "bool", "complex64", "uint8", "int32")
    bad = [(x, "cpu", dtype.made(f"torch.{name}")) for name in names for x in values]
    fine = (torch.ones(2), "cpu", dtype.made("torch.float64"))
    laws.check_errors(student, "to_device", {"dtype": bad}, fine=fine)


# --- unregistered ---------------------------------------------------------------------------------

# How a module may hold a tensor; what .to() leaves behind is plain.
REGISTERED = ("parameter", "frozen", "buffer", "cache")
PLAIN = ("table", "hidden", "index", "scale", "trained", "void")
# The kinds of tensors in models: "simple" has those of `registered` and tables.
SIMPLE = ("parameter", "frozen", "buffer", "table")


def model(*kinds: str) -> dict[str, str]:
    """The tensors of a model with these kinds, by their dotted names, and how each is held."""
    encoders = (drawn("encoder", "body", "stem"), f"layers.{random.randint(1, 4)}")
    table, mean, cache = (
        drawn("table", "codes", "grid"),
        drawn("mean", "bins"),
        drawn("cache", "lru"),
    )
    inside = {
        "linear.bias": "parameter",
        "linear.weight": "parameter",
        drawn("frozen", "gate", "offset"): "frozen",
        mean: "buffer",
        table: "table",
        cache: "cache",
        f"_{drawn('hidden', 'state')}": "hidden",
        drawn("index", "position"): "index",
    }
    root = {drawn("scale", "unit"): "scale", drawn("trained", "soft"): "trained", "void": "void"}
    names = {"weight": "parameter"}
    names |= {f"{path}.{name}": kind for path in encoders for name, kind in inside.items()}
    return {name: kind for name, kind in (names | root).items() if kind in kinds}


def drawn(*names: str) -> str:
    """One of these names, maybe with a number behind it."""
    return random.choice(names) + random.choice(["", "2", "7"])


def of(held: dict[str, str], *kinds: str) -> list[str]:
    """The names of the tensors of these kinds, sorted."""
    return sorted(name for name, kind in held.items() if kind in kinds)


def without(names: list[str], left_out: list[str]) -> list[str]:
    return [name for name in names if name not in left_out]


@pytest.mark.points(8)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "For each path, submodule of named_modules(): which values of vars(submodule) are tensors?"
)
def test_unregistered(student: Student) -> None:
    """Tensors that are plain attributes of a submodule are named, parameters and buffers are not."""
    held = model(*SIMPLE)
    names = student.function("unregistered")(student.made("model", held))
    right = of(held, "table")
    check_names(names, right, "unregistered")


@pytest.mark.points(5)
@pytest.mark.requires("test_unregistered")
@pytest.mark.place("unregistered")
@pytest.mark.hint("vars(submodule), of the module itself, too; every torch.Tensor in it counts.")
def test_unregistered_of_any_kind(student: Student) -> None:
    """All plain tensors of the module and its submodules are named, whatever their dtype and name."""
    held = model(*REGISTERED, *PLAIN)
    names = student.function("unregistered")(student.made("model", held))
    right = of(held, *PLAIN)
    check_names(names, right, "unregistered")


@pytest.mark.points(3)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "Where no plain attribute is a tensor, the list is empty. Look only; move nothing."
)
def test_all_registered(student: Student) -> None:
    """Where nothing is left behind the list is empty; tensors on meta count; nothing is changed."""
    held = model(*SIMPLE)
    laws.check_changes_nothing(student, "unregistered", student.made("model", held))
    for kind in ("linear", "norm", "nothing"):
        check_names(student.function("unregistered")(student.made("plain", kind)), [], kind)
    name = drawn("table", "window", "codes")
    names = student.function("unregistered")(student.made("model", {name: "table"}))
    check_names(names, [name], "bare")
    table, other = of(held, "table")
    module = student.made("model", held, {table: "meta", "weight": "meta"})
    names = ends(student.function("unregistered")(module))
    check_names(names, ends([table, other]), "a model partly on meta (without their paths)")


# --- misplaced ------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("misplaced")
@pytest.mark.hint("named_parameters() and named_buffers(): compare the device of each tensor.")
def test_misplaced(student: Student) -> None:
    """Every parameter and every buffer that is not on the device is named."""
    held = model("parameter", "frozen", "buffer")
    every = sorted(held)
    buffers, frozen = of(held, "buffer"), of(held, "frozen")
    some = ["weight", random.choice(of(held, "parameter")[:-1])]
    some = sorted([*some, random.choice(buffers), random.choice(frozen)])
    for on_meta in (every, some, [random.choice(buffers)], []):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(every, on_meta)
            names = student.function("misplaced")(placed(student, held, on_meta), device)
            check_names(names, right, f'what is not on "{device}"')


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Plain attributes are the third source of tensors, beside parameters and buffers."
)
def test_misplaced_plain(student: Student) -> None:
    """Plain attributes that are not on the device are named, too."""
    held = model(*SIMPLE)
    every, tables = sorted(held), of(held, "table")
    for on_meta in (every, [random.choice(tables)], ["weight"], without(every, tables)):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(every, on_meta)
            names = student.function("misplaced")(placed(student, held, on_meta), device)
            what = f'what is not on "{device}" (without their paths)'
            check_names(ends(names), ends(right), what)


@pytest.mark.points(3)
@pytest.mark.requires("test_misplaced_plain")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "The state dict lacks some buffers; unregistered(module) has every plain attribute."
)
def test_misplaced_of_any_kind(student: Student) -> None:
    """Tensors of any kind count: buffers that are not persistent, plain ones of any dtype."""
    held = model(*REGISTERED, *PLAIN)
    every = sorted(held)
    some = [random.choice(of(held, kind)) for kind in ("hidden", "cache", "index")]
    for on_meta in (every, sorted([*some, *of(held, "scale", "void"), "weight"])):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(every, on_meta)
            names = student.function("misplaced")(placed(student, held, on_meta), device)
            what = f'what is not on "{device}" (without their paths)'
            check_names(ends(names), ends(right), what)


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Compare device.type; compare the index only where one is given, and not for the CPU."
)
def test_devices(student: Student) -> None:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    held = model("parameter", "frozen", "buffer")
    every = sorted(held)
    gpu = sorted([random.choice(of(held, "buffer")), "weight"])
    rest = without(every, gpu)
    cases = [("cpu:0", gpu), ("cpu", gpu), ("cuda", rest), ("cuda:1", rest), ("cuda:0", every)]
    for name, right in [*cases, ("meta", every), ("mps", every)]:
        for device in (name, student.made("device", name)):
            module = student.made("model", held, dict.fromkeys(gpu, "cuda:1"))
            names = student.function("misplaced")(module, device)
            what = f'what is not on "{name}" ({" and ".join(gpu)} are on cuda:1)'
            check_names(names, right, what)


@pytest.mark.points(2)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Only look at the tensors: module.to(device) moves them.")
def test_misplaced_changes_nothing(student: Student) -> None:
    """Nothing is changed, and a module without tensors gives an empty list."""
    for device in ("cpu", "meta", "cuda:3"):
        module = student.made("model", model("parameter", "frozen", "buffer"))
        laws.check_changes_nothing(student, "misplaced", module, device)
        names = student.function("misplaced")(student.made("plain", "nothing"), device)
        check_names(names, [], "a module without tensors")


# --- what is right --------------------------------------------------------------------------------


def ends(names: Any) -> Any:
    """The last parts of dotted names, sorted; anything else as it is."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return names
    return sorted(name.rpartition(".")[2] for name in names)


def check_names(names: Any, right: list[str], what: str) -> None:
    """Compare a list of names, and say which are missing, too many or in another order."""
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        assert list(names) == right or sorted(names) != right, (
            "The names are right, but not sorted."
        )
    assert_equal(names, right, what=f"the list of names of {what}")


def placed(student: Student, held: dict[str, str], on_meta: list[str]) -> Any:
    """A model with these tensors, of which some are on meta."""
    return student.made("model", held, dict.fromkeys(on_meta, "meta"))


class Sample(NamedTuple):
    """A NamedTuple with annotations; the probe has the same."""

    image: Any
    label: Any


Pair = namedtuple("Pair", ["first", "second"])
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"]
OTHER = object()


def batch(kind: str) -> Any:
    """A batch of this kind, with shapes and values that are drawn."""
    rows, columns, count = (random.randint(2, 9) for _ in range(3))
    x, y = torch.randn(rows, columns), torch.randint(0, 9, (count,))
    if kind == "deep":
        made: Any = [x, y]
        for level in range(60):
            made = {"inner": made} if level % 3 == 0 else [made] if level % 3 == 1 else (made,)
        return made
    halves = torch.randint(0, 9, (count,)) / 2
    batches: dict[str, Any] = {
        "dict": {"x": x, "label": y, 3: x[0], "a": x.double()},
        "list": [x, y, x.half(), nn.Parameter(x.clone())],
        "tuple": (x, y),
        "one": (x,),
        "nested": {
            "views": [(x, y), [x[0], {"z": y}]],
            "pair": (x, {"w": [x]}),
            "id": 7,
            "no": None,
        },
        "NamedTuple": Sample(x, y),
        "namedtuples": [Pair(x, Sample([x], y)), {"p": Pair((x,), None)}],
        "dtypes": {d: halves.to(getattr(torch, d)) for d in DTYPES},
        "others": [None, 3, 2.5, "text", True, b"raw", OTHER, x],
        "empty": {
            "list": [],
            "dict": {},
            "tuple": (),
            "pair": Pair((), []),
            "x": torch.ones(0, columns),
        },
    }
    batches |= {"tensor": x, "labels": y, "array": x.numpy()}
    batches |= {"None": None, "text": "text", "empty dict": {}, "empty list": [], "empty tuple": ()}
    return batches[kind]


def steps(value: Any) -> list[Any]:
    """How the probe builds this batch: parts first, then what is made of the last few of them."""
    if isinstance(value, dict):
        parts: list[Any] = list(value.values())
        made: tuple[str, Any] = ("dict", list(value))
    elif isinstance(value, (list, tuple)):
        parts, made = list(value), (type(value).__name__, len(value))
    elif isinstance(value, nn.Parameter):
        return [("is", value.detach()), ("Parameter", 1)]
    else:
        return [("object", 0) if value is OTHER else ("is", value)]
    return [*(step for part in parts for step in steps(part)), made]


def walk(value: Any, path: str = "batch") -> Iterator[tuple[str, Any]]:
    """Every entry of a batch with its path, outermost first."""
    yield path, value
    if isinstance(value, (dict, list, tuple)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from walk(value[key], f"{path}[{key!r}]")


def facts(value: Any) -> list[Any]:
    """What the probe says of an entry that is as it was: its kind, and its keys, or what a tensor is."""
    if isinstance(value, Tensor):
        return ["Tensor", str(value.dtype), str(value.device), list(value.shape)]
    named = "NamedTuple " if hasattr(value, "_fields") else ""
    kind = f"{named}{type(value).__name__}"
    if not isinstance(value, (dict, list, tuple)):
        return [kind]
    return [kind, [repr(key) for key in (value if isinstance(value, dict) else range(len(value)))]]


def check_moved(
    student: Student, kind: str, device: str, dtype: str = "", *, live: bool = False
) -> None:
    """Compare a batch that was moved with what it was, entry by entry."""
    given = batch(kind)
    result = entry(student.run("moved", steps(given), device, dtype, live), "result", kind=list)
    cast = None if dtype in ("", "None") else getattr(torch, dtype)
    walked = list(walk(given))
    for (path, was), now in zip(walked, result, strict=False):
        shown = path if len(path) < 60 else "An entry deep inside of the batch"
        check_entry(was, now, device, cast, shown)
    assert len(result) == len(walked), "The batch came back with a different number of entries."


def check_entry(was: Any, now: Any, device: str, cast: torch.dtype | None, path: str) -> None:
    """Compare one entry of a batch with what it was."""
    seen = entry(now, "facts", kind=list)
    kind, right = entry(seen, 0, kind=str), facts(was)
    if right[0] == "Tensor" == kind:
        check_tensor(was, now, device, cast, path)
        return
    what = f"{path}, of type {right[0]}, came back as {kind[:60]}"
    if len(right) == 1:
        told = f"{what}, another object: pass on anything else as it is."
        assert same(entry(now, "given"), True), told
        return
    assert kind == right[0], f"{what}."
    told = f"{what} of another class: build it with type(batch)."
    assert same(entry(now, "own type"), True), told
    told = f"{path} has other keys or another number of entries than before, or another order."
    assert same(seen, right), told


def check_tensor(was: Tensor, now: Any, device: str, cast: torch.dtype | None, path: str) -> None:
    """Compare a tensor of a batch with what it was."""
    expected = cast if cast is not None and was.is_floating_point() else was.dtype
    seen = entry(now, "facts", kind=list, count=4)
    got, place = (entry(seen, at, kind=str)[:40] for at in (1, 2))
    inside = ": go on inside of containers" if path.count("[") > 1 or " " in path else ""
    assert place == device, f"{path} is on {place}, and should be on {device}{inside}."
    told = "" if was.is_floating_point() else ": only floating-point tensors are cast"
    came = f"{path} was {was.dtype} and came back as {got}"
    assert got == str(expected), f"{came}, expected is {expected}{told}."
    assert same(seen[3], list(was.shape)), f"{path} has another shape."
    if device == "cpu":
        values = assert_tensor(entry(now, "values"))
        assert_close(values, was.detach().to(expected), what=f"the values of {path}")
