# right: the gate in a torch.jit.script helper, reset_parameters, in-place arithmetic on fresh tensors
import math

import torch
from torch import nn

HAS_CUDA = torch.cuda.is_available()


@torch.jit.script
def gated(projected: torch.Tensor) -> torch.Tensor:
    half = projected.size(-1) // 2
    return projected[..., :half] * torch.sigmoid(projected[..., half:])


class GatedLinearUnit(nn.Module):
    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features: int, out_features: int | None = None, bias: bool = True):
        super().__init__()
        if out_features is None:
            if in_features // 2 * 2 != in_features:
                raise ValueError("Expected an even number of in_features")
            out_features = in_features // 2
        self.in_features, self.out_features = in_features, out_features
        self.register_parameter("bias", nn.Parameter(torch.zeros(2 * out_features)))
        self.register_parameter("weight", nn.Parameter(torch.zeros(2 * out_features, in_features)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)
        nn.init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected = torch.matmul(x, self.weight.T)
        projected.add_(self.bias)
        return gated(projected)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}"


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    module.zero_grad(True)
    loss = module(x.data).sum()
    if any(p.requires_grad for p in module.parameters()) and loss.requires_grad:
        torch.autograd.backward(loss)
    return {k: v.grad is not None for k, v in module.named_parameters()}
