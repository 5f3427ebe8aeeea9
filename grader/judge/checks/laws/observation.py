"""Observe the side effects of a call: the judge reads the sandbox's raw report and compares.

The report comes from the student's process. The judge knows its own tensors, so it compares the report with
these; only for live objects does it need the report of before the call.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from grader.judge.checks.assertions import assert_tensor, entry
from grader.judge.checks.comparison import Rule, first_mismatch, is_ndarray, is_tensor
from grader.judge.checks.laws.facts import (
    ContainerFacts,
    Facts,
    ModuleFacts,
    ObjectFacts,
    OptimizerFacts,
    Report,
    TensorFacts,
    shaped,
    unreadable,
)
from grader.judge.student import RemoteFunction, Student
from grader.judge.text import text
from grader.sandbox.wire.values import Opaque
from grader.text import clean

if TYPE_CHECKING:
    from torch import Tensor

    from grader.judge.remote import RemoteModule

F = TypeVar("F", TensorFacts, ModuleFacts, ObjectFacts)
# The student's code that a law looks at: the name of a function or class, or the result of `student.function`,
# `student.module` or `student.probe`.
Target = Any

_SHIPPED = Path(__file__).with_name("grader_probe.py")


def shipped(student: Student, name: str) -> RemoteFunction:
    """Return a function of the grader's own probe."""
    return student.probe(name, _SHIPPED)


def called(student: Student, target: Target) -> RemoteFunction | RemoteModule:
    """Return the function or module behind a target."""
    return student.function(target) if isinstance(target, str) else target


def name_of(target: Target) -> str:
    """Return the name of the target in messages."""
    return target if isinstance(target, str) else str(getattr(target, "name", "forward"))


class Change(NamedTuple):
    """One change: in words, the kind of part that changed, and details."""

    words: str
    part: str
    owners: frozenset[str]
    remark: str = ""

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether it is named: by its part, as `grad`, or by owner and part, as `model.grad`."""
        dotted = {f"{owner}.{self.part}" for owner in self.owners}
        return self.part in names or not dotted.isdisjoint(names)


class Observation:
    """The result of an observed call, and its side effects."""

    def __init__(
        self, value: Any, error: Exception | None, report: Any, known: Mapping[str, Any], seed: int
    ) -> None:
        self.value, self.error, self.seed = value, error, seed
        self._report, self._known = report, known

    def after(self, argument: str | int, *path: str) -> Any:
        """Return a fact about an argument after the call, as `after("model", "parameters", "bias", "grad")`.

        Arguments go by position or keyword; "module" is the module that was called.
        """
        return entry(self._report, "after", *_place(argument), *path)

    def before(self, argument: str | int, *path: str) -> Any:
        """Return the same before the call."""
        return entry(self._report, "before", *_place(argument), *path)

    def result(self, *path: str) -> Any:
        """Return a fact about the return value, as `result("requires_grad")`."""
        return entry(self._report, "value", *path)

    def checked(self) -> Observation:
        """Return itself, or raise the exception of the student's code."""
        if self.error is not None:
            raise self.error
        return self

    def gradients(self, argument: str | int) -> dict[str, Any]:
        """Return the `.grad` of each parameter of a module argument after the call."""
        facts = shaped(self.after(argument, "parameters"), dict[str, TensorFacts])
        return {name: fact.grad for name, fact in facts.items()}

    def parameters(self, argument: str | int) -> dict[str, Tensor]:
        """Return the values of each parameter and buffer of a module argument before the call."""
        facts = shaped(self.before(argument), ModuleFacts)
        tensors = {**facts.parameters, **facts.buffers}
        return {name: assert_tensor(fact.values) for name, fact in tensors.items()}

    @property
    def draws(self) -> Any:
        """Return the next numbers of each global random state after the call, by library."""
        return self._facts.draws

    @functools.cached_property
    def _facts(self) -> Report:
        return shaped(self._report, Report)

    def changes(self) -> Iterator[Change]:
        """Yield all changes that the call left."""
        names, before, after = self._facts.names, self._facts.before, self._facts.after
        own = self._known["arguments"]
        if not len(before.arguments) == len(after.arguments) == len(own):
            raise unreadable()
        for i, (was, now) in enumerate(zip(before.arguments, after.arguments, strict=True)):
            name = clean(str(names[i]), 60) if i < len(names) else text("argument {i}", i)
            yield from _changes(name, _known(own[i], was), now, frozenset({name, str(i)}))
        for name, value in self._known["keywords"].items():
            if name not in before.keywords or name not in after.keywords:
                raise unreadable()
            was = _known(value, before.keywords[name])
            yield from _changes(name, was, after.keywords[name], frozenset({name}))
        if self._known["module"] is not None:
            if before.module is None or after.module is None:
                raise unreadable()
            module = _known_module(self._known["module"], before.module)
            yield from _module_changes("", module, after.module, frozenset({"module"}))
        for mode, setting in before.modes.items():
            if not same(after.modes.get(mode), setting):
                yield Change(text("PyTorch's {mode}", clean(mode, 40)), "modes", frozenset())
        for library, numbers in _next_draws(self.seed).items():
            if not same(self._facts.draws.get(library, numbers), numbers):
                yield Change(
                    text("{library}'s global random state", library), "random", frozenset()
                )

    def was_seeded(self) -> bool:
        """Return whether the call seeded torch's global random state."""
        return not same(entry(self._report, "draws", "torch seed"), [self.seed])


