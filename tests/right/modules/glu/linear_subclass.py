# right: inherits nn.Linear, which brings weight, bias and their start; the forbidden name stands in a comment, a demo and another function
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GatedLinearUnit(nn.Linear):
    """The same as F.glu(super().forward(x)), written by hand."""

    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        if out_features is None:
            out_features, odd = divmod(in_features, 2)
            if odd:
                raise ValueError(f"in_features={in_features} is odd")
        super().__init__(in_features, 2 * out_features)

    def forward(self, input: Tensor) -> Tensor:
        # not F.glu: written out
        value, gate = torch.chunk(super().forward(input), 2, -1)
        return torch.mul(value, torch.sigmoid(gate))


def compare_with_the_builtin() -> bool:
    layer, x = GatedLinearUnit(6, 3), torch.randn(5, 6)
    return torch.allclose(layer(x), F.glu(F.linear(x, layer.weight, layer.bias)))


def gradient_flow(module: nn.Module, x: Tensor) -> dict[str, bool]:
    module.zero_grad()
    out = module(x.detach().clone())
    # Even a backward that has nothing to reach is fine, if something on the way requires grad.
    anchor = torch.zeros((), dtype=out.dtype, requires_grad=True)
    (out.sum() + anchor).backward()
    return dict((name, p.grad is not None) for name, p in module.named_parameters())
