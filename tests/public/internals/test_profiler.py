"""Small examples for top_operators, profile_operators, profile_steps and train_step."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

# Each row has key, count, self_cpu_time_total and cpu_time_total.
ROWS: list[list[Any]] = [["aten::add", 9, 10.0, 10.0], ["ProfilerStep*", 2, 500.0, 900.0]]
ROWS += [["aten::linear", 2, 5.0, 400.0], ["aten::mm", 4, 300.0, 310.0]]
ADD, STEP, LINEAR, MM = ROWS
PARTS = {"forward": ["the loss"], "backward": ["its gradient"], "optimizer": []}
LABELS = [x for label, part in PARTS.items() for x in (f"{label} begins", *part, f"{label} ends")]


@promise(
    "top_operators",
    points=3,
    hint="sorted(entries, key=lambda entry: getattr(entry, sort_by), reverse=True)[:n]",
)
def test_example_top(student: Student) -> None:
    """Of add, a profiler's step, linear and mm, the two with the most self time are mm and add."""
    for sort_by, right in (
        ("self_cpu_time_total", [MM, ADD]),
        ("cpu_time_total", [LINEAR, MM]),
        ("count", [ADD, MM]),
    ):
        value = student.run("ranked", [ADD, STEP, LINEAR, MM], 2, sort_by)
        what = f"the list of the top 2 by {sort_by}"
        assert_equal(value, right, what=what)


@promise(
    "profile_operators",
    points=2,
    hint="Call f() in a with profile(...) as prof: block, then prof.key_averages().",
)
def test_example_operators(student: Student) -> None:
    """torch.ones(size).sin().exp() for two sizes calls sin twice and exp twice."""
    right = {"aten::sin": 2, "aten::exp": 2}
    calls = student.run("profiled")
    seen = {name: entry(calls, name) for name in right if name in entry(calls, kind=dict)}
    assert_equal(seen, right, what="the dict of calls", ordered=False)


@promise(
    "profile_steps", points=3, hint="prof.step() after step(i); the averages in on_trace_ready."
)
def test_example_steps(student: Student) -> None:
    """Step i calls sin i * i times; of 8 steps 2, 3, 6 and 7 are recorded, of 7 steps only 2 and 3."""
    for steps, right in ((8, [4 + 9, 36 + 49]), (7, [4 + 9]), (3, [])):
        what = f"the list of the calls of sin for {steps} steps"
        assert_equal(student.run("stepped", steps), right, what=what)


@promise(
    "train_step",
    points=3,
    hint='with record_function("forward"): loss = loss_fn(model(inputs), targets)',
)
def test_example_training(student: Student) -> None:
    """Weight 1, x = 2 and y = 5 give the loss 9, and with lr 0.25 the weight 4; each part has its label."""
    report = student.run("trained")
    assert_close(entry(report, "loss"), torch.tensor(9.0), what="the loss")
    assert entry(report, "detached") is True, "The loss has a graph: return loss.detach()."
    assert_close(entry(report, "weight"), torch.tensor([[4.0]]), what="the weight")
    what = "the list of what begins and ends, one after the other,"
    lines = entry(report, "labels", kind=list)
    for label in PARTS:
        count = lines.count(f"{label} begins")
        assert count == 1, f"The label {label!r} is set {count} times in a step, not once."
    assert lines.count("the loss") == 1, "loss_fn runs more or less than once."
    assert_equal(lines, LABELS, what=what)