def observe(student: Student, target: Target, *arguments: Any, **keywords: Any) -> Observation:
    """Call a target as a suite does, and observe how it left its arguments.

    A tensor arrives as it is here: a leaf with its `.grad`, or the result of other operations. The three global
    random states are seeded before. An exception of the student's code is kept in `.error`.

        seen = observe(student, "evaluate", student.made("network"), batches)
        assert not seen.after(0, "training", ""), "The model is left in training mode."
    """
    seed = random.randrange(2**31)  # noqa: S311 (each test has its own)
    remote = called(student, target)
    given = tuple(_alive(student, value) for value in arguments)
    named = {name: _alive(student, value) for name, value in keywords.items()}
    reply = remote.observed(given, named, seed)
    value, report = reply.value, reply.left
    error = None if reply.raised is None else student.error_of(reply.raised)
    if isinstance(error, NotImplementedError):
        raise error
    module = None if isinstance(remote, RemoteFunction) else remote
    known = {"arguments": arguments, "keywords": keywords, "module": module}
    return Observation(value, error, report, known, seed)


def kinds_of(x: Tensor) -> list[Tensor]:
    """Return copies of a tensor as callers have them: data, a leaf with a gradient, one without, a result."""
    import torch

    data, leaf, used = (x.detach().clone() for _ in range(3))
    leaf.requires_grad_()
    used.requires_grad_()
    used.grad = torch.full_like(x, 7.0)
    return [data, leaf, used, x.detach().clone().requires_grad_() * 1]


def _alive(student: Student, value: Any) -> Any:
    """Return the value with a live tensor instead of each one that requires a gradient."""
    if is_tensor(value) and value.requires_grad:
        grad = value.grad if value.is_leaf else None
        return shipped(student, "tensor").made(value.detach(), grad, value.is_leaf)
    if type(value) in (list, tuple):
        return type(value)(_alive(student, item) for item in value)
    if type(value) is dict:
        return {name: _alive(student, item) for name, item in value.items()}
    return value


def _place(argument: str | int) -> tuple[str | int, ...]:
    if argument == "module":
        return ("module",)
    return ("arguments" if isinstance(argument, int) else "keywords", argument)


