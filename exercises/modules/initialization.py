"""Initialize weights by hand: Xavier and Kaiming, from fan_in and fan_out.

If weights start too large, the signal grows from layer to layer until it overflows; if too small, it fades.
Xavier (Glorot) keeps its scale, and that of the gradients, in linear layers, Kaiming (He) before ReLUs, which
set half of it to zero:

    fan_in   how many inputs one output sums up
    fan_out  how many outputs one input feeds

Random numbers come from PyTorch's global generator.

Not allowed: the Xavier, Kaiming and fan functions of `torch.nn.init`, public or private. Its `uniform_`,
`normal_`, `zeros_`, `ones_` and `constant_` are fine.

Source: Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks";
He et al. (2015), "Delving Deep into Rectifiers".

What holds for every exercise: docs/every-exercise.md.
"""

from torch import Tensor, nn


def fans(weight: Tensor) -> tuple[int, int]:
    """Return `(fan_in, fan_out)` of a weight of shape (out, in, *kernel), as Python ints.

    With k the product of the kernel's sizes, fan_in = in * k and fan_out = out * k. A Linear's weight (out, in)
    has no kernel: k is 1. That of an `nn.Conv2d(3, 8, 5)`, of shape (8, 3, 5, 5), gives (75, 200).

    Raises ValueError that names `weight` if it has fewer than two dimensions. So do the next two functions.
    """
    # TODO: multiply the sizes of the kernel, then both fans.
    raise NotImplementedError("fans: multiply the sizes of the kernel, then both fans")


def xavier_uniform_(weight: Tensor, gain: float = 1.0) -> Tensor:
    """Fill `weight` in place with draws from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Returns `weight` itself. It may be a Parameter that requires grad: it stays a leaf and keeps its
    `requires_grad` and `.grad`. It may also be a transposed view.
    """
    # TODO: work out the bound, then draw.
    raise NotImplementedError("xavier_uniform_: work out the bound, then draw")


def kaiming_normal_(weight: Tensor) -> Tensor:
    """Fill `weight` in place with draws from N(0, std^2), std = sqrt(2 / fan_in). Returns `weight` itself.

    `weight` may be what it may be in `xavier_uniform_`.
    """
    # TODO: work out the deviation, then draw.
    raise NotImplementedError("kaiming_normal_: work out the deviation, then draw")


def init_weights(module: nn.Module) -> None:
    """Initialize the parameters of one module, for `model.apply(init_weights)`.

    `apply` calls it for every submodule and for the model itself. So it sets what belongs to `module` itself,
    and never the parameters of its children. The class, or a base class, of `module` decides:

    - `nn.Linear`: `weight` as `xavier_uniform_` does, `bias` zero;
    - `nn.Conv1d`, `nn.Conv2d`: `weight` as `kaiming_normal_` does, `bias` zero;
    - `nn.Embedding`: `weight` from N(0, 0.02^2), and the row of `padding_idx`, if there is one, zero;
    - `nn.LayerNorm`, `nn.BatchNorm1d`, `nn.BatchNorm2d`: `weight` one, `bias` zero;
    - every other module is left alone, and so is every buffer. Other convolutions and norms are up to you.

    A parameter that is None (`bias=False`, `affine=False`) is skipped. The Parameter objects stay the same
    ones; frozen ones are set, too, and stay frozen.
    """
    # TODO: look at the class, then set weight and bias.
    raise NotImplementedError("init_weights: look at the class, then set weight and bias")
