"""Laws of modules: parameters, state dict, initialization; and of data loaders: the batches of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import assert_tensor, compare_named, entry
from grader.judge.checks.comparison import Rule, type_of
from grader.judge.checks.laws.numerics import check_finite
from grader.judge.checks.laws.observation import observe, same, shipped
from grader.judge.checks.wording import failed, no_parameter, sentence
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.judge.text import text
from grader.sandbox.wire.values import Made
from grader.text import with_article

if TYPE_CHECKING:
    from torch import Tensor


def check_parameters(
    module: Any,
    shapes: Mapping[str, Sequence[int]],
    *,
    call: str = "the module",
) -> list[Tensor]:
    """Check that a module has learnable parameters of these names and shapes; return them in this order."""
    named = dict(module.named_parameters())
    for name in shapes:
        inside = [other for other in named if other.endswith(f".{name}")]
        if name not in named and inside:
            raise failed(
                "{call} has a parameter {inside}, but {name} belongs on the module itself: "
                "self.{name} = nn.Parameter(...), not one of a submodule.",
                call,
                inside[0],
                name,
            )
        if name not in named:
            raise no_parameter(name, module)
    own = {name: list(named[name].shape) for name in sorted(shapes)}
    expected = {name: list(shapes[name]) for name in sorted(shapes)}
    turned = {
        text("{name} is transposed: its shape is {shape}.", name, tuple(shape)): {
            **expected,
            name: shape[::-1],
        }
        for name, shape in expected.items()
        if len(shape) == 2
    }
    padded = {
        text("{name} has one dimension too many: its shape is {shape}.", name, tuple(shape)): {
            **expected,
            name: [1, *shape],
        }
        for name, shape in expected.items()
    }
    what = text("the dict of parameter shapes of {call}", call)
    rule = Rule(exact=True, ordered=False)
    compare_named(own, expected, rule, what, lambda: {**turned, **padded})
    return [named[name] for name in shapes]


def check_state_dict(module: Any, names: Iterable[str]) -> None:
    """Check that the state dict has exactly these names, in any order."""
    expected = set(names)
    saved = {*module.saved_names, *dict(module.named_parameters())}
    extra, missing = sorted(saved - expected), sorted(expected - saved)
    if extra:
        belong = " and ".join(sorted(expected, reverse=True)) or "nothing"
        raise failed(
            "Only {belong} belong in the state_dict, but yours also has: {extra}.", belong, extra
        )
    if missing:
        raise failed(
            "The state_dict lacks {missing}: register everything that has to be saved.", missing
        )


def check_filled(
    student: Student, class_name: str, *arguments: Any, names: Sequence[str] = ()
) -> None:
    """Check that a new module's parameters and buffers were all written: none is leftover memory."""
    state = shipped(student, "state_on_nan")(class_name, *arguments)
    told = "It has no state."
    if names:
        told = text("The module has no parameter named {names}.", ", ".join(names))
    state = entry(state, kind=dict, told=told)
    for name in names or state:
        own = [tensor for key, tensor in state.items() if f".{key}".endswith(f".{name}")]
        if not own:
            raise no_parameter(name)
        tensor = assert_tensor(
            own[0], what=text("the {name} of a new {class_name}", name, class_name)
        )
        why = "is it filled everywhere? (torch.empty leaves whatever was in memory; here it is NaN)"
        check_finite(tensor, what=text("a new {name}", name), why=why)


def check_starts_random(
    student: Student, class_name: str, *arguments: Any, name: str = "weight"
) -> None:
    """Check that two new modules differ in this parameter, not all zeros, and set no seed."""
    import torch

    starts = []
    for _ in range(2):
        start = parameter_named(student.module(class_name, *arguments), name)
        check_finite(start, what=text("a new {name}", name), why="is it filled everywhere?")
        starts.append(start)
    if not any(start.any() for start in starts):
        raise failed(
            "A new {name} is all zeros: it has to start random, or no gradient flows.", name
        )
    if torch.equal(*starts):
        line = text(
            "Two new modules start with the same {name}: it has to start random, each time anew. (Is it a "
            "constant, or is a seed set on the way?)",
            name,
        )
        raise failed(line)
    seen = [observe(student, class_name, *arguments) for _ in range(2)]
    if same(seen[0].draws, seen[1].draws) or any(call.was_seeded() for call in seen):
        words = (
            "Making {class_name} sets the seed of the global random state: leave the seed alone."
        )
        raise failed(words, with_article(class_name))


def check_starts_within(
    weight: Tensor, bound: float, *, fans: tuple[int, int], what: str, formula: str
) -> None:
    """Check that no entry of a new weight is larger in magnitude than `bound`, which is `formula` in words.

    `fans` are its inputs and its outputs: the message names the initialization that the values resemble.
    """
    check_finite(weight, what=what, why="is it filled everywhere?")
    largest = weight.abs().max().item()
    if not largest <= bound * (1 + 1e-5):
        line = sentence(
            "{what} has an entry of magnitude {largest:.4g}; it starts too large, since the bound is "
            "{formula} = {bound:.4g}.",
            what,
            largest,
            formula,
            bound,
        )
        raise failed(line, more=[_likely_start(weight, *fans)])


def parameter_named(module: Any, name: str) -> Tensor:
    """Return a floating-point parameter of this name, of the module or of one of its submodules."""
    inside = [p for key, p in module.named_parameters() if f".{key}".endswith(f".{name}")]
    if not inside:
        raise no_parameter(name, module)
    tensor = assert_tensor(inside[0].detach(), what=text("the module's {name}", name))
    if not tensor.is_floating_point():
        raise failed("The module's {name} has dtype {dtype}.", name, tensor.dtype)
    return tensor


