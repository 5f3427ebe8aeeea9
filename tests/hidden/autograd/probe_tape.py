"""Build graphs of the student's Values from small programs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "@": lambda a, b: a @ b,
    "relu": lambda a: a.relu(),
    "sum": lambda a, **settings: a.sum(**settings),
}


def differentiated(
    module: Any, leaves: list[Tensor], programs: list[list[Any]], gradient: Tensor | None = None
) -> Any:
    """Run each program on the same leaves, and backward after it. Return the last result and the gradients.

    A line of a program is an operation and its arguments. An int is the place of a Value; the leaves come
    first. A list holds a number, and a dict holds keyword arguments.
    """
    made, data = [module.Value(leaf.clone()) for leaf in leaves], None
    for program in programs:
        values = list(made)
        for name, *arguments in program:
            settings = arguments.pop() if isinstance(arguments[-1], dict) else {}
            arguments = [values[a] if isinstance(a, int) else a[0] for a in arguments]
            values.append(OPERATIONS[name](*arguments, **settings))
        data = values[-1].data
        values[-1].backward() if gradient is None else values[-1].backward(gradient.clone())
    changed = [not bool((m.data == leaf).all()) for m, leaf in zip(made, leaves, strict=True)]
    return {"result": data, "gradients": [m.grad for m in made], "whether data changed": changed}


def data_of(module: Any, number: float) -> Any:
    """Return the data of a Value that is made from a number."""
    return module.Value(number).data
