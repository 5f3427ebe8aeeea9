# right: with setup_context; rounds before the product with weight, as Llama does; saves r
import torch
from torch import nn


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps):
        wide = x if x.dtype == torch.float64 else x.to(torch.float32)
        normed = wide / torch.sqrt(torch.mean(wide * wide, dim=-1, keepdim=True) + eps)
        return normed.type_as(x) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        wide = x if x.dtype == torch.float64 else x.to(torch.float32)
        r = (torch.mean(wide * wide, dim=-1, keepdim=True) + eps) ** -0.5
        ctx.save_for_backward(x, weight, r)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, r = ctx.saved_tensors
        g, wide, w = (t.to(r.dtype) for t in (grad_output, x, weight))
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = r * g * w - r**3 * wide * (g * w * wide).mean(-1, keepdim=True)
            dx = dx.type_as(x)
        if ctx.needs_input_grad[1]:
            dw = torch.einsum("nd,nd->d", g.reshape(-1, len(w)), (wide * r).reshape(-1, len(w)))
            dw = dw.type_as(weight)
        return dx, dw, None


def rms_norm(x, weight, eps=1e-6):
    return RMSNormFunction.apply(x, weight, eps)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return RMSNormFunction.apply(x, self.weight, self.eps)
