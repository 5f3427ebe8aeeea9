"""Reports of the student's process: on an observed call, by `sandbox.inside.observation`, and on figures.

A report of another shape fails the test.
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
    """An optimizer; `parameters` has the ids of the parameters in each group."""

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


class LineFacts(msgspec.Struct, frozen=True):
    """A line of a plot; `points` should be an array (n, 2)."""

    label: str
    points: Any


class AxesFacts(msgspec.Struct, frozen=True):
    """One Axes: its labels and scales, and the lines that can be seen."""

    x_label: str
    y_label: str
    x_scale: str
    y_scale: str
    lines: list[LineFacts]


class FigureFacts(msgspec.Struct, frozen=True):
    """A figure: its Axes, and the texts and the number of its legends."""

    axes: list[AxesFacts]
    legend: list[str]
    legends: int


class Drawn(msgspec.Struct, frozen=True):
    """What a function returned: the name of its type, and its facts if it is a figure."""

    type: str
    figure: FigureFacts | None


class PyplotState(msgspec.Struct, frozen=True):
    """The numbers of pyplot's open figures, and the types of the contents of each of the caller's figures."""

    open: list[int]
    contents: list[list[str]]


class PyplotFacts(msgspec.Struct, frozen=True):
    """pyplot before and after a call, whether it returned a caller's figure, and how often it showed one."""

    before: PyplotState
    after: PyplotState
    returned_callers: bool
    shown: int


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
