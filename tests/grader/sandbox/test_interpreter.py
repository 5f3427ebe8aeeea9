"""The builtins of a student's module cannot change a library or keep the variables of a caller."""

from __future__ import annotations

from typing import Any

import pytest

from grader.sandbox.inside.interpreter import own_builtins

REFUSED = [
    "list(map(setattr, [torch], ['rand'], [f]))",
    "setattr(torch.nn.Module, 'forward', f)",
    "[setattr(m, 'ra' + 'nd', f) for m in (torch,)]",
    "__import__('functools').partial(setattr, torch)('rand', f)",
    "delattr(torch, 'rand')",
]
FINE = {
    "getattr(torch, 'no' + 'thing', 7)": 7,
    "getattr(torch, 'n' + 'n').__name__": "torch.nn",
    "len([n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype)]) > 9": True,
    "[setattr(Own, 'x', 1), Own.x, delattr(Own, 'x')][1]": 1,
    "[setattr(Own(), 'x', 1)]": [None],
    "[setattr(torch.backends.cudnn, 'benchmark', torch.backends.cudnn.benchmark)]": [None],
    "sorted(vars(Own()))": [],
    "vars(Own)['x']": 3,
    "vars(torch)['nn'].__name__": "torch.nn",
    "[vars(torch).update(rand=f), torch.rand is f]": [None, False],
    "(lambda inner: vars())(2)": {"inner": 2},
    "(lambda inner: locals())(2)": {"inner": 2},
    "locals() is vars()": True,
    "(lambda: globals()['Own'].x)()": 3,
}
MODULE = """
import torch
def f(): pass
class Own:
    x = 3
"""


def run(expression: str) -> Any:
    space: dict[str, Any] = {"__name__": "task", "__builtins__": own_builtins("task")}
    exec(MODULE, space)
    return eval(expression, space)


@pytest.mark.parametrize("expression", REFUSED)
def test_a_write_into_a_library_is_refused(expression: str) -> None:
    with pytest.raises((AttributeError, TypeError), match="judged"):
        run(expression)


@pytest.mark.parametrize("name", ["vars", "locals", "globals"])
def test_variables_of_a_caller_in_c_are_not_kept(name: str) -> None:
    kept = run(f"__import__('functools').cache({name})")
    with pytest.raises(TypeError, match="judged"):
        kept()


@pytest.mark.parametrize("expression", FINE)
def test_ordinary_uses_work_as_usual(expression: str) -> None:
    assert run(expression) == FINE[expression]
