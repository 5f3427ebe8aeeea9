"""The calls in a logger after a few lines of code, as plain lists."""

from __future__ import annotations

from typing import Any

import torch


def raw(calls: Any) -> list[Any]:
    names = ("name", "input_shapes", "output_shapes")
    return [[getattr(call, name, "no OperatorCall") for name in names] for call in calls]


def recorded(module: Any, program: str) -> tuple[Any, ...]:
    """The calls in a new logger, the calls of a program, and its `result`. x is (2, 3), and y is (3, 5)."""
    scope: dict[str, Any] = {"torch": torch, "x": torch.ones(2, 3), "y": torch.ones(3, 5)}
    logger = module.OperatorLogger()
    before = len(logger.calls)
    with logger:
        exec(program, scope)
    return before, raw(logger.calls), scope["result"]


def logged(module: Any, x: torch.Tensor) -> dict[str, Any]:
    """The report on log_operators for a function with an argument and a keyword."""
    answer = module.log_operators(lambda x, scale: x * scale, x, scale=2)
    pair = isinstance(answer, tuple) and len(answer) == 2
    result, calls = answer if pair else ("no pair", [])
    return {"result": result, "calls": raw(calls) if isinstance(calls, list) else calls}


def calls(module: Any, rows: list[Any]) -> list[Any]:
    """The student's OperatorCalls of these names and shapes."""
    return [module.OperatorCall(*row) for row in rows]
