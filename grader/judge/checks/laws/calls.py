"""Laws of calls: side effects, results for all kinds of inputs, and refused arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from grader.judge.checks.assertions import (
    assert_close,
    assert_tensor,
    compare_named,
    must_raise,
)
from grader.judge.checks.comparison import Rule
from grader.judge.checks.laws.facts import ContainerFacts, Facts, TensorFacts, facts_of, shaped
from grader.judge.checks.laws.numerics import check_attached
from grader.judge.checks.laws.observation import (
    Change,
    Target,
    called,
    name_of,
    observe,
    same,
    shipped,
)
from grader.judge.checks.wording import element, failed, sentence
from grader.judge.student import Student
from grader.judge.text import join, text
from grader.sandbox.wire.values import Made
from grader.text import with_article

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_ADVICE = {
    "values": "Compute new tensors, and change no argument in place: no +=, no method whose "
    "name ends with an underscore.",
    "parameters": "Keep the Parameter objects, which an optimizer may hold: write into them in place, "
    "under torch.no_grad().",
    "buffers": "Buffers are state: change them only where the text says so.",
    "grad": "Leave every .grad as it is: gradients come from torch.autograd.grad, or from a copy, "
    "x.detach().clone().",
    "requires_grad": "Do not switch requires_grad, or set it back in a finally: torch.no_grad() builds "
    "no graph, and x.detach() has none.",
    "mode": "Leave the mode of each submodule as it was.",
    "modes": "Set such a mode in a with block, which sets it back.",
    "hooks": "Remove each hook again, in a finally: handle.remove().",
    "random": "It neither seeds nor draws from the global random state.",
    "options": "Set the options of every parameter group back.",
    "state": "Restore the optimizer's state dict from a deep copy.",
}
# For a call whose task is to change such things and to restore them.
_ADVICE_ON_RESTORING = {
    **_ADVICE,
    "values": "Copy the values before (clone), and copy them back in place at the end, under torch.no_grad().",
    "buffers": "Buffers are state, those that are not persistent, too: copy them before, and copy them back "
    "at the end.",
    "mode": "Note the mode of each submodule before, and set it back at the end.",
}


# --- side effects of a call --------------------------------------------------------------------------


def check_changes_nothing(
    student: Student,
    target: Target,
    *arguments: Any,
    call: str = "",
    allow: Sequence[str] = (),
    only: Sequence[str] = (),
    grad_output: Tensor | None = None,
    raises: type[Exception] | None = None,
    told: str = "",
    advice: Mapping[str, str] = _ADVICE,
    **keywords: Any,
) -> Any:
    """Check that a call changes neither its arguments nor PyTorch's state; return its value.

    The check covers values, `.grad` and `requires_grad` of tensors, of modules' parameters and buffers,
    training modes, hooks, an optimizer's options and state, PyTorch's modes, the three random states. `allow`
    names things that may change, and `only` limits the check: a part ("grad"), or a part of an argument, by
    position, name or kind ("0.grad", "model.buffers", "optimizer.state"). The part "version" counts changes in
    place and must be named. With `grad_output`, a backward pass follows. The call must end with `raises`, if
    given.

        check_changes_nothing(student, layer.train(training), torch.randn(4, 6), call="forward")
    """
    call = call or name_of(target)
    if grad_output is not None:
        check_changes_nothing(student, target, *arguments, call=call, allow=allow, told=told)
        x = arguments[0].detach().requires_grad_()
        target, arguments = shipped(student, "both_passes"), (name_of(target), x, grad_output)
        call += " and its backward pass"
    seen = observe(student, target, *arguments, **keywords)
    if raises is not None:
        with must_raise(raises, call=call):
            seen.checked()
    else:
        seen.checked()
    changes = [
        change
        for change in seen.changes()
        if not change.matches(allow)
        and (change.matches(only) if only else change.part != "version")
    ]
    if changes:
        first, *more = _changed(call, changes, raises, advice)
        raise failed(first, told=told, more=more)
    return seen.value


def _changed(
    call: str, changes: list[Change], raises: type[Exception] | None, advice: Mapping[str, str]
) -> list[str]:
    """Return the changes as remarks, a sentence, and up to three pieces of advice."""
    words = list(dict.fromkeys(change.words for change in changes))
    more = text(" and {count} things more", len(words) - 6) if len(words) > 6 else ""
    sentence = text("One call of {call} changed {words}{more}.", call, join(", ", words[:6]), more)
    if raises is ValueError:
        # It refuses an argument. The change may be its task, but only after the check.
        return [sentence, "Check the arguments first: the ValueError comes too late."]
    parts = dict.fromkeys(change.part for change in changes)
    # Another Parameter has other values and another .grad.
    dropped = ("values", "grad") if "parameters" in parts else ()
    remedies = [advice[part] for part in parts if part in advice and part not in dropped]
    remarks = list(dict.fromkeys(change.remark for change in changes if change.remark))
    return [*remarks, sentence, *remedies[:3]]


def check_restores(
    student: Student,
    target: Target,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Check that a call that trains or evaluates leaves model, optimizer and random states as it found them.

    Like `check_changes_nothing`, but gradients are free. The check covers parameters (the same objects and
    values), buffers, the mode of every submodule, the optimizer's options and state.

        model = student.made("network")
        sgd = student.made("momentum", model)
        check_restores(student, "lr_range_test", model, sgd, loss, batches)
    """
    return check_changes_nothing(
        student, target, *arguments, allow=("grad",), advice=_ADVICE_ON_RESTORING, **options
    )