def _next_draws(seed: int) -> dict[str, list[float]]:
    """Return the next random numbers of each library after this seed, for libraries in this process."""
    numbers = {"Python": [random.Random(seed).random()]}  # noqa: S311 (a state is looked at)
    if (torch := sys.modules.get("torch")) is not None:
        generator = torch.Generator().manual_seed(seed)
        numbers["torch"] = torch.rand(2, dtype=torch.float64, generator=generator).tolist()
    if (numpy := sys.modules.get("numpy")) is not None:
        numbers["NumPy"] = [float(numpy.random.RandomState(seed).random_sample())]
    return numbers


# --- the judge's own knowledge -----------------------------------------------------------------------


def _known(value: Any, reported: Facts) -> Facts:
    """Return the facts before the call, with the judge's own instead of reported ones."""
    if is_tensor(value):
        return _known_tensor(value, reported)
    if is_ndarray(value):
        return msgspec.structs.replace(_of_kind(ObjectFacts, reported), value=value)
    if type(value) in (list, tuple, dict) and isinstance(reported, ContainerFacts):
        items = list(value.values()) if isinstance(value, dict) else value
        if len(items) != len(reported.items):
            raise unreadable()
        known = [_known(item, fact) for item, fact in zip(items, reported.items, strict=True)]
        return msgspec.structs.replace(reported, items=known)
    return reported


def _of_kind(kind: type[F], facts: Facts | None) -> F:
    """The facts, if they are of this kind; otherwise the report cannot be read."""
    if not isinstance(facts, kind):
        raise unreadable()
    return facts


def _known_tensor(tensor: Any, reported: Facts | None) -> TensorFacts:
    facts = _of_kind(TensorFacts, reported)
    return msgspec.structs.replace(
        facts,
        shape=list(tensor.shape),
        dtype=str(tensor.dtype),
        values=facts.values if tensor.is_meta else tensor.detach(),
        requires_grad=tensor.requires_grad,
        grad=tensor.grad if tensor.is_leaf else None,
        sources=[],
    )


def _known_module(module: Any, reported: ModuleFacts) -> ModuleFacts:
    """Return the facts of a module before the call, with the judge's own tensors and mode."""
    return msgspec.structs.replace(
        reported,
        parameters={
            name: _known_tensor(tensor, reported.parameters.get(name))
            for name, tensor in module.named_parameters()
        },
        buffers={
            name: _known_tensor(tensor, reported.buffers.get(name))
            for name, tensor in module.named_buffers()
        },
        training={**reported.training, "": module.training},
    )


# --- differences -------------------------------------------------------------------------------------


