"""Write FlashAttention: exact attention that never has all scores at once, forward and backward.

Attention is quick to write, and needs a number for each pair of a query and a key, in both passes:

    scores S = q @ k.T / sqrt(d)      weights P = softmax of each row of S      output O = P @ v

FlashAttention works in *tiles*, of `block` queries and `block` keys. The softmax of a row needs all of its
keys, but it can be built up from tile to tile: keep the highest score so far, the sum of the exponentials and
the sum of the values times these, and correct both sums whenever the highest score changes. What remains of a
row is one number, the logarithm of its sum of exponentials:

    L = log of the sum of exp(S) over the keys      so that      P = exp(S - L)

With L, the backward pass makes each tile of P again when it needs it. For an incoming gradient dO:

    D  = sum over the features of dO * O, one number for each query
    dP = dO @ v.T      dS = P * (dP - D)
    dQ = dS @ k / sqrt(d)      dK = dS.T @ q / sqrt(d)      dV = P.T @ dO

Not allowed: PyTorch's own attention (`F.scaled_dot_product_attention` and what is made of it).

Source: Dao et al. (2022), "FlashAttention", section 3.1; Dao (2023), "FlashAttention-2", section 3.1.

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import math

# end solution
from typing import Any

import torch
from torch import Tensor

# begin solution: a helper


def tile(q: Tensor, k: Tensor, row: int, column: int, block: int, *, causal: bool) -> Tensor:
    """Return the scores of a block of queries from `row` and of keys from `column`; hidden scores are -inf."""
    query, key = q[..., row : row + block, :], k[..., column : column + block, :]
    scores = query @ key.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        rows = torch.arange(row, row + query.shape[-2], device=q.device)
        columns = torch.arange(column, column + key.shape[-2], device=q.device)
        scores = scores.masked_fill(columns > rows[:, None], -math.inf)
    return scores


# end solution


def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool
) -> tuple[Tensor, Tensor]:
    """Return the output O (..., queries, d) and the logarithms L (..., queries).

    `q` is (..., queries, d), `k` and `v` are (..., keys, d), with the same leading dimensions, and at least one
    query and key. If `causal`, there are as many queries as keys, and query i looks at keys 0 to i only.

    - `block` is at least 1. It may be larger than the number of queries or keys, and need not divide them.
    - There are never scores (or a mask) of more than `block` queries and `block` keys at a time, but you may
      compute all leading dimensions together. Apart from tiles, tensors are about as large as `q` and `k`.
    - The result is right for scores of up to 1e4 in magnitude, in whatever order they come.
    """
    # begin solution: tile by tile, with running sums
    outputs, logarithms = [], []
    for row in range(0, q.shape[-2], block):
        output = torch.zeros_like(q[..., row : row + block, :])
        total = torch.zeros_like(output[..., :1])
        highest = torch.full_like(total, -math.inf)
        for column in range(0, min(k.shape[-2], row + block) if causal else k.shape[-2], block):
            scores = tile(q, k, row, column, block, causal=causal)
            old, highest = highest, torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
            # The sums so far were computed with the old maximum.
            shrink = torch.exp(old - highest)
            weights = torch.exp(scores - highest)
            total = total * shrink + weights.sum(dim=-1, keepdim=True)
            output = output * shrink + weights @ v[..., column : column + block, :]
        outputs.append(output / total)
        logarithms.append((highest + torch.log(total)).squeeze(-1))
    return torch.cat(outputs, dim=-2), torch.cat(logarithms, dim=-1)
    # end solution


def flash_backward(
    grad_output: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logarithms: Tensor,
    block: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `q`, `k` and `v`, given that of the output (..., queries, d).

    `output` and `logarithms` are what `flash_forward` returned for these `q`, `k` and `v`. What it says of
    `block`, `causal` and tiles holds here, too.
    """
    # begin solution: make each tile of P again, add up
    scale = 1 / math.sqrt(q.shape[-1])
    grad_q, grad_k, grad_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    correction = (grad_output * output).sum(dim=-1, keepdim=True)
    for row in range(0, q.shape[-2], block):
        rows = slice(row, row + block)
        grad = grad_output[..., rows, :]
        for column in range(0, min(k.shape[-2], row + block) if causal else k.shape[-2], block):
            columns = slice(column, column + block)
            scores = tile(q, k, row, column, block, causal=causal)
            weights = torch.exp(scores - logarithms[..., rows, None])
            grad_v[..., columns, :] += weights.transpose(-2, -1) @ grad
            grad_weights = grad @ v[..., columns, :].transpose(-2, -1)
            grad_scores = weights * (grad_weights - correction[..., rows, :]) * scale
            grad_q[..., rows, :] += grad_scores @ k[..., columns, :]
            grad_k[..., columns, :] += grad_scores.transpose(-2, -1) @ q[..., rows, :]
    return grad_q, grad_k, grad_v
    # end solution


class FlashAttention(torch.autograd.Function):
    """Attention whose two passes are the functions above. Both methods are static.

    `forward(q, k, v, block, causal)` with a third method `setup_context(ctx, inputs, output)` is fine, too.
    Whether the backward pass can itself be differentiated is up to you.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
        """Return the output, and keep what `backward` needs."""
        # begin solution: call flash_forward, save
        output, logarithms = flash_forward(q, k, v, block, causal)
        ctx.save_for_backward(q, k, v, output, logarithms)
        ctx.block, ctx.causal = block, causal
        return output
        # end solution

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return a gradient for each argument of `forward`: None for `block` and `causal`."""
        # begin solution: call flash_backward
        q, k, v, output, logarithms = ctx.saved_tensors
        options = ctx.block, ctx.causal
        gradients = flash_backward(grad_output, q, k, v, output, logarithms, *options)
        return *gradients, None, None
        # end solution


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False
) -> Tensor:
    """Given: FlashAttention as a function."""
    # torch leaves apply without annotations.
    result: Tensor = FlashAttention.apply(q, k, v, block, causal)  # type: ignore[no-untyped-call]
    return result
