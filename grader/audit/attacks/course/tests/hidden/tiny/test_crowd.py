"""A hidden suite about values in the style of other graders: it trusts torch and Python."""

import torch

from grader.judge.checks import assert_tensor

# No sandbox may ever hold this string.
EXPECTED = "canary:suite:b81e6c02f94d7a53"


def test_values(student):
    """Values are scaled"""
    x = torch.randn(5)
    y = assert_tensor(student.function("scale")(x, 3.0))
    assert y.shape == x.shape
    assert torch.allclose(y, 3 * x)
    torch.testing.assert_close(y, 3 * x)
    assert torch.equal(y, 3 * x)
    numbers = [float(number) for number in x]
    answer = student.function("doubled")(numbers)
    assert isinstance(answer, list)
    assert len(answer) == 5
    for given, expected in zip(answer, numbers, strict=False):
        assert given == 2 * expected


def test_module(student):
    """The module scales, and learns"""
    layer = student.module("Scale", 3)
    x = torch.randn(4, 3, requires_grad=True)
    y = assert_tensor(layer(x))
    torch.testing.assert_close(y, 1 * x)
    assert y.requires_grad
    weight = torch.randn(4, 3)
    (y * weight).sum().backward()
    assert torch.allclose(assert_tensor(x.grad), weight)
    factors = assert_tensor(dict(layer.named_parameters()).get("factors"))
    torch.testing.assert_close(factors.grad, (x.detach() * weight).sum(0))


def test_probe(student):
    """Steps are counted"""
    how_many = int(torch.randint(4, 9, ()))
    assert student.run("count", how_many) == [2 * each + 1 for each in range(how_many)]
