"""Searches in models whose logits depend on all tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def searched(module: Any, tables: Tensor, start: Tensor, settings: dict[str, Any]) -> Any:
    """Return the result of one search for each table (positions, vocab, vocab).

    If the tokens begin with those of `start`, these are an entry of their own.
    """
    results = []
    for table in tables:

        def step(tokens: Tensor, table: Tensor = table) -> Tensor:
            return table[torch.arange(tokens.shape[1]), tokens].sum(1)

        tokens, score = module.beam_search(step, start.clone(), **settings)
        tokens = [int(token) for token in tokens]
        first = len(start) if tokens[: len(start)] == start.tolist() else 0
        results.append({"start": tokens[:first], "new": tokens[first:], "score": float(score)})
    return results
