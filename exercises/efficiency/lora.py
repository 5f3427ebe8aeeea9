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
        # TODO: freeze base, make A and B.
        raise NotImplementedError("LoRALinear.__init__: freeze base, make A and B")

    def forward(self, x: Tensor) -> Tensor:
        """Return `base(x) + (alpha / rank) * B @ A @ x`: (..., in) becomes (..., out)."""
        # TODO: base, and change if unmerged.
        raise NotImplementedError("LoRALinear.forward: base, and change if unmerged")

    def merge(self) -> None:
        """Add the change to the base's weight, in place. The layer computes the same as before.

        Merging what is merged changes nothing. How a merged layer trains is up to you.
        """
        # TODO: add the change once.
        raise NotImplementedError("LoRALinear.merge: add the change once")

    def unmerge(self) -> None:
        """Take the change out of the base's weight again, in place; up to rounding it is as it was.

        Unmerging what is not merged changes nothing.
        """
        # TODO: subtract it once.
        raise NotImplementedError("LoRALinear.unmerge: subtract it once")


def add_lora(model: nn.Module, names: Collection[str], rank: int, alpha: float) -> None:
    """Freeze `model`, and put a LoRALinear in the place of each linear layer that has one of the `names`.

    A layer's name is the last part of its dotted name: `["query"]` adapts `blocks.0.query` and
    `blocks.1.query`, but not `blocks.0.query_norm`. Its old module is the base. Afterwards only matrices A
    and B require a gradient, and the model computes what it did before.

    Raises ValueError that names `names`, before it changes anything, if one is not a linear layer's name.
    """
    # TODO: find the layers, freeze, replace.
    raise NotImplementedError("add_lora: find the layers, freeze, replace")


def lora_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return what has to be saved of an adapted model: A and B of each LoRALinear, and nothing else.

    The keys are those of `model.state_dict()`, `blocks.0.query.A` for example, so that
    `model.load_state_dict(..., strict=False)` takes them. The tensors are detached; whether they are copies is
    up to you.
    """
    # TODO: A and B, by their dotted names.
    raise NotImplementedError("lora_state_dict: A and B, by their dotted names")
