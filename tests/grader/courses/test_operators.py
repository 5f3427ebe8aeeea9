"""The course's solutions agree with PyTorch's own operators, where PyTorch has them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

ROOT = Path(__file__).parents[3]


def solution(chapter: str, name: str, folder: str = "solutions") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / chapter / f"{name}.py")
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


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_gqa(kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(5)
    window, size, time = 3, 4, 8
    module = solution("transformers", "gqa")
    layer = module.GroupedQueryAttention(6 * size, 6, kv_heads, window)
    x = torch.randn(2, time, 6 * size, generator=generator, requires_grad=True)
    ours, cache = layer(x)
    query, key, value = (
        projection(x).unflatten(-1, (-1, size)).transpose(1, 2)
        for projection in (layer.query, layer.key, layer.value)
    )
    distances = torch.arange(time)[:, None] - torch.arange(time)
    mask = (distances >= 0) & (distances < window)
    heads = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, enable_gqa=True
    )
    theirs = layer.output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(ours, theirs)
    leaves = x, *layer.parameters()
    torch.testing.assert_close(gradients(ours, *leaves), gradients(theirs, *leaves))
    torch.testing.assert_close(cache, (key[:, :, -window:], value[:, :, -window:]))


@pytest.mark.parametrize("causal", [False, True])
def test_flash(causal: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 3, 10, 4, generator=generator, requires_grad=True) for _ in range(3))
    ours = solution("transformers", "flash").flash_attention(q, k, v, 4, causal)
    theirs = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, q, k, v), gradients(theirs, q, k, v))


def test_patches() -> None:
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(2, 3, 6, 8, generator=generator)
    module = solution("transformers", "patches")
    patches = module.patchify(images, 2)
    assert torch.equal(patches, functional.unfold(images, 2, stride=2).mT)
    assert torch.equal(patches, functional.pixel_unshuffle(images, 2).flatten(2).mT)
    assert torch.equal(module.unpatchify(patches, 2, 6, 8), images)
    embedding = module.PatchEmbedding(3, 2, 5)
    convolved = embedding.as_convolution()(images).flatten(2).mT
    torch.testing.assert_close(embedding(images), convolved)


# PyTorch moves these operators to another package.
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_quantize(axis: int | None) -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(4, 3, 5, generator=generator).requires_grad_()
    ours = solution("efficiency", "quantize")
    # Smaller than absmax / 127, so that some numbers are clamped.
    scale = 0.6 * ours.absmax_scale(x.detach(), axis)
    fake = ours.fake_quantize(x, scale, axis)
    if axis is None:
        theirs = torch.quantize_per_tensor(x, scale, 0, torch.qint8)
        theirs_fake = torch.fake_quantize_per_tensor_affine(x, scale.item(), 0, -127, 127)
    else:
        zeros = torch.zeros(x.shape[axis], dtype=torch.int32)
        theirs = torch.quantize_per_channel(x, scale, zeros, axis, torch.qint8)
        theirs_fake = torch.fake_quantize_per_channel_affine(x, scale, zeros, axis, -127, 127)
    # PyTorch's int8 reaches -128.
    assert torch.equal(ours.quantize(x, scale, axis), theirs.int_repr().clamp(min=-127))
    torch.testing.assert_close(fake, theirs_fake)
    torch.testing.assert_close(gradients(fake, x), gradients(theirs_fake, x))


def test_tensor_parallel() -> None:
    ours, ranks = solution("scaling", "tensor_parallel"), solution("scaling", "ranks", "exercises")
    first, second = nn.Linear(3, 4), nn.Linear(4, 5)
    x = torch.linspace(-1, 1, 12).reshape(2, 2, 3)

    def passed(one: nn.Module, other: nn.Module) -> list[Any]:
        """Return output and gradients of two layers, with an activation in between."""
        model, leaf = nn.Sequential(one, nn.Tanh(), other), x.clone().requires_grad_()
        output = model(leaf)
        output.square().sum().backward()
        return [output.detach(), leaf.grad, *(each.grad for each in model.parameters())]

    def worker(rank: int, world_size: int) -> list[Any]:
        return passed(ours.ColumnParallel(first), ours.RowParallel(second))

    parts = ranks.launch(worker, 2)
    output, of_x, w1, b1, w2, b2 = passed(first, second)
    for rank, seen in enumerate(parts):
        mine = [w1.chunk(2)[rank], b1.chunk(2)[rank], w2.chunk(2, dim=1)[rank], b2]
        torch.testing.assert_close(seen, [output, of_x, *mine])


def test_kl_estimate() -> None:
    generator = torch.Generator().manual_seed(5)
    ours, reference = torch.randn(2, 4, 9, generator=generator).log_softmax(-1)
    estimate = solution("alignment", "grpo").kl_estimate(ours, reference)
    # The estimate, averaged over tokens drawn by the model, is the divergence.
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
