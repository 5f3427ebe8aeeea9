"""A model that looks at the last token only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def search(module: Any, probabilities: Tensor, **settings: Any) -> Any:
    """The tokens and the score of a search from token 0, where row i has the probabilities after token i."""

    def step(tokens: Tensor) -> Tensor:
        return probabilities.log()[tokens[:, -1]]

    tokens, score = module.beam_search(step, torch.tensor([0]), eos=3, **settings)
    return [int(token) for token in tokens], float(score)