def _likely_start(weight: Tensor, fan_in: int, fan_out: int) -> str:
    """Return a sentence on the likely initialization of a weight that starts too large; "" if unknown."""
    if weight.numel() < 100:
        return ""
    spread, largest = weight.double().std().item(), weight.abs().max().item()
    if spread == 0:
        return "Yours is the same number everywhere."
    limits = {
        "uniform within 1 (torch.rand)": 1.0,
        "uniform within sqrt(fan_in)": fan_in**0.5,
        "uniform within sqrt(2 / fan_in)": (2 / fan_in) ** 0.5,
        "uniform within 1 / sqrt(fan_out)": fan_out**-0.5,
        "uniform within 1 / sqrt(fan_out / 2)": (fan_out / 2) ** -0.5,
        "Xavier's uniform start": (6 / (fan_in + fan_out)) ** 0.5,
        "Kaiming's uniform start": (6 / fan_in) ** 0.5,
    }
    normals = {
        "a standard normal start (torch.randn), which is not scaled": 1.0,
        "a normal start of that deviation, which has no bound": fan_in**-0.5,
        "Kaiming's normal start": (2 / fan_in) ** 0.5,
        "Xavier's normal start": (2 / (fan_in + fan_out)) ** 0.5,
        "a normal start of deviation 0.02, whatever the width": 0.02,
        "a normal start of deviation 0.01, whatever the width": 0.01,
    }
    likely = [name for name, limit in limits.items() if 0.97 * limit < largest <= 1.0001 * limit]
    likely += [name for name, deviation in normals.items() if abs(spread / deviation - 1) < 0.08]
    return text("Yours looks like {likely}.", likely[0]) if likely else ""


# --- data loaders ---------------------------------------------------------------------------------


def dataset_of(student: Student, values: Sequence[Any]) -> Made:
    """Return a map-style dataset of these items, as a live argument."""
    return shipped(student, "items").made(list(values))


def epochs_of(
    student: Student, loader: Made, count: int = 2, read: Callable[[Any], Any] = list
) -> list[list[list[Any]]]:
    """Return a loader's batches in each of `count` epochs: a list for each batch, made by `read`."""
    told = "The batches of your loader cannot be read."
    epochs = entry(shipped(student, "epochs")(loader, count), kind=list, count=count, told=told)
    return [
        [_read(read, batch) for batch in entry(epoch, kind=list, told=told)] for epoch in epochs
    ]


def _read(read: Callable[[Any], Any], batch: Any) -> list[Any]:
    try:
        numbers = read(batch)
        items = numbers.tolist() if hasattr(numbers, "tolist") else list(numbers)
        return [_plain(item) for item in items]
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        raise CheckFailed(text("A batch of the loader is {kind}.", type(batch).__name__)) from None


def _plain(item: Any) -> Any:
    """Return an item without tensors and arrays, which == could not compare."""
    item = item.tolist() if hasattr(item, "tolist") else item
    if type(item) in (list, tuple):
        return type(item)(_plain(part) for part in item)
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    raise TypeError(type(item).__name__)


def check_epochs(
    epochs: Sequence[Sequence[Sequence[Any]]],
    items: Sequence[Any],
    *,
    batch_size: int,
    shuffled: bool = False,
    drop_last: bool | None = False,
) -> None:
    """Check that each epoch yields every item once, in batches of this size; `drop_last` None: either is fine.

    If shuffled, the order differs in each epoch; else it is the order of the items.
    """
    kinds = tuple({type_of(item) for item in items})
    for number, epoch in enumerate(entry(epochs, kind=(list, tuple)), start=1):
        where = text("In epoch {number} the loader", number)
        batches = [entry(batch, kind=(list, tuple)) for batch in entry(epoch, kind=(list, tuple))]
        sizes, order = (
            [len(batch) for batch in batches],
            [item for batch in batches for item in batch],
        )
        # Before comparing them: a tensor cannot be compared with an item.
        if not all(isinstance(item, kinds) for item in order):
            raise CheckFailed(
                text("{where} yields something that is not an item of the dataset.", where)
            )
        whole, rest = divmod(len(items), batch_size)
        full = [batch_size] * whole
        allowed = {None: [full, [*full, rest]], True: [full], False: [[*full, rest]]}[drop_last]
        double = [item for item in order if order.count(item) > 1]
        if double:
            raise CheckFailed(
                text("{where} yields the item {double!r} more than once.", where, double[0])
            )
        if any(item not in items for item in order):
            raise CheckFailed(
                text("{where} yields something that is not an item of the dataset.", where)
            )
        if sizes not in ([size for size in sizes_ if size] for sizes_ in allowed):
            last = " (is the last short batch dropped, or kept?)"
            last = "" if sizes != [*full, rest] and len(order) == len(items) else last
            right = [size for size in allowed[-1] if size]
            words = "{where} yields batches of {sizes} items, not {right}{last}."
            raise CheckFailed(text(words, where, sizes, right, last))
        if not shuffled and order != list(items)[: len(order)]:
            raise CheckFailed(
                text("{where} yields the items in another order than the dataset's.", where)
            )
    orders = [[item for batch in epoch for item in batch] for epoch in epochs]
    if shuffled and any(order == list(items)[: len(order)] for order in orders if order):
        raise CheckFailed("The loader yields the items in the dataset's order: shuffle them.")
    if shuffled and any(order == orders[0] for order in orders[1:]):
        raise CheckFailed("The loader yields the same order in each epoch: shuffle anew each time.")
