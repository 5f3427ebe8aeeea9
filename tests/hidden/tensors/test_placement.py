"""What the three functions of placement promise, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.checks.laws.observation import same
from grader.judge.student import Student


@pytest.mark.points(8)
@pytest.mark.place("to_device")
@pytest.mark.hint("A tensor moves with .to(device); a container is built anew of moved entries.")
def test_moves(student: Student) -> None:
    """Every tensor of a tensor, dict, list or tuple is moved, and the kind of container stays."""
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
@pytest.mark.hint("type(batch)(*values) builds a NamedTuple, which alone has _fields.")
def test_named_tuples(student: Student) -> None:
    """A NamedTuple comes back as one of the same type."""
    for kind in ("NamedTuple", "namedtuples"):
        check_moved(student, kind, "meta")
        check_moved(student, kind, "cpu", "float64")


@pytest.mark.points(36)
@pytest.mark.requires("test_nested")
@pytest.mark.place("to_device")
@pytest.mark.hint("dtype only where tensor.is_floating_point(); a label has to stay an integer.")
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
@pytest.mark.hint("isinstance(batch, Tensor), not hasattr(batch, 'to'); return all else as it is.")
def test_other_values(student: Student) -> None:
    """None, numbers, strings and any object are passed on as the same object."""
    for kind in ("others", "None", "text", "array"):
        check_moved(student, kind, "meta", "float64")


@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("An empty container is a container: build an empty one of its kind.")
def test_empty(student: Student) -> None:
    """Containers and tensors may be empty."""
    for kind in ("empty", "empty dict", "empty list", "empty tuple"):
        check_moved(student, kind, "meta", "float64")


@pytest.mark.points(5)
@pytest.mark.requires("test_moves")
@pytest.mark.place("to_device")
@pytest.mark.hint("Build new containers: no batch[key] = ..., no in-place cast.")
def test_leaves_batch(student: Student) -> None:
    """The batch itself stays as it is: its containers, and the tensors in them."""
    for kind in ("dict", "list", "nested", "dtypes"):
        for device in ("meta", "cpu"):
            report = student.run("moved", kind, device, "float64")
            before, after, result = fields(report, "before", "after", "result")
            assert same(after, before), "to_device changed its batch: build new containers."
            assert not same(result, before), "to_device returned the batch as it was."


@pytest.mark.points(3)
@pytest.mark.place("to_device")
@pytest.mark.hint("dtype.is_floating_point, before anything else.")
def test_bad_dtype(student: Student) -> None:
    """A dtype that is not floating-point is a ValueError that names dtype."""
    dtype = laws.shipped(student, "value")
    values: list[Any] = [torch.ones(2), {"x": torch.arange(3)}, [], None]
    names = ("int64", "bool", "complex64", "uint8", "int32")
    bad = [(x, "cpu", dtype.made(f"torch.{name}")) for name in names for x in values]
    fine = (torch.ones(2), "cpu", dtype.made("torch.float64"))
    laws.check_errors(student, "to_device", {"dtype": bad}, fine=fine)


# --- unregistered ---------------------------------------------------------------------------------

INSIDE = ["_hidden", "cache", "frozen", "linear.bias", "linear.weight", "mean", "table"]
ALL = sorted(
    [f"{path}.{name}" for path in ("encoder", "layers.1") for name in INSIDE]
    + ["Void", "scale", "trained", "weight"]
)
PLAIN = [name for name in ALL if name.endswith(("table", "_hidden", "Void", "scale", "trained"))]
DEEP = [name for name in PLAIN if "." in name]
BUFFERS = [name for name in ALL if name.endswith(("mean", "cache"))]
CACHES = [name for name in ALL if name.endswith("cache")]
PROPERTIES = ["encoder.middle", "layers.1.middle"]
FROZEN = [name for name in ALL if name.endswith("frozen")]
PARAMETERS = [name for name in ALL if name not in PLAIN + BUFFERS]


@pytest.mark.points(12)
@pytest.mark.place("unregistered")
@pytest.mark.hint("for path, sub in module.named_modules(): what in vars(sub) is a Tensor?")
def test_unregistered(student: Student) -> None:
    """All tensors that are plain attributes of the module or a submodule are named, and no other."""
    names = student.function("unregistered")(student.made("model"))
    last = sorted(name.rpartition(".")[2] for name in PLAIN)
    dotted = sorted(name if "." in name else f".{name}" for name in PLAIN)
    mistakes = {
        "Only the module itself is searched: go through named_modules().": without(PLAIN, DEEP),
        "Only the submodules are searched: the root is a module, too.": DEEP,
        "Names lack the path of the submodule: encoder.table.": last,
        "Buffers are named, too: .to() moves them.": sorted(PLAIN + BUFFERS),
        "Buffers that are not persistent are named, too: .to() moves them.": sorted(PLAIN + CACHES),
        "Parameters are named, too: .to() moves them.": sorted(PLAIN + PARAMETERS),
        "Names that begin with _ are left out.": [n for n in PLAIN if "_" not in n],
        "Tensors of integers are left out.": [n for n in PLAIN if "table" not in n],
        "A tensor without elements is left out.": without(PLAIN, ["Void"]),
        "A plain tensor that requires a gradient is left out.": without(PLAIN, ["trained"]),
        "A name at the root begins with a dot: it is scale.": dotted,
        "A property is named, too: look in vars(submodule).": sorted(PLAIN + PROPERTIES),
    }
    check_names(names, PLAIN, "unregistered", mistakes)


@pytest.mark.points(3)
@pytest.mark.requires("test_unregistered")
@pytest.mark.place("unregistered")
@pytest.mark.hint("Where no plain attribute is a tensor, the list is empty; change nothing.")
def test_all_registered(student: Student) -> None:
    """Where nothing is left behind the list is empty; tensors on meta count; nothing is changed."""
    laws.check_changes_nothing(student, "unregistered", student.made("model"))
    for kind in ("linear", "norm", "nothing", "bare"):
        right = ["table"] if kind == "bare" else []
        check_names(student.function("unregistered")(student.made("plain", kind)), right, kind)
    module = student.made("model", ["scale", "encoder.table", "weight"])
    check_names(student.function("unregistered")(module), PLAIN, "a model partly on meta")


# --- misplaced ------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("misplaced")
@pytest.mark.hint("named_parameters(), named_buffers(), the plain attributes: three sources.")
def test_misplaced(student: Student) -> None:
    """Every tensor that is not on the device is named: parameters, buffers, plain attributes."""
    some = ["encoder.cache", "encoder.frozen", "encoder.table", "layers.1.linear.bias"]
    some += ["layers.1.mean", "scale", "layers.1._hidden", "weight"]
    for on_meta in (ALL, sorted(some), ["encoder.table"], ["layers.1.cache"], []):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(ALL, on_meta)
            names = student.function("misplaced")(student.made("model", on_meta), device)
            mistakes = {
                "Plain attributes are forgotten.": without(right, PLAIN),
                "Buffers are forgotten.": without(right, BUFFERS),
                "Buffers that are not persistent are forgotten.": without(right, CACHES),
                "Frozen parameters are forgotten.": without(right, FROZEN),
                "Parameters are forgotten.": without(right, PARAMETERS),
                "Buffers and plain attributes are forgotten.": without(right, PLAIN + BUFFERS),
                "Plain attributes of submodules are forgotten.": without(right, DEEP),
                "What is on the device is named, not what is not.": without(ALL, right),
                "All is named where the first parameter is elsewhere: ask each tensor.": ALL,
            }
            check_names(names, right, f'what is not on "{device}"', mistakes)


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Compare device.type; the index only where one is asked for and it is no cpu.")
def test_devices(student: Student) -> None:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    gpu, rest = ["encoder.mean", "layers.1.table"], without(ALL, ["encoder.mean", "layers.1.table"])
    cases = [("cpu:0", gpu), ("cpu", gpu), ("cuda", rest), ("cuda:1", rest), ("cuda:0", ALL)]
    for name, right in [*cases, ("meta", ALL), ("mps", ALL)]:
        for device in (name, student.made("device", name)):
            module = student.made("model", [], gpu)
            names = student.function("misplaced")(module, device)
            mistakes = {
                f"{name} is compared as it is written: it names the same device.": ALL,
                "The index of a device is ignored: cuda:0 is not cuda:1.": rest,
            }
            told = f'what is not on "{name}" (encoder.mean and layers.1.table are on cuda:1)'
            check_names(names, right, told, mistakes)


@pytest.mark.points(2)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Only look at the tensors: module.to(device) moves them.")
def test_misplaced_changes_nothing(student: Student) -> None:
    """Asking changes nothing, and a module without tensors has none elsewhere."""
    for device in ("cpu", "meta", "cuda:3"):
        laws.check_changes_nothing(student, "misplaced", student.made("model"), device)
        names = student.function("misplaced")(student.made("plain", "nothing"), device)
        check_names(names, [], "a module without tensors")


# --- what is right --------------------------------------------------------------------------------


def without(names: list[str], left_out: list[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def check_names(
    names: Any, right: list[str], what: str, mistakes: dict[str, list[str]] | None = None
) -> None:
    """Compare a list of names, and say which are missing, too many or in another order."""
    entry(names, kind=list, told="Return a list of names: what came back is none.")
    if all(isinstance(name, str) for name in names) and names != right:
        assert sorted(names) != right, "The names are right, but not sorted."
    assert_equal(names, right, what=f"the list of names of {what}", mistakes=mistakes)


def check_moved(
    student: Student, kind: str, device: str, dtype: str = "", *, live: bool = False
) -> None:
    """Compare a batch that was moved with what it was, entry by entry."""
    before, result = fields(student.run("moved", kind, device, dtype, live), "before", "result")
    cast = None if dtype in ("", "None") else getattr(torch, dtype)
    count = len(entry(before, kind=list))
    for was, now in zip(before, entry(result, kind=list), strict=False):
        check_entry(was, now, device, cast)
    assert len(result) == count, "The batch came back with another number of entries."


def check_entry(before: Any, result: Any, device: str, cast: torch.dtype | None) -> None:
    """Compare one entry of a batch with what it was."""
    path, was = (entry(before, name, kind=str) for name in ("path", "kind"))
    now = entry(result, "kind", kind=str)
    path = path if len(path) < 60 else "An entry deep inside of the batch"
    if was == "Tensor" == now:
        check_tensor(before, result, device, cast, path)
        return
    what = f"{path}, of type {was}, came back as {now[:60]}"
    if "keys" not in before:
        told = f"{what}, another object: pass on what is no tensor as it is."
        assert same(entry(result, "id"), entry(before, "id")), told
        told = f"{path}, of type {was}, was moved itself: pass on what is no tensor as it is."
        assert same(entry(result, "inside"), entry(before, "inside")), told
        return
    types = [entry(facts, "type", default=None) for facts in (before, result)]
    assert was == now, f"{what}."
    assert same(types[1], types[0]), f"{what} of another class: build it with type(batch)."
    told = f"{path} has other keys or another number of entries than before, or in another order."
    assert same(entry(result, "keys"), entry(before, "keys")), told


def check_tensor(before: Any, result: Any, device: str, cast: Any, path: str) -> None:
    """Compare a tensor of a batch with what it was."""
    dtype = getattr(torch, entry(before, "dtype", kind=str).removeprefix("torch."), None)
    assert isinstance(dtype, torch.dtype), "The batch cannot be read after to_device."
    promised = cast if cast is not None and dtype.is_floating_point else dtype
    got, place = (entry(result, name, kind=str)[:40] for name in ("dtype", "device"))
    inside = ": go on inside of containers" if path.count("[") > 1 or " " in path else ""
    assert place == device, f"{path} is on {place}, and should be on {device}{inside}."
    told = "" if dtype.is_floating_point else ": only floating-point tensors are cast"
    came = f"{path} was {dtype} and came back as {got}"
    assert got == str(promised), f"{came}, promised is {promised}{told}."
    assert same(entry(result, "shape"), entry(before, "shape")), f"{path} has another shape."
    if device == "cpu":
        values = assert_tensor(entry(before, "values")).to(promised)
        assert_close(entry(result, "values"), values, what=f"the values of {path}")
