"""Tests of RunningCenter, state_kinds and forgotten_tensors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

NOT_SAVED = "non-persistent buffer"
KINDS = {"scale": "parameter", "running_mean": "buffer", "num_samples": "buffer"}
KINDS["batch_mean"] = NOT_SAVED
STATISTICS = ("batch_mean", "num_samples", "running_mean")
LOOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.points(12)
@pytest.mark.place("RunningCenter.__init__")
@pytest.mark.word("the sandbox says how the layer holds its tensors")
@pytest.mark.hint(
    "register_buffer(name, tensor); with persistent=False it is not in the state dict."
)
def test_kinds_of_state(student: Student) -> None:
    """scale is a parameter; the others are buffers, of which batch_mean is not saved."""
    for steps in ([], [torch.randn(4, 5), "double", torch.randn(2, 5).double()]):
        report = life(student, steps)
        seen = entry(report.seen[-1], kind=dict)
        for name, kind in KINDS.items():
            own = str(entry(seen, name, "kind", default="missing"))[:40]
            told = f"{name} has to be a {kind}, and is {'a ' * (own in ADVICE)}{own}"
            assert own == kind, f"{told}{' after a batch' if steps else ''}: {ADVICE.get(own, '')}"
        extra = [name for name in seen if name not in KINDS]
        assert not extra, f"The layer has one tensor too many: {extra[0]}."
        keys = ["num_samples", "running_mean", "scale"]
        assert_equal(sorted(map(str, report.keys)), keys, what="the list of the state dict's keys")


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.__init__")
@pytest.mark.hint(
    "torch.ones and torch.zeros of num_features, and torch.zeros((), dtype=torch.int64)."
)
def test_start(student: Student) -> None:
    """A new layer has a scale of ones, means of zeros, and 0 samples."""
    laws.check_filled(student, "RunningCenter", 5)
    laws.check_changes_nothing(student, "RunningCenter", 5)
    for n in (5, 1):
        seen = life(student, [], features=n).seen[0]
        right = {"scale": torch.ones(n), "num_samples": torch.tensor(0)}
        for name in KINDS:
            value, start = entry(seen, name, "values"), right.get(name, torch.zeros(n))
            assert_equal(value, start, what=f"the {name} of a new layer")
        assert entry(seen, "scale", "requires_grad") is True, (
            "scale is learned: it has to require grad."
        )


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("rows = x.detach().reshape(-1, x.shape[-1]); batch_mean is their mean.")
def test_batch_mean(student: Student) -> None:
    """In training mode batch_mean becomes the mean of the batch's rows."""
    check_statistic(student, "batch_mean")


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("num_samples grows by len(rows).")
def test_num_samples(student: Student) -> None:
    """In training mode num_samples grows by the number of the batch's rows."""
    check_statistic(student, "num_samples")


@pytest.mark.points(5)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("The old mean weighs as much as the number of rows that it was made of.")
def test_running_mean(student: Student) -> None:
    """In training mode running_mean becomes the mean of all rows so far."""
    check_statistic(student, "running_mean")


