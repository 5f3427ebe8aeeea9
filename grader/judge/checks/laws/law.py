"""What makes a check a law: it names its saboteurs, and its calls are recorded for `grade verify`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from grader.judge.recording import recorder
from grader.judge.student import RemoteFunction
from grader.sandbox.wire.values import Made

P = ParamSpec("P")
T = TypeVar("T")
# From the arguments of a law to the saboteurs that it must catch with them, each as `writes_into(0)`.
Choice = Callable[[Mapping[str, Any]], Iterable[str]]
_TARGETS = ("target", "class_name", "name", "module", "made")


def law(
    *saboteurs: str, choice: Choice | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declare a check as a law that must catch these `saboteurs`, and those of a choice."""

    def declared(check: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(check)

        @functools.wraps(check)
        def recorded(*arguments: P.args, **keywords: P.kwargs) -> T:
            if not recorder.begin_law():
                return check(*arguments, **keywords)
            held = False
            try:
                result = check(*arguments, **keywords)
                held = True
                return result
            finally:
                bound = signature.bind(*arguments, **keywords)
                bound.apply_defaults()
                own = (*saboteurs, *(choice(bound.arguments) if choice else ()))
                recorder.end_law(check.__name__, _targets(bound.arguments), own, held=held)

        return recorded

    return declared


def _targets(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The student's function or class that a law looks at; () where it gets a value."""
    for key in _TARGETS:
        match arguments.get(key):
            case str(name):
                return (name,)
            case RemoteFunction(probe=None, name=name) | Made(probe=None, function=name):
                return (name,)
            case object(_class_name=str(name)):
                return (name,)
    return ()
