"""The report of an observed call, in the shape that `sandbox.inside.observation` gives it.

The report comes from the student's process: a report of another shape fails the test.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from grader.judge.checks.assertions import UNREADABLE
from grader.judge.outcomes import CheckFailed
from grader.results import Cause

T = TypeVar("T")


class _Facts(msgspec.Struct, frozen=True, tag_field="kind"):
    """Facts about one object; the tag names its kind."""


class TensorFacts(_Facts, frozen=True, tag="tensor"):
    """A tensor; `sources` are the gradients of the leaves that it was computed from."""

    id: int
    shape: list[int]
    dtype: str
    requires_grad: bool
    values: Any
    grad: Any
    sources: list[Any]
    version: int | None
    storage: tuple[int, int] | None = None


class ModuleFacts(_Facts, frozen=True, tag="module"):
    """A module and the modules in it; `hooks` has the number of hooks in each table that is not empty."""

    id: int
    training: dict[str, Any]
    parameters: dict[str, TensorFacts]
    buffers: dict[str, TensorFacts]
    hooks: dict[str, int]


class ContainerFacts(_Facts, frozen=True, tag="container"):
    """A list or a tuple, or a dict or dataclass, which has keys."""

    id: int
    items: list[Facts]
    keys: list[Any] | None = None


class ObjectFacts(_Facts, frozen=True, tag="object"):
    """Plain data, which has no id, or the name of the type of another object."""

    value: Any
    id: int | None = None


class OptimizerFacts(_Facts, frozen=True, tag="optimizer"):
    """An optimizer; `parameters` are the ids of those in each group."""

    id: int
    options: Facts
    parameters: list[list[int]]
    state: Facts


Facts = TensorFacts | ModuleFacts | OptimizerFacts | ContainerFacts | ObjectFacts


class State(msgspec.Struct, frozen=True):
    """The arguments of a call, the module that is called, and PyTorch's modes, before or after it."""

    arguments: list[Facts]
    keywords: dict[str, Facts]
    module: ModuleFacts | None
    modes: dict[str, Any]


class Report(msgspec.Struct, frozen=True):
    """A call: the names of its arguments, and the next numbers of each global random state after it."""

    names: list[Any]
    before: State
    after: State
    draws: dict[str, Any]


def shaped(report: Any, shape: type[T]) -> T:
    """Give plain data of the sandbox its shape; raises CheckFailed for data of another one."""
    try:
        return msgspec.convert(report, shape)
    except (msgspec.ValidationError, RecursionError):
        raise unreadable() from None


def facts_of(report: Any) -> Facts:
    """The facts about any object."""
    (facts,) = shaped([report], list[Facts])
    return facts


def unreadable() -> CheckFailed:
    """The failure of a test to which the student's process gave data of another shape."""
    return CheckFailed(UNREADABLE, Cause.TYPE)