@pytest.mark.points(8)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("the sandbox reports both layers that are compared")
@pytest.mark.hint("Count with the buffer num_samples: only buffers are saved and loaded.")
def test_going_on(student: Student) -> None:
    """A layer goes on from a loaded state, which need not have batch_mean; so does a deep copy."""
    batches = [torch.randn(n, 5) + 1 for n in (4, 3, 2)]
    straight = life(student, batches).seen[-1]
    for way, when in (("reload", "from a loaded state"), ("copy", "of a deep copy")):
        report = life(student, [*batches[:2], way, batches[2]])
        for name in STATISTICS:
            right, value = (entry(seen, name, "values") for seen in (straight, report.seen[-1]))
            assert_close(value, right, what=f"{name} {when}, after another batch,", **LOOSE)
            old, now = (entry(seen, name, "values") for seen in (report.seen[2], report.other))
            assert_equal(now, old, what=f"{name} of a layer after a batch for its copy")
    _, state = loaded(student)
    given = {name: state[name] for name in ("scale", "running_mean", "num_samples")}
    new, used = (
        life(student, [*before, given, batches[0]]).seen[-1] for before in ([], [torch.randn(9, 5)])
    )
    for name in STATISTICS:
        right, value = (entry(seen, name, "values") for seen in (new, used))
        what = f"{name} of a layer with other batches before the state was loaded"
        assert_close(value, right, what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Update first, then (x - self.running_mean) * self.scale.")
def test_training_result(student: Student) -> None:
    """In training mode the updated running_mean is subtracted."""
    batches = [torch.randn(shape) * 3 + 2 for shape in ((4, 5), (5,), (2, 3, 5))]
    report = life(student, batches)
    results = entry(report.results, kind=list, count=len(batches))
    for i, (x, result) in enumerate(zip(batches, results, strict=True)):
        _old, mean = (entry(seen, "running_mean", "values") for seen in report.seen[i : i + 2])
        what = f"running_mean after batch {i + 1}"
        mean = assert_tensor(mean, shape=(5,), what=what)
        assert_close(result, x - mean, what="the result in training mode", **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("In both modes the result is (x - self.running_mean) * self.scale.")
def test_result(student: Student) -> None:
    """In evaluation mode the result is (x - running_mean) * scale."""
    for shape in ((4, 5), (5,), (2, 3, 5)):
        layer, state = loaded(student, training=False)
        x = torch.randn(shape) * 3
        mean, scale = state["running_mean"], state["scale"]
        what = "the result in evaluation mode"
        assert_close(layer(x), (x - mean) * scale, what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Make the statistics of x.detach(), or under torch.no_grad().")
def test_statistics_are_constants(student: Student) -> None:
    """Buffers have no graph, and the gradient of x is that of x * scale."""
    for seen in life(student, [torch.randn(n, 5) for n in (4, 3)], grad=True).seen:
        for name in held(seen):
            flags = [entry(seen, name, key) is False for key in ("requires_grad", "graph")]
            assert all(flags), f"{name} has a graph: make the statistics of x.detach()."
    layer, state = loaded(student)

    def formula(x: Tensor, cut: bool = True) -> Tensor:
        mean = centered(state, x.detach() if cut else x)["running_mean"]
        return (x - mean) * state["scale"]

    x = torch.randn(4, 5, requires_grad=True)
    laws.check_gradients(layer(x), {"x": x}, formula, what="the result")
    layer, state = loaded(student, training=False)
    leaves = {"x": x, "scale": entry(dict(layer.named_parameters()), "scale")}
    x.grad = None
    laws.check_gradients(layer(x), leaves, lambda x, scale: (x - state["running_mean"]) * scale)


@pytest.mark.points(3)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("a layer that never updates leaves them alone, too")
@pytest.mark.hint("if self.training: ...")
def test_evaluation_updates_nothing(student: Student) -> None:
    """In evaluation mode nothing is updated."""
    seen = life(student, [torch.randn(4, 5), "eval", torch.randn(3, 5)]).seen
    for name in held(seen[0]):
        old, new = (entry(seen[i], name, "values") for i in (1, 3))
        assert_equal(new, old, what=f"{name} after evaluation mode")


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("a layer that never updates leaves them alone, too")
@pytest.mark.hint("The mean of no rows is NaN: update only if there are rows.")
def test_no_rows(student: Student) -> None:
    """An x without rows updates nothing, and gives a result of its shape."""
    for shape in ((0, 5), (3, 0, 5)):
        for batches in ([torch.zeros(shape)], [torch.randn(4, 5), torch.zeros(shape)]):
            report = life(student, batches)
            for name in held(report.seen[-1]):
                old, new = (entry(seen, name, "values") for seen in report.seen[-2:])
                assert_equal(new, old, what=f"{name} after a batch without rows")
            assert_tensor(entry(report.results, -1), shape=shape, what="the result for no rows")


@pytest.mark.points(10)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Assign a buffer under its own name, in the dtype of x, and without a graph.")
def test_state_follows(student: Student) -> None:
    """All state follows double(), to(device) and deepcopy, before and after a forward pass."""
    features = random.randint(2, 40)
    x = torch.randn(4, features)
    doubled: list[Any] = ["copy", x, "double", "copy"]
    for before in ([], [x, "eval", x, "train"]):
        for steps in (["double"], ["double", x.double()], doubled, ["meta"], ["copy", "meta"]):
            seen = life(student, [*before, *steps], features=features, grad=True).seen[-1]
            device = "meta" if "meta" in steps[-1:] else "cpu"
            dtype = "torch.float32" if device == "meta" else "torch.float64"
            words = ["a batch" if isinstance(s, Tensor) else s for s in [*before, *steps]]
            for name in ("scale", *held(seen)):
                right = [device, dtype, [features]]
                right = [device, "torch.int64", []] if name == "num_samples" else right
                what = f"the list of device, dtype and shape of {name} after {', '.join(words)}"
                assert_equal(entry(seen, name, "where"), right, what=what)


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Only buffers change. Use reshape where you use view; name no dtype.")
def test_forward_leaves_the_rest(student: Student) -> None:
    """x may have any strides, in float32 and float64; it, scale and the mode stay as they were."""
    for training in (True, False):
        for x in (*laws.kinds_of(torch.randn(3, 5)), torch.zeros(0, 5)):
            allow = ("module.buffers",) if training and len(x) else ()
            layer, _ = loaded(student, training)
            laws.check_changes_nothing(student, layer, x, call="forward", allow=allow)
    laws.check_layouts(student, loaded(student)[0], torch.randn(3, 2, 5))
    value = entry(life(student, ["double", torch.randn(4, 5).double()]).results, 0)
    assert_tensor(value, shape=(4, 5), dtype=torch.float64, what="the result in float64")


@pytest.mark.points(12)
@pytest.mark.place("state_kinds")
@pytest.mark.hint(
    "named_parameters(), named_buffers(), and which of the latter are in state_dict()."
)
def test_kinds(student: Student) -> None:
    """Every parameter and buffer has its kind, under its dotted name; the module stays as it was."""
    for kind, right in (("Outer", OUTER), ("Inner", INNER), ("Empty", {})):
        module = student.made("module_of", kind)
        value = laws.check_changes_nothing(student, "state_kinds", module)
        assert_equal(value, right, what="the answer of state_kinds", ordered=False)


@pytest.mark.points(12)
@pytest.mark.place("forgotten_tensors")
@pytest.mark.hint("vars(submodule).items() for each prefix, submodule of named_modules().")
def test_forgotten(student: Student) -> None:
    """All tensors that are plain attributes are named, dotted; the module stays as it was."""
    inner = ["_cache", "scale"]
    outer = ["encoder.1.0._cache", "encoder.1.0.scale", "log", "step", "table"]
    for kind, right in (("Outer", outer), ("Inner", inner), ("Empty", [])):
        module = student.made("module_of", kind)
        value = laws.check_changes_nothing(student, "forgotten_tensors", module)
        told = "forgotten_tensors has to return a list of names."
        names = sorted(map(str, entry(value, kind=(list, tuple), told=told)))
        assert_equal(names, right, what="the sorted answer")


# --- locally -------------------------------------------------------------------------------------

ADVICE = {
    "plain attribute": "it is neither saved nor moved: register_buffer.",
    "parameter": "an optimizer sees it, even with requires_grad=False: register_buffer.",
    "buffer": "it is saved with the layer; for what is not: persistent=False.",
    NOT_SAVED: "it is not saved with the layer: leave persistent=False out.",
}
INNER = {"frozen": "parameter", "mean": NOT_SAVED, "mask": "buffer"}
OUTER = {
    "scale": "parameter",
    **{f"encoder.{n}.{name}": "parameter" for n in ("0", "1.1") for name in ("weight", "bias")},
    "weights.0": "parameter",
    "mean": "buffer",
    "mask": NOT_SAVED,
    **{f"encoder.1.0.{name}": kind for name, kind in INNER.items()},
    **{f"encoder.1.1.{name}": "buffer" for name in ("running_mean", "running_var")},
    "encoder.1.1.num_batches_tracked": "buffer",
}


class Life:
    """A layer's tensors after each step, its results, and at the end those that it was copied from."""

    def __init__(self, report: Any, steps: int) -> None:
        self.seen = entry(report, "seen", kind=list, count=steps + 1)
        self.results, self.keys = (entry(report, key, kind=list) for key in ("results", "keys"))
        self.other = entry(report, "other")


def life(student: Student, steps: Sequence[Any], **options: Any) -> Life:
    return Life(student.run("life", list(steps), **options), len(steps))


def held(seen: Any) -> list[str]:
    """The statistics that a layer holds in tensors; test_kinds_of_state says which are missing."""
    names = [name for name in STATISTICS if name in entry(seen, kind=dict)]
    assert "running_mean" in names, "The layer has no tensor named running_mean."
    return names


def without(kinds: dict[str, str], *parts: str) -> dict[str, str]:
    return {name: kind for name, kind in kinds.items() if not any(part in name for part in parts)}


def centered(state: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
    """The statistics of a layer of this state after a batch in training mode."""
    rows = x.reshape(-1, x.shape[-1])
    count = state["num_samples"] + len(rows)
    total = state["running_mean"] * state["num_samples"] + rows.sum(0)
    return {"batch_mean": rows.mean(0), "num_samples": count, "running_mean": total / count}


def check_statistic(student: Student, name: str) -> None:
    """One statistic after each batch is right."""
    n, m = random.randint(2, 9), random.randint(50, 90)
    for shapes in ([(n, 5), (1, 5), (m, 5), (2, 5)], [(5,), (3, n, 5), (2, 1, 2, 5), (5,)]):
        batches = [torch.randn(shape) * 3 + 2 for shape in shapes]
        rows = [batch.reshape(-1, 5) for batch in batches]
        means, average = [batch.mean(0) for batch in rows], torch.zeros(5)
        seen = life(student, batches).seen
        for i in range(len(batches)):
            average = 0.9 * average + 0.1 * means[i]
            past = torch.cat(rows[: i + 1])
            right = {
                "batch_mean": means[i],
                "num_samples": torch.tensor(len(past)),
                "running_mean": past.mean(0),
            }
            value = entry(seen[i + 1], name, "values")
            what, rule = f"{name} after batch {i + 1}", {} if name == "num_samples" else LOOSE
            assert_close(value, right[name], what=what, **rule)


def loaded(student: Student, training: bool = True) -> tuple[Any, dict[str, Tensor]]:
    """A layer of 5 features that has seen 6 rows, and its state; what it lacks is as in a new one."""
    layer = student.module("RunningCenter", 5)
    state = {"scale": torch.ones(5), "num_samples": torch.tensor(0)}
    state |= {"running_mean": torch.zeros(5), "batch_mean": torch.zeros(5)}
    new = {name: torch.randn(5) for name in ("scale", "running_mean", "batch_mean")}
    new["num_samples"] = torch.tensor(6)
    named = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    assert_tensor(named.get("scale"), shape=(5,), what="the layer's scale")
    with torch.no_grad():
        for name, values in new.items():
            if name in named and named[name].shape == values.shape:
                named[name].copy_(values)
                state[name] = values
    return layer.train(training), state
