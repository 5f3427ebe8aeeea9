"""Write RoPE, rotary position embedding: tell attention where a token is by turning its query and its key.

The features of a query or key are taken in pairs, and pair i of a token at position p is turned by the angle

    angle[p, i] = p * base ** (-2 * i / dim)        i = 0, 1, ..., dim / 2 - 1

The first pair turns by one radian a position, the last one hardly at all. Turning both by the same angle
changes no dot product. So the score of a query and a key depends only on how far apart they are, and not on
where.

Which features are a pair is a convention, and weights that were trained with one are useless with the other.
As in Llama's code in Hugging Face, the pairs here are *halves*: feature i and feature i + dim / 2. (The
paper, GPT-J and Meta's own code pair neighbors: 2 * i and 2 * i + 1.)

    first'  = first * cos(angle) - second * sin(angle)
    second' = second * cos(angle) + first * sin(angle)

Source: Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import Tensor


def rope_angles(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """Return the angle of each pair at each position, in radians: (..., dim // 2), float32.

    `positions` is (...), int64, each from 0 to 10000. They need not begin at 0 nor be in order: with a cache of
    keys, a new token is at position 100, say, and each sequence of a batch may have positions of its own. `dim`
    is the number of features of a head.

    Always compute in float32: bfloat16 has no 257, and would give neighbors the same position.

    Raises ValueError that names `dim` if it is odd.
    """
    # begin solution: every position times every pair's frequency
    if dim % 2 != 0:
        raise ValueError(f"dim must be even, so that features make pairs, got {dim}")
    exponents = torch.arange(0, dim, 2, device=positions.device) / dim
    frequencies = 1.0 / base**exponents
    return positions[..., None] * frequencies
    # end solution


def apply_rope(x: Tensor, angles: Tensor) -> Tensor:
    """Return `x` with each of its pairs turned by its angle: a tensor of the shape and dtype of `x`.

    `x` is (..., time, dim), float32, bfloat16 or float16, `angles` float32 and of a shape that broadcasts to
    (..., time, dim // 2): (time, dim // 2) for the same positions in all heads and sequences, or
    (batch, 1, time, dim // 2).

    - Take sine and cosine in float32, whatever the dtype of `x`: an angle of 300 in bfloat16 is off by up to 1.
      Whether the products are then in float32 or in the dtype of `x` is up to you.
    - Gradients reach `x`.
    """
    # begin solution: turn the two halves
    first, second = x.chunk(2, dim=-1)
    # Products with these are float32, whatever the dtype of x.
    cos, sin = angles.cos(), angles.sin()
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.to(x.dtype)
    # end solution
