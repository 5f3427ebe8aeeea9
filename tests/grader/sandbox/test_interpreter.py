"""Names that are put together as the code runs lead into no frame, no globals and no library."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from grader.sandbox.inside.interpreter import own_builtins

REFUSED = [
    "getattr(f, '_' + '_globals_' + '_')",
    "getattr(f, '_' + '_code_' + '_', None)",
    "__import__('functools').reduce(getattr, ['_' + '_closure_' + '_'], f)",
    "__import__('operator').attrgetter('f_' + 'back')(f)",
    "__import__('operator').attrgetter('name.f_' + 'back')(f)",
    "__import__('operator').methodcaller('_' + '_getattribute_' + '_', 'x')(f)",
    "list(map(setattr, [torch], ['rand'], [f]))",
    "setattr(torch.nn.Module, 'forward', f)",
    "getattr(f, '_' + '_class_' + '_')",
    "getattr(vars(type(f))['__name__'], '_' + '_get_' + '_')(f)",
    "getattr(torch, 'war' + 'nings')",
    "getattr(__import__('warnings').catch_warnings()._module, 's' + 'ys')",
    "__import__('operator').attrgetter('s' + 'ys')(torch)",
    "setattr(Own(), '_' + '_class_' + '_', int)",
    "delattr(torch, 'rand')",
]
FINE = {
    "getattr(torch, 'no' + 'thing', 7)": 7,
    "getattr(f, '__name__')": "f",
    "[setattr(Own, 'x', 1), Own.x, delattr(Own, 'x')][1]": 1,
    "[setattr(Own(), 'x', 1)]": [None],
    "[setattr(torch.backends.cudnn, 'benchmark', torch.backends.cudnn.benchmark)]": [None],
    "__import__('operator').attrgetter('real')(3)": 3,
    "__import__('operator').methodcaller('upper')('a')": "A",
    "__import__('operator').itemgetter(0)([5])": 5,
    "getattr(f, '__dict__')": {},
    "getattr(torch, 'n' + 'n').__name__": "torch.nn",
    "sorted(vars(Own()))": [],
    "vars(Own)['x']": 3,
    "vars(torch)['nn'].__name__": "torch.nn",
    "'sys' in vars(torch)": False,
    "'_' + '_getattribute_' + '_' in vars(object)": False,
    "(lambda inner: vars())(2)": {"inner": 2},
    "(lambda inner: locals())(2)": {"inner": 2},
    "locals() is vars()": True,
}
MODULE = """
import torch
def f(): pass
class Own:
    x = 3
"""


def run(expression: str) -> Any:
    source = f"{MODULE}\n{expression}".encode()
    space: dict[str, Any] = {"__name__": "task", "__builtins__": own_builtins("task", source)}
    exec(MODULE, space)
    return eval(expression, space)


@pytest.mark.parametrize("expression", REFUSED)
def test_a_way_into_what_runs_beside_is_refused(expression: str) -> None:
    with pytest.raises((AttributeError, TypeError), match="judged"):
        run(expression)


@pytest.mark.parametrize("name", ["vars", "locals"])
def test_the_variables_of_what_calls_it_are_not_kept(name: str) -> None:
    kept = run(f"__import__('functools').cache({name})")
    with pytest.raises(TypeError, match="judged"):
        kept()


@pytest.mark.parametrize("expression", FINE)
def test_what_honest_people_run_is_as_ever(expression: str) -> None:
    assert run(expression) == FINE[expression]


def test_the_library_itself_is_as_it_was() -> None:
    run("__import__('operator')")
    assert operator.attrgetter("__globals__")(run) is globals()