_EXACTLY = Rule(exact=True)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are exactly equal: types, dtypes, shapes, numbers; NaN equals NaN."""
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return bool(left == right)
    return first_mismatch(left, right, _EXACTLY) is None


def _changes(name: str, before: Facts, after: Facts, owners: frozenset[str]) -> Iterator[Change]:
    """Yield the differences between facts of one value before and after the call, called `name` in messages."""
    match before, after:
        case TensorFacts(), TensorFacts():
            yield from _tensor_changes(name, before, after, owners | {"tensor"})
        case ModuleFacts(), ModuleFacts():
            yield from _module_changes(f"{name}.", before, after, owners | {"module"})
        case OptimizerFacts(), OptimizerFacts():
            yield from _optimizer_changes(name, before, after, owners | {"optimizer"})
        case ContainerFacts(), ContainerFacts():
            yield from _container_changes(name, before, after, owners | {"container"})
        case ObjectFacts(), ObjectFacts() if same(
            [after.id, after.value], [before.id, before.value]
        ):
            pass
        case _:
            yield Change(name, "values", owners)


def _tensor_changes(
    name: str, before: TensorFacts, after: TensorFacts, owners: frozenset[str]
) -> Iterator[Change]:
    """Yield the differences of a tensor: shape and dtype first, since then nothing else can be compared."""
    for part, words in (
        ("shape", text("the shape of {name}", name)),
        ("dtype", text("the dtype of {name}", name)),
        ("values", text("the values of {name}", name)),
        ("requires_grad", text("{name}.requires_grad", name)),
        ("grad", text("{name}.grad", name)),
        ("sources", text("the .grad of the tensors behind {name}", name)),
    ):
        if not same(getattr(after, part), getattr(before, part)):
            yield Change(words, {"shape": "values", "sources": "grad"}.get(part, part), owners)
            if part in ("shape", "dtype"):
                return
    if after.version != before.version:
        yield Change(
            text("{name}._version, which counts changes in place", name), "version", owners
        )


def _module_changes(
    prefix: str, before: ModuleFacts, after: ModuleFacts, owners: frozenset[str]
) -> Iterator[Change]:
    """Yield the differences of a module: modes, hooks, parameters and buffers, their names after `prefix`."""
    yield from _mode_changes(prefix, before, after, owners)
    if after.hooks != before.hooks:
        yield Change(
            text("the hooks of {prefix}", prefix.rstrip(".") or "the module"), "hooks", owners
        )
    for part, word, old, new in (
        ("parameters", "parameter", before.parameters, after.parameters),
        ("buffers", "buffer", before.buffers, after.buffers),
    ):
        for name in [*old, *(key for key in new if key not in old)]:
            words = clean(f"{prefix}{name}", 80)
            if name not in old or name not in new:
                yield Change(text("the set of {part} ({words})", part, words), part, owners)
                continue
            changes = list(_tensor_changes(words, old[name], new[name], owners))
            # A buffer may be assigned anew; an optimizer holds the parameters themselves.
            if part == "parameters" and new[name].id != old[name].id:
                changes.append(
                    Change(
                        text("the {word} {words}, now another object", word, words), part, owners
                    )
                )
            moved = {"values": "buffers"} if part == "buffers" else {}
            for change in changes:
                yield change._replace(part=moved.get(change.part, change.part))


def _mode_changes(
    prefix: str, before: ModuleFacts, after: ModuleFacts, owners: frozenset[str]
) -> Iterator[Change]:
    """Yield the first submodule whose training mode changed."""
    old, new = before.training, after.training
    if same(new, old):
        return
    remark = ""
    if all(mode is True for mode in new.values()):
        remark = "All of the module is left in training mode."
    elif all(mode is False for mode in new.values()):
        remark = "The module is left in evaluation mode."
    for name in old:
        if new.get(name) is not old[name]:
            where = clean(f"{prefix}{name}", 80).strip(".") or "the module"
            yield Change(text("the training mode of {where}", where), "mode", owners, remark)
            return
    yield Change(
        text("the submodules of {prefix}", prefix.strip(".") or "the module"), "mode", owners
    )


def _optimizer_changes(
    name: str, before: OptimizerFacts, after: OptimizerFacts, owners: frozenset[str]
) -> Iterator[Change]:
    if after.parameters != before.parameters:
        yield Change(text("the parameters of {name}", name), "parameters", owners)
    for part, old, new in (
        ("options", before.options, after.options),
        ("state", before.state, after.state),
    ):
        if any(change.part != "version" for change in _changes("", old, new, owners)):
            yield Change(text("the {words} of {name}", part, name), part, owners)


def _container_changes(
    name: str, before: ContainerFacts, after: ContainerFacts, owners: frozenset[str]
) -> Iterator[Change]:
    """Yield the differences between the entries of a list, tuple or dict."""
    old, new, keys = before.items, after.items, before.keys
    if len(old) != len(new) or not same(after.keys, keys):
        yield Change(text("the entries of {name}", name), "values", owners)
        return
    if keys is not None and len(keys) != len(old):
        raise unreadable()
    for i, (left, right) in enumerate(zip(old, new, strict=True)):
        label = repr(keys[i]) if keys is not None else i
        yield from _changes(clean(f"{name}[{label}]", 80), left, right, owners)
