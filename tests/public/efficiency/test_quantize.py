"""Small examples for quantization, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_tensor, promise
from grader.judge.student import Student

INT8 = torch.int8


@promise("absmax_scale", hint="The largest magnitudes are 254 and 127 in the rows, and 254 in all.")
def test_example_scale(student: Student) -> None:
    """The rows [1, -254] and [127, 2] have the scales 2 and 1, and together the scale 2."""
    x, scale = torch.tensor([[1.0, -254.0], [127.0, 2.0]]), student.function("absmax_scale")
    assert_close(scale(x, 0), torch.tensor([2.0, 1.0]), what="the scales of the rows")
    assert_close(scale(x), torch.tensor(2.0), what="the scale of both")


@promise("quantize", hint="0.8 / 0.5 is 1.6, and the nearest integer is 2.")
def test_example_quantize(student: Student) -> None:
    """At a scale of 0.5, 0.8 is 2, -0.8 is -2, and 100 is 127."""
    q = student.function("quantize")(torch.tensor([0.8, -0.8, 100.0]), torch.tensor(0.5))
    assert_close(q, torch.tensor([2, -2, 127], dtype=INT8))


@promise("dequantize", hint="Each row is multiplied by its own scale.")
def test_example_dequantize(student: Student) -> None:
    """The rows [1, 2] and [3, 4] with the scales 10 and 100 are [10, 20] and [300, 400]."""
    q = torch.tensor([[1, 2], [3, 4]], dtype=INT8)
    result = student.function("dequantize")(q, torch.tensor([10.0, 100.0]), 0)
    assert_close(result, torch.tensor([[10.0, 20.0], [300.0, 400.0]]))


@promise("fake_quantize", hint="At most half a scale lies between a number and the next step.")
def test_example_error(student: Student) -> None:
    """Within the range, the result differs from x by at most half a scale."""
    x = torch.linspace(-1.27, 1.27, 300)
    result = student.function("fake_quantize")(x, torch.tensor(0.01))
    error = (assert_tensor(result, shape=(300,)).detach() - x).abs()
    assert error.max() < 0.00501, "The result differs from x by more than half a scale."