def check_shares_no_memory(
    student: Student, target: Target, *arguments: Any, told: str = "", **keywords: Any
) -> Any:
    """Check that the result is new: none of its tensors shares memory with an argument."""
    seen = observe(student, target, *arguments, **keywords).checked()
    own = list(_memory_of(facts_of(seen.result())))
    if not own:
        assert_tensor(seen.value, what=text("the result of {call}", name_of(target)))
    for i in range(len(arguments)):
        given = list(_memory_of(facts_of(seen.after(i))))
        if any(start < end and begin < stop for begin, end in own for start, stop in given):
            raise failed(_shared(student, target, i), told=told)
    return seen.value


def _shared(student: Student, target: Target, position: int) -> str:
    """Say that a result shares memory with an argument, by the name that the stub gives it."""
    names = student.parameters(target) if isinstance(target, str) else ()
    if position < len(names):
        # Names of the stub are words, which a hidden test shows, too.
        return text(f"The result of {target} shares its memory with {names[position]}: copy it.")
    words = "The result of {call} shares its memory with argument {position}: copy it."
    return text(words, name_of(target), position)


def _memory_of(facts: Facts) -> Iterator[tuple[int, int]]:
    """Yield where each tensor of a value begins and ends in memory."""
    if isinstance(facts, ContainerFacts):
        for item in facts.items:
            yield from _memory_of(item)
    elif isinstance(facts, TensorFacts) and facts.storage is not None:
        yield facts.storage


def check_ordinary(student: Student, target: Target, *arguments: Any, **keywords: Any) -> Any:
    """Check that the result is an ordinary tensor without a graph: it can be saved, changed and trained on."""
    seen = observe(student, target, *arguments, **keywords).checked()
    assert_tensor(seen.value, what=text("the result of {call}", name_of(target)))
    if seen.result("inference") is not False:
        raise failed(
            "The result is an inference tensor, on which nothing can be trained: use no_grad."
        )
    if seen.result("requires_grad") is not False:
        raise failed("The result has a graph: compute it under torch.no_grad(), or detach it.")
    return seen.value


# --- the result -------------------------------------------------------------------------------------


_LEADS: tuple[tuple[int, ...], ...] = ((4, 6), (2, 3, 4), (2, 3, 2, 2), (1,), ())


def check_leading_dimensions(
    student: Student,
    target: Target,
    rows: Tensor,
    *others: Any,
    shape: Sequence[int] | None = None,
) -> None:
    """Check that any leading dimensions work, and that each row's result is the same as among `rows` (24, ...).

    `shape` is the shape of one row's result.
    """
    call = called(student, target)
    expected = call(rows, *others)
    own = None if shape is None else (len(rows), *shape)
    where = "the output for x of shape"
    expected = assert_tensor(
        expected, shape=own, what=text("{where} {shape}", where, tuple(rows.shape))
    )
    if expected.shape[:1] != rows.shape[:1]:
        raise failed(
            sentence("{where} {shape} has another number of rows.", where, tuple(rows.shape))
        )
    for lead in _LEADS:
        count = math.prod(lead)
        x = rows[:count].reshape(*lead, *rows.shape[1:])
        output = call(x, *others)
        wanted = expected[:count].reshape(*lead, *expected.shape[1:])
        assert_close(output, wanted, what=text("{where} {shape}", where, tuple(x.shape)))


