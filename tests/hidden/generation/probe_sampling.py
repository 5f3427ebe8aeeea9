"""Sampling with a generator that is made in the sandbox."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def drawn(module: Any, logits: Tensor, seed: int, settings: dict[str, Any]) -> Any:
    """Return the tokens for these logits, with a generator of this seed."""
    generator = torch.Generator().manual_seed(seed)
    return module.sample(logits, generator=generator, **settings)


def repeated(module: Any, logits: Tensor, seeds: list[int], around: list[int]) -> Any:
    """Return whether a seed decides the tokens and the global state stays, whatever the global seed is."""
    before, tokens, untouched = torch.get_rng_state(), [], []
    for seed, outside in zip(seeds, around, strict=True):
        torch.manual_seed(outside)
        state = torch.get_rng_state()
        tokens.append(drawn(module, logits, seed, {"top_k": 5, "top_p": 0.9}).tolist())
        untouched.append(torch.equal(state, torch.get_rng_state()))
    torch.set_rng_state(before)
    return {"same": [each == tokens[0] for each in tokens], "untouched": untouched}
