"""What the three functions of placement promise, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.checks.laws.observation import same
from grader.judge.student import Student


def without(names: list[str], left_out: list[str]) -> list[str]:
    return [name for name in names if name not in left_out]


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
            report = student.run("moved", kind, device, "float64")
            before, after, result = fields(report, "before", "after", "result")
            assert same(after, before), "to_device changed its batch: build new containers."
            assert not same(result, before), "to_device returned the batch as it was."


@pytest.mark.points(3)
@pytest.mark.place("to_device")
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

# A model of each kind, by the names of its tensors.
ENCODERS = ("encoder", "layers.1")
INSIDE = ("frozen", "linear.bias", "linear.weight", "mean")
REGISTERED = sorted(["weight", *(f"{path}.{name}" for path in ENCODERS for name in INSIDE)])
TABLES = [f"{path}.table" for path in ENCODERS]
SIMPLE = sorted(REGISTERED + TABLES)
CACHES = [f"{path}.cache" for path in ENCODERS]
HIDDEN = [f"{path}._hidden" for path in ENCODERS]
INDICES = [f"{path}.index" for path in ENCODERS]
ROOT = ["scale", "trained", "void"]
PLAIN = sorted(TABLES + HIDDEN + INDICES + ROOT)
ALL = sorted(REGISTERED + CACHES + PLAIN)
BUFFERS = [f"{path}.mean" for path in ENCODERS]
FROZEN = [f"{path}.frozen" for path in ENCODERS]
PARAMETERS = without(REGISTERED, BUFFERS)


@pytest.mark.points(8)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "For each path, submodule of named_modules(): which values of vars(submodule) are tensors?"
)
def test_unregistered(student: Student) -> None:
    """Tensors that are plain attributes of a submodule are named, parameters and buffers are not."""
    names = student.function("unregistered")(student.made("model", "simple"))
    mistakes = {
        "Only the module itself is searched: go through named_modules().": [],
        "The names lack the path of the submodule: encoder.table.": ["table"] * 2,
        "Buffers are named, too: .to() moves them.": sorted(TABLES + BUFFERS),
        "Parameters are named, too: .to() moves them.": sorted(TABLES + PARAMETERS),
    }
    check_names(names, TABLES, "unregistered", mistakes)


@pytest.mark.points(5)
@pytest.mark.requires("test_unregistered")
@pytest.mark.place("unregistered")
@pytest.mark.hint("vars(submodule), of the module itself, too; every torch.Tensor in it counts.")
def test_unregistered_of_any_kind(student: Student) -> None:
    """All plain tensors of the module and its submodules are named, whatever their dtype and name."""
    names = student.function("unregistered")(student.made("model", "full"))
    dotted = sorted(name if "." in name else f".{name}" for name in PLAIN)
    properties = [f"{path}.middle" for path in ENCODERS]
    mistakes = {
        "Only the submodules are searched: the root is a module, too.": without(PLAIN, ROOT),
        "Buffers that are not persistent are named, too: .to() moves them.": sorted(PLAIN + CACHES),
        "Names that begin with _ are left out.": without(PLAIN, HIDDEN),
        "Tensors of integers are left out.": without(PLAIN, INDICES),
        "A tensor without elements is left out.": without(PLAIN, ["void"]),
        "A plain tensor that requires a gradient is left out.": without(PLAIN, ["trained"]),
        "A name at the root begins with a dot: it is scale.": dotted,
        "A property is named, too: look in vars(submodule).": sorted(PLAIN + properties),
    }
    check_names(names, PLAIN, "unregistered", mistakes)


@pytest.mark.points(3)
@pytest.mark.place("unregistered")
@pytest.mark.hint(
    "Where no plain attribute is a tensor, the list is empty. Look only; move nothing."
)
def test_all_registered(student: Student) -> None:
    """Where nothing is left behind the list is empty; tensors on meta count; nothing is changed."""
    laws.check_changes_nothing(student, "unregistered", student.made("model", "simple"))
    for kind in ("linear", "norm", "nothing", "bare"):
        right = ["table"] if kind == "bare" else []
        check_names(student.function("unregistered")(student.made("plain", kind)), right, kind)
    module = student.made("model", "simple", ["encoder.table", "weight"])
    names = ends(student.function("unregistered")(module))
    check_names(names, ["table"] * 2, "a model partly on meta (without their paths)")


# --- misplaced ------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("misplaced")
@pytest.mark.hint("named_parameters() and named_buffers(): compare the device of each tensor.")
def test_misplaced(student: Student) -> None:
    """Every parameter and every buffer that is not on the device is named."""
    some = ["encoder.frozen", "encoder.mean", "layers.1.linear.bias", "weight"]
    for on_meta in (REGISTERED, some, ["layers.1.mean"], []):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(REGISTERED, on_meta)
            module = student.made("model", "registered", on_meta)
            names = student.function("misplaced")(module, device)
            mistakes = {
                "Buffers are forgotten.": without(right, BUFFERS),
                "Frozen parameters are forgotten.": without(right, FROZEN),
                "Parameters are forgotten.": without(right, PARAMETERS),
                "You name what is on the device, not what is not.": without(REGISTERED, right),
                "All is named where the first parameter is elsewhere: look at each tensor.": REGISTERED,
            }
            check_names(names, right, f'what is not on "{device}"', mistakes)


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Plain attributes are the third source of tensors, beside parameters and buffers."
)
def test_misplaced_plain(student: Student) -> None:
    """Plain attributes that are not on the device are named, too."""
    for on_meta in (SIMPLE, ["encoder.table"], ["weight"], without(SIMPLE, TABLES)):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(SIMPLE, on_meta)
            names = student.function("misplaced")(student.made("model", "simple", on_meta), device)
            mistakes = {"Plain attributes are forgotten.": ends(without(right, TABLES))}
            what = f'what is not on "{device}" (without their paths)'
            check_names(ends(names), ends(right), what, mistakes)


@pytest.mark.points(3)
@pytest.mark.requires("test_misplaced_plain")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "The state dict lacks some buffers; unregistered(module) has every plain attribute."
)
def test_misplaced_of_any_kind(student: Student) -> None:
    """Tensors of any kind count: buffers that are not persistent, plain ones of any dtype."""
    some = ["encoder._hidden", "encoder.cache", "encoder.index", "scale", "void", "weight"]
    for on_meta in (ALL, some):
        for device in ("cpu", "meta"):
            right = on_meta if device == "cpu" else without(ALL, on_meta)
            names = student.function("misplaced")(student.made("model", "full", on_meta), device)
            told = "Buffers that are not persistent are forgotten."
            mistakes = {told: ends(without(right, CACHES))}
            what = f'what is not on "{device}" (without their paths)'
            check_names(ends(names), ends(right), what, mistakes)


@pytest.mark.points(6)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint(
    "Compare device.type; compare the index only where one is given, and not for the CPU."
)
def test_devices(student: Student) -> None:
    """A device without an index stands for any index of its type, and cpu:0 is cpu."""
    gpu = ["encoder.mean", "weight"]
    rest = without(REGISTERED, gpu)
    cases = [("cpu:0", gpu), ("cpu", gpu), ("cuda", rest), ("cuda:1", rest), ("cuda:0", REGISTERED)]
    for name, right in [*cases, ("meta", REGISTERED), ("mps", REGISTERED)]:
        for device in (name, student.made("device", name)):
            module = student.made("model", "registered", [], gpu)
            names = student.function("misplaced")(module, device)
            mistakes = {
                f"{name} is compared as it is written: it names the same device.": REGISTERED,
                "The index of a device is ignored: cuda:0 is not cuda:1.": rest,
            }
            what = f'what is not on "{name}" (encoder.mean and weight are on cuda:1)'
            check_names(names, right, what, mistakes)


@pytest.mark.points(2)
@pytest.mark.requires("test_misplaced")
@pytest.mark.place("misplaced")
@pytest.mark.hint("Only look at the tensors: module.to(device) moves them.")
def test_misplaced_changes_nothing(student: Student) -> None:
    """Nothing is changed, and a module without tensors gives an empty list."""
    for device in ("cpu", "meta", "cuda:3"):
        module = student.made("model", "registered")
        laws.check_changes_nothing(student, "misplaced", module, device)
        names = student.function("misplaced")(student.made("plain", "nothing"), device)
        check_names(names, [], "a module without tensors")


# --- what is right --------------------------------------------------------------------------------


def ends(names: Any) -> Any:
    """The last parts of dotted names, sorted; anything else as it is."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return names
    return sorted(name.rpartition(".")[2] for name in names)


def check_names(
    names: Any, right: list[str], what: str, mistakes: dict[str, list[str]] | None = None
) -> None:
    """Compare a list of names, and say which are missing, too many or in another order."""
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        assert list(names) == right or sorted(names) != right, (
            "The names are right, but not sorted."
        )
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
    assert len(result) == count, "The batch came back with a different number of entries."


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
        told = f"{what}, another object: pass on anything else as it is."
        assert same(entry(result, "id"), entry(before, "id")), told
        return
    types = [entry(facts, "type", default=None) for facts in (before, result)]
    assert was == now, f"{what}."
    assert same(types[1], types[0]), f"{what} of another class: build it with type(batch)."
    told = f"{path} has other keys or another number of entries than before, or another order."
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
