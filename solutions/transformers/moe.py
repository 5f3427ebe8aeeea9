"""Write a mixture of experts: a layer with many networks, of which each token uses only a few.

A *router* gives each token a score for each expert, and the token goes to the k best. Their outputs are added
up, with the router's probabilities as weights, normalized over the chosen experts:

    p      = softmax(router(x))
    output = sum of w[i] * expert_i(x) over the k experts of the highest p,   w[i] = p[i] / sum of their p

So a layer can have many times the parameters at the cost of k experts, if each one computes its own tokens
only.

Nothing in this makes the router use all experts: a few good ones get all tokens, and get better still. A
second loss is there to balance them.

Source: Fedus et al. (2021), "Switch Transformers", section 2.2; Jiang et al. (2024), "Mixtral of Experts",
section 2.1.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import Tensor, nn


class Expert(nn.Module):
    """Given: a network of two layers for (..., dim)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        result: Tensor = self.down(torch.nn.functional.gelu(self.up(x)))
        return result


class MoE(nn.Module):
    """A layer of experts, with the attributes `router` and `experts` and nothing else in its state dict."""

    def __init__(self, dim: int, experts: int, k: int) -> None:
        """Make the router, an `nn.Linear(dim, experts)` without bias, and an `nn.ModuleList` of Experts.

        Raises ValueError that names `k` if it is below 1 or above the number of experts.
        """
        super().__init__()
        # begin solution: check k, make router and experts
        if not 1 <= k <= experts:
            raise ValueError(f"k must be from 1 to {experts}, got {k}")
        self.k = k
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim) for _ in range(experts))
        # end solution

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, of the shape of `x` (..., dim), and the router's scores (..., experts).

        - Each token is in its own place in the output, whatever order the experts worked in.
        - An expert computes only its own tokens. One without tokens may be called with none, or not at all.
        - Gradients reach `x`, the experts and, by way of the weights, the router.
        """
        # begin solution: route, let each expert compute its tokens, add up
        scores: Tensor = self.router(x)
        tokens = x.reshape(-1, x.shape[-1])
        # A softmax over the chosen scores equals the softmax over all, normalized over the chosen experts.
        best, chosen = scores.reshape(len(tokens), -1).topk(self.k)
        weights = torch.softmax(best, dim=-1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            output = output.index_add(0, token, weights[token, place, None] * expert(tokens[token]))
        return output.reshape(x.shape), scores
        # end solution


def load_balancing_loss(scores: Tensor, k: int) -> Tensor:
    """Return how unevenly a router with these scores (..., experts) uses its experts: a 0-d tensor.

        loss = experts * sum over experts of f * P

    - f is the share of an expert in all choices, of which each token makes k. They add up to 1.
    - P is its probability, the softmax of the scores, averaged over the tokens. They add up to 1, too.

    If all are used alike the loss is 1. If one is sure to get all tokens (k = 1), it is the number of experts.
    No gradient passes through f, which counts, so that all of it comes by way of P.
    """
    # begin solution: shares, mean probabilities, their product
    scores = scores.reshape(-1, scores.shape[-1])
    tokens, experts = scores.shape
    choices = scores.topk(k).indices.flatten()
    shares = torch.bincount(choices, minlength=experts) / (tokens * k)
    probabilities = torch.softmax(scores, dim=-1).mean(dim=0)
    return experts * (shares * probabilities).sum()
    # end solution
