"""Laws of modules: parameters, state dict, how they start, and the modes in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import Mistakes, assert_close, assert_tensor
from grader.judge.checks.numerics import check_finite
from grader.judge.checks.observation import shipped
from grader.judge.checks.reports import entry
from grader.judge.checks.wording import failed, sentence
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

if TYPE_CHECKING:
    from torch import Tensor


def check_parameters(
    module: Any,
    shapes: Mapping[str, Sequence[int]],
    *,
    call: str = "the module",
    mistakes: Mistakes | None = None,
) -> list[Tensor]:
    """A module has learnable parameters of these names and shapes; returns them in this order."""
    named, saved = dict(module.named_parameters()), module.state_dict()
    for name in shapes:
        inside = [other for other in named if other.endswith(f".{name}")]
        if name not in named and inside:
            owner = f"{name} belongs on the module itself: self.{name} = nn.Parameter(...)"
            raise failed(
                [f"{call} has a parameter {inside[0]}, but {owner}, not one of a submodule."]
            )
        if name not in named and name in saved:
            raise failed([f"{name} is a buffer, which no optimizer sees: make it an nn.Parameter."])
        if name not in named:
            has = ", ".join(sorted(named)) or "none"
            line = f"{call} has no parameter named {name}: self.{name} has to be an nn.Parameter"
            raise failed([sentence(f"{line} (a plain tensor does not count). It has: {has}.")])
    assert_close(
        {name: list(named[name].shape) for name in sorted(shapes)},
        {name: list(shapes[name]) for name in sorted(shapes)},
        what=f"the dict of parameter shapes of {call}",
        mistakes=mistakes,
    )
    return [named[name] for name in shapes]


def check_state_dict(module: Any, names: Iterable[str]) -> None:
    """The state dict has exactly these names, in any order."""
    promised = set(names)
    saved = {*module.saved_names, *dict(module.named_parameters())}
    extra, missing = sorted(saved - promised), sorted(promised - saved)
    if extra:
        belong = " and ".join(sorted(promised, reverse=True)) or "nothing"
        raise failed([f"Only {belong} belong in the state_dict, yours also has: {extra}."])
    if missing:
        raise failed([f"The state_dict lacks {missing}: register what is to be saved."])


def check_filled(
    student: Student, class_name: str, *arguments: Any, names: Sequence[str] = ()
) -> None:
    """A new module's parameters and buffers were all written: none is what was in memory."""
    state = shipped(student, "state_on_nan")(class_name, *arguments)
    told = f"The module has no parameter named {', '.join(names)}." if names else "It has no state."
    state = entry(state, kind=dict, told=told)
    for name in names or state:
        own = [tensor for key, tensor in state.items() if f".{key}".endswith(f".{name}")]
        tensor = assert_tensor(own[0] if own else None, what=f"the {name} of a new {class_name}")
        why = "is it filled everywhere? (torch.empty leaves whatever was in memory; here it is NaN)"
        check_finite(tensor, what=f"a new {name}", why=why)


def check_modes_inside(
    student: Student,
    name: str,
    model: Made,
    *arguments: Any,
    training: bool | None = None,
    grad: bool | None = None,
    told: str = "",
    **keywords: Any,
) -> list[Any]:
    """While a function runs `model`, its first argument, the model is in these modes, at each call."""
    recorder = shipped(student, "recorder").made(model)
    seen = shipped(student, "seen")(recorder, name, *arguments, **keywords)
    for modes in entry(seen, kind=list):
        if training is not None and any(mode is not training for mode in entry(modes, "training")):
            wanted = "model.train()" if training else "model.eval()"
            raise failed([f"{name} runs the model in the wrong mode: call {wanted} first."], told)
        if grad is not None and entry(modes, "grad") is not grad:
            wrong = "without autograd" if grad else "with autograd on, which builds a graph"
            raise failed([f"{name} runs the model {wrong}."], told)
    return list(seen)
