"""Write LoRA: train a few small matrices instead of a whole model.

The weight W (out, in) of a linear layer stays as it was trained. Beside it two thin matrices learn the change:

    y = base(x) + (alpha / rank) * B @ A @ x        A is (rank, in), B is (out, rank), and W is (out, in)

- B starts at zero, so that a new layer computes what its base does. A starts random: if both were zero, so
  would be all gradients.
- Only A and B learn.
- After training, `(alpha / rank) * B @ A` can be added to W: the layer then costs no more than its base.

Source: Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models", section 4.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn


class LoRALinear(nn.Module):
    """A linear layer that is frozen, with a change that learns.

    Its state dict has the entries of `base` (`base.weight`, and `base.bias` if there is one), `A` and `B`.
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        """Freeze `base`, keep it as `self.base`, and make the parameters `A` (rank, in) and `B` (out, rank).

        Both have the dtype and device of the base's weight. `B` is zero, and `A` random, with any distribution.

        Raises ValueError that names `rank` if it is below 1.
        """
        super().__init__()
        # begin solution: freeze base, make A and B
        if rank < 1:
            raise ValueError(f"rank must be at least 1, got {rank}")
        self.base = base.requires_grad_(False)
        self.scale = alpha / rank
        self.merged = False
        self.A = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.B = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.A)
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Return `base(x) + (alpha / rank) * B @ A @ x`: (..., in) becomes (..., out)."""
        # begin solution: base, and change if unmerged
        if self.merged:
            output: Tensor = self.base(x)
            return output
        # In two steps, through rank numbers: B @ A itself would be as large as W.
        result: Tensor = self.base(x) + self.scale * (x @ self.A.T @ self.B.T)
        return result
        # end solution

    def merge(self) -> None:
        """Add the change to the base's weight, in place. The layer computes the same as before.

        Merging what is merged changes nothing. How a merged layer trains is up to you.
        """
        # begin solution: add the change once
        if not self.merged:
            with torch.no_grad():
                self.base.weight += self.scale * self.B @ self.A
            self.merged = True
        # end solution

    def unmerge(self) -> None:
        """Take the change out of the base's weight again, in place; up to rounding it is as it was.

        Unmerging what is not merged changes nothing.
        """
        # begin solution: subtract it once
        if self.merged:
            with torch.no_grad():
                self.base.weight -= self.scale * self.B @ self.A
            self.merged = False
        # end solution


def add_lora(model: nn.Module, names: Collection[str], rank: int, alpha: float) -> None:
    """Freeze `model`, and put a LoRALinear in the place of each linear layer that has one of the `names`.

    A layer's name is the last part of its dotted name: `["query"]` adapts `blocks.0.query` and
    `blocks.1.query`, but not `blocks.0.query_norm`. Its old module is the base. Afterwards only matrices A
    and B require a gradient, and the model computes what it did before.

    Raises ValueError that names `names`, before it changes anything, if one is not a linear layer's name.
    """
    # begin solution: find the layers, freeze, replace
    layers = {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and path.rpartition(".")[2] in names
    }
    missing = set(names) - {path.rpartition(".")[2] for path in layers}
    if missing:
        raise ValueError(f"no linear layer for these names: {sorted(missing)}")
    model.requires_grad_(False)
    for path, linear in layers.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, LoRALinear(linear, rank, alpha))
    # end solution


def lora_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return what has to be saved of an adapted model: A and B of each LoRALinear, and nothing else.

    The keys are those of `model.state_dict()`, `blocks.0.query.A` for example, so that
    `model.load_state_dict(..., strict=False)` takes them. The tensors are detached; whether they are copies is
    up to you.
    """
    # begin solution: A and B, by their dotted names
    return {
        f"{path}.{name}" if path else name: getattr(module, name).detach()
        for path, module in model.named_modules()
        if isinstance(module, LoRALinear)
        for name in ("A", "B")
    }
    # end solution
