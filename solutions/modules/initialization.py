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
    # begin solution: multiply the sizes of the kernel, then both fans
    if weight.dim() < 2:
        raise ValueError(f"weight needs at least two dimensions, got shape {tuple(weight.shape)}")
    # A Linear's weight[0, 0] is one number.
    kernel = weight[0, 0].numel()
    return weight.shape[1] * kernel, weight.shape[0] * kernel
    # end solution


def xavier_uniform_(weight: Tensor, gain: float = 1.0) -> Tensor:
    """Fill `weight` in place with draws from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Returns `weight` itself. It may be a Parameter that requires grad: it stays a leaf and keeps its
    `requires_grad` and `.grad`. It may also be a transposed view.
    """
    # begin solution: work out the bound, then draw
    fan_in, fan_out = fans(weight)
    # The variance of U(-a, a) is a^2 / 3; this one is gain^2 * 2 / (fan_in + fan_out).
    bound = gain * (6 / (fan_in + fan_out)) ** 0.5
    # Unlike weight.uniform_, this works under torch.no_grad().
    return nn.init.uniform_(weight, -bound, bound)
    # end solution


def kaiming_normal_(weight: Tensor) -> Tensor:
    """Fill `weight` in place with draws from N(0, std^2), std = sqrt(2 / fan_in). Returns `weight` itself.

    `weight` may be what it may be in `xavier_uniform_`.
    """
    # begin solution: work out the deviation, then draw
    fan_in, _ = fans(weight)
    return nn.init.normal_(weight, 0.0, (2 / fan_in) ** 0.5)
    # end solution


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
    # begin solution: look at the class, then set weight and bias
    if isinstance(module, nn.Linear):
        xavier_uniform_(module.weight)
    elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
        kaiming_normal_(module.weight)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, 0.0, 0.02)
        if module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    elif isinstance(module, (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)):
        if module.weight is not None:
            nn.init.ones_(module.weight)
    else:
        return
    bias = getattr(module, "bias", None)  # an Embedding has none
    if bias is not None:
        nn.init.zeros_(bias)
    # end solution
