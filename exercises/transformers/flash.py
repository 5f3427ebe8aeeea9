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

from typing import Any

import torch
from torch import Tensor


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
    # TODO: tile by tile, with running sums.
    raise NotImplementedError("flash_forward: tile by tile, with running sums")


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
    # TODO: make each tile of P again, add up.
    raise NotImplementedError("flash_backward: make each tile of P again, add up")


class FlashAttention(torch.autograd.Function):
    """Attention whose two passes are the functions above. Both methods are static.

    `forward(q, k, v, block, causal)` with a third method `setup_context(ctx, inputs, output)` is fine, too.
    Whether the backward pass can itself be differentiated is up to you.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
        """Return the output, and keep what `backward` needs."""
        # TODO: call flash_forward, save.
        raise NotImplementedError("FlashAttention.forward: call flash_forward, save")

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return a gradient for each argument of `forward`: None for `block` and `causal`."""
        # TODO: call flash_backward.
        raise NotImplementedError("FlashAttention.backward: call flash_backward")


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False
) -> Tensor:
    """Given: FlashAttention as a function."""
    # torch leaves apply without annotations.
    result: Tensor = FlashAttention.apply(q, k, v, block, causal)  # type: ignore[no-untyped-call]
    return result