def check_shapes(
    student: Student,
    target: Target,
    shapes: Mapping[tuple[int, ...], tuple[int, ...]] | Iterable[tuple[int, ...]],
    *others: Any,
    dtype: torch.dtype | None = None,
    gradients: bool = False,
    what: str = "the output",
) -> None:
    """Check that an x of each shape, including size 0, gives a result of the expected shape (default: its own).

    With `gradients`, the gradient of x must have the shape and dtype of x.

        check_shapes(student, layer, {(0, 6): (0, 5), (3, 0, 6): (3, 0, 5)})
    """
    import torch

    pairs = shapes if isinstance(shapes, Mapping) else {shape: shape for shape in shapes}
    for shape, wanted in pairs.items():
        x = torch.randn(shape, dtype=dtype, requires_grad=gradients)
        where = text("for x of shape {shape}", shape)
        output = called(student, target)(x, *others)
        output = assert_tensor(
            output, shape=wanted, dtype=x.dtype, what=text("{what} {where}", what, where)
        )
        if gradients:
            check_attached(output, text("{what} {where}", what, where))
            (gradient,) = torch.autograd.grad(output.sum(), x, allow_unused=True)
            what_of = text("the gradient {where}", where)
            assert_tensor(gradient, shape=shape, dtype=x.dtype, what=what_of)


def check_dtypes(
    student: Student, target: Target, x: Tensor, *others: Any, what: str = "the output"
) -> None:
    """Check that the result has the dtype of x, float32 and float64; other floating tensors get it, too."""
    import torch

    def converted(value: Any, dtype: torch.dtype) -> Any:
        is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if is_floating else value

    wanted = [torch.float32, torch.float64]
    call = called(student, target)
    outputs = [
        assert_tensor(call(*(converted(value, dtype) for value in (x, *others))), what=what)
        for dtype in wanted
    ]
    names = [str(dtype).removeprefix("torch.") for dtype in wanted]
    always = {
        text("{what} is always {name}: it should keep the dtype of x.", sentence(what), name): [
            name,
            name,
        ]
        for name in names
    }
    compare_named(
        [str(output.dtype).removeprefix("torch.") for output in outputs],
        names,
        Rule(exact=True),
        text("the list of the dtypes of {what} for a float32 and a float64 x", what),
        lambda: always,
    )


def layouts_of(x: Tensor) -> dict[str, Tensor]:
    """Return tensors like `x` with other memory layouts, by the name of the layout."""
    import torch

    ways = {
        "sliced": torch.stack([x, x], dim=-1)[..., 1],
        "with an offset": torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].reshape(x.shape),
    }
    if x.dim() > 1:
        ways["transposed"] = x.transpose(0, 1).contiguous().transpose(0, 1)
        ways["stored feature by feature"] = x.movedim(-1, 0).contiguous().movedim(0, -1)
    if x.dim():
        ways["expanded"] = x[:1].expand_as(x)
    return ways


def check_layouts(
    student: Student, target: Target, x: Tensor, *others: Any, what: str = "the output"
) -> None:
    """Check that a transposed, sliced or expanded x gives the result and gradients of a contiguous copy."""
    import torch

    call = called(student, target)
    for layout, tensor in layouts_of(x).items():
        results = []
        for copy in (tensor, tensor.contiguous().clone()):
            leaf = copy.detach()
            leaf = leaf.requires_grad_() if leaf.is_floating_point() else leaf
            output = call(leaf, *others)
            attached = isinstance(output, torch.Tensor) and output.requires_grad
            if attached:
                (
                    output * torch.linspace(1, 2, output.numel()).reshape(output.shape)
                ).sum().backward()
            results.append((output.detach() if attached else output, leaf.grad))
        (output, gradient), (expected, expected_gradient) = results
        assert_close(output, expected, what=text("{what} for x {layout} in memory", what, layout))
        if expected_gradient is not None:  # None has nothing to do with the layout
            assert_close(
                gradient, expected_gradient, what=text("x.grad for x {layout} in memory", layout)
            )


# --- errors, seeds, files ---------------------------------------------------------------------------


