"""Two modules for init_weights, with sevens in all of their parameters."""

from __future__ import annotations

from typing import Any

from torch import nn


def linear(module: Any, n: int, m: int, bias: bool = True) -> nn.Module:
    return _sevens(nn.Linear(n, m, bias=bias))


def norm(module: Any, n: int) -> nn.Module:
    return _sevens(nn.LayerNorm(n))


def _sevens(made: nn.Module) -> nn.Module:
    for parameter in made.parameters():
        nn.init.constant_(parameter, 7.0)
    return made
