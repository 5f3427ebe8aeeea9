"""Where PyTorch has the operator that an exercise is about, the course's solution agrees with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

SOLUTIONS = Path(__file__).parents[3] / "solutions"


def solution(chapter: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SOLUTIONS / chapter / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gradients(output: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    incoming = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad(output, leaves, incoming)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rms_norm(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(4, 3, 16, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(16, generator=generator).to(dtype).requires_grad_()
    ours = solution("transformers", "rms_norm").rms_norm(x, weight, 1e-3)
    theirs = functional.rms_norm(x, (16,), weight, 1e-3)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, x, weight), gradients(theirs, x, weight))


def test_sequence_log_probs() -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(3, 6, 7, generator=generator)
    tokens = torch.randint(7, (3, 6), generator=generator)
    mask = torch.rand(3, 6, generator=generator) < 0.5
    ours = solution("alignment", "dpo").sequence_log_probs(logits, tokens, mask)
    labels = tokens.masked_fill(~mask, -100)[:, 1:]
    theirs = functional.cross_entropy(logits[:, :-1].mT, labels, reduction="none")
    torch.testing.assert_close(ours, -theirs.sum(1))


def test_kl_estimate() -> None:
    generator = torch.Generator().manual_seed(5)
    ours, reference = torch.randn(2, 4, 9, generator=generator).log_softmax(-1)
    estimate = solution("alignment", "grpo").kl_estimate(ours, reference)
    # Its mean over the tokens that the model draws.
    theirs = functional.kl_div(reference, ours, log_target=True, reduction="none")
    torch.testing.assert_close((ours.exp() * estimate).sum(-1), theirs.sum(-1))


def test_tape() -> None:
    generator = torch.Generator().manual_seed(5)
    shapes = (5, 3), (3, 4), (4,), (5, 1)
    theirs = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    value = solution("autograd", "tape").Value
    ours = [value(each.clone()) for each in theirs]

    def network(x: Any, w: Any, b: Any, column: Any) -> Any:
        hidden = (x @ w + b).relu() * column
        return (hidden * hidden + 2.0 * hidden - b).sum(-1).sum()

    network(*ours).backward()
    gradients = torch.autograd.grad(network(*[each.requires_grad_() for each in theirs]), theirs)
    torch.testing.assert_close(tuple(each.grad for each in ours), gradients)