def check_errors(
    student: Student,
    target: Target,
    table: Mapping[str, Iterable[Sequence[Any] | Mapping[str, Any]]],
    *,
    fine: Sequence[Any] | Mapping[str, Any] | None = None,
    call: str = "",
) -> None:
    """Check that bad arguments raise a ValueError that names the argument.

    `table` has arguments to refuse, by the name of the bad one: each is a sequence, or a dict of keywords.
    The arguments in `fine` must not be refused. A name within an identifier of the message counts, in any case.
    Of several words for one argument ("eps or epsilon"), any will do. If the target is a probe, `call` is the
    student's function, for messages.

        check_errors(student, "exponential_lrs", {"steps": [(1e-6, 10.0, 1)], "lr_min": [(0.0, 1.0, 5)]})
    """
    function, call = called(student, target), call or name_of(target)
    if fine is not None:
        _apply(function, fine)
    for name, refused in table.items():
        for arguments in refused:
            with must_raise(
                ValueError,
                mentions=name,
                call=text("{call}({arguments})", call, _listed(arguments)),
            ):
                _apply(function, arguments)


def _apply(function: Any, arguments: Sequence[Any] | Mapping[str, Any]) -> Any:
    return function(**arguments) if isinstance(arguments, Mapping) else function(*arguments)


def _listed(arguments: Sequence[Any] | Mapping[str, Any]) -> str:
    """Return arguments as written in a call."""
    if isinstance(arguments, Mapping):
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return ", ".join(map(_shown, arguments))


def _shown(value: Any) -> str:
    if isinstance(value, Made):
        return str(value.arguments[0]) if value.function == "value" else value.function
    if type(value) in (list, tuple) and any(map(_is_shaped, value)):
        open_, close = "[]" if isinstance(value, list) else "()"
        return f"{open_}{', '.join(map(_shown, value))}{close}"
    if not _is_shaped(value):
        return repr(value)[:60]
    dtype = str(value.dtype).removeprefix("torch.")
    return text("{dtype} tensor of shape {shape}", with_article(dtype), tuple(value.shape))


def _is_shaped(value: Any) -> bool:
    """Return whether a value is a tensor or an array, or contains one."""
    if type(value) in (list, tuple):
        return any(map(_is_shaped, value))
    return hasattr(value, "shape")


def check_seeded(
    student: Student,
    make: Callable[[int], Any],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    what: str = "the result",
) -> None:
    """Check that a seed decides the result in any global random state, and that other seeds give others."""
    results = []
    for seed in seeds:
        pair = []
        for _ in range(2):
            observe(student, shipped(student, "once"), [])  # leaves other random states each time
            pair.append(make(seed))
        if not same(pair[0], pair[1]):
            words = (
                "{what} differs between two calls with seed {seed}: draw from a generator that the seed "
                "decides, not from the global random state."
            )
            raise failed(sentence(words, what, seed))
        results.append(pair[0])
    for i, seed in enumerate(seeds[1:], start=1):
        if same(results[i], results[0]):
            words = "{what} is the same with the seeds {first} and {seed}: it ignores the seed."
            raise failed(sentence(words, what, seeds[0], seed))


class _Used(msgspec.Struct, frozen=True):
    """The report of the probe `used`."""

    operators: list[str]
    functions: list[str]
    calls: list[str]
    sizes: list[Any]


def check_not_used(
    student: Student,
    name: str,
    *arguments: Any,
    operators: Sequence[str] = (),
    functions: Sequence[str] = (),
    calls: Sequence[str] = (),
    sizes: Sequence[int] = (),
    why: str = "write it yourself",
    **keywords: Any,
) -> None:
    """Check that a call runs none of these operators ("aten::item") and none of these functions.

    Functions of torch's and NumPy's files and of torch._C are given by a prefix: "torch.optim." means all
    of that package. `calls` are functions and methods of torch by their plain names, however reached
    ("stride"). No operator may make a tensor with a dimension of one of `sizes`.
    """
    report = shaped(shipped(student, "used")(name, *arguments, **keywords), _Used)
    for ran in report.operators:
        if str(ran) in operators:
            raise failed("{name} runs the operator {ran}: {why}.", name, str(ran)[:80], why)
    for ran in report.functions:
        if any(str(ran).startswith(prefix) for prefix in functions):
            raise failed("{name} runs {ran}: {why}.", name, element(ran), why)
    for ran in report.calls:
        if str(ran) in calls:
            raise failed("{name} calls torch's {ran}: {why}.", name, str(ran)[:80], why)
    for size in report.sizes:
        if type(size) is int and size in sizes:
            words = "{name} makes a tensor with a dimension of size {size}: {why}."
            raise failed(words, name, size, why)
