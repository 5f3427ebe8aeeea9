"""A report from the student's process has the right structure, or the test fails."""

from __future__ import annotations

from typing import Any

import pytest

from grader.judge.checks.laws.facts import (
    ContainerFacts,
    ModuleFacts,
    ObjectFacts,
    OptimizerFacts,
    Report,
    TensorFacts,
    facts_of,
    shaped,
)
from grader.judge.outcomes import CheckFailed
from grader.results import Cause
from grader.sandbox.inside import observation

TENSOR: dict[str, Any] = {
    "kind": "tensor",
    "id": 1,
    "shape": [2, 3],
    "dtype": "float32",
    "requires_grad": True,
    "values": None,
    "grad": None,
    "sources": [],
    "version": 0,
    "storage": (7, 24),
}
MODULE: dict[str, Any] = {
    "kind": "module",
    "id": 2,
    "training": {"": True},
    "parameters": {"weight": TENSOR},
    "buffers": {},
    "hooks": {},
}
OBJECT = {"kind": "object", "value": 3}
STATE = {"arguments": [TENSOR], "keywords": {"mask": OBJECT}, "module": MODULE, "modes": {}}
REPORT = {"names": ["x"], "before": STATE, "after": {**STATE, "module": None}, "draws": {}}


def test_facts_are_distinguished_by_kind() -> None:
    tensor = facts_of(TENSOR)
    assert isinstance(tensor, TensorFacts)
    assert (tensor.shape, tensor.storage) == ([2, 3], (7, 24))
    assert facts_of({**TENSOR, "storage": None}) == facts_of(
        {key: value for key, value in TENSOR.items() if key != "storage"}
    )
    module = facts_of(MODULE)
    assert isinstance(module, ModuleFacts) and module.parameters == {"weight": tensor}
    assert facts_of(OBJECT) == ObjectFacts(3)
    listed = facts_of({"kind": "container", "id": 4, "items": [OBJECT], "keys": ["a"]})
    assert listed == ContainerFacts(4, [ObjectFacts(3)], ["a"])
    optimizer = {
        "kind": "optimizer",
        "id": 5,
        "options": OBJECT,
        "parameters": [[1]],
        "state": OBJECT,
    }
    assert facts_of(optimizer) == OptimizerFacts(5, ObjectFacts(3), [[1]], ObjectFacts(3))


def test_a_report_has_the_state_before_and_after() -> None:
    report = shaped(REPORT, Report)
    assert report.names == ["x"]
    assert report.before.module is not None and report.after.module is None
    assert report.before.keywords == {"mask": ObjectFacts(3)}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        3,
        "tensor",
        [],
        {},
        {"kind": "tensor"},
        {"kind": "other", "id": 1},
        {**TENSOR, "id": "1"},
        {**TENSOR, "shape": [2.5]},
        {**TENSOR, "shape": "23"},
        {**TENSOR, "requires_grad": 1},
        {**TENSOR, "storage": [1]},
        {**MODULE, "parameters": {"weight": OBJECT}},
        {**MODULE, "hooks": {"forward": "1"}},
        {"kind": "container", "id": 1, "items": [3]},
    ],
)
def test_a_report_of_another_structure_fails_the_test(odd: Any) -> None:
    with pytest.raises(CheckFailed) as raised:
        facts_of(odd)
    assert raised.value.finding.cause is Cause.TYPE
    with pytest.raises(CheckFailed):
        shaped({**REPORT, "before": {**STATE, "arguments": [odd]}}, Report)


def test_facts_nested_too_deeply_fail_the_test() -> None:
    nested: dict[str, Any] = OBJECT
    for number in range(50_000):
        nested = {"kind": "container", "id": number, "items": [nested]}
    with pytest.raises(CheckFailed):
        facts_of(nested)
    while isinstance(items := nested.pop("items", None), list):
        nested = items.pop()


def test_the_sandbox_reports_in_this_structure() -> None:
    reported = facts_of(observation.facts([1, {"a": None}, object()]))
    assert isinstance(reported, ContainerFacts)
    one, inner, other = reported.items
    assert one == ObjectFacts(1)
    assert isinstance(inner, ContainerFacts) and inner.keys == ["a"]
    assert isinstance(other, ObjectFacts) and other.value == "object" and other.id
