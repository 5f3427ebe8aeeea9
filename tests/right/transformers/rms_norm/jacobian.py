# right: each row's whole Jacobian, and always in float64
import torch

print("loaded")


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        rows = x.double().reshape(x.shape[:-1].numel(), x.shape[-1])
        root = (rows.square().sum(1) / x.shape[-1] + eps).sqrt()
        return torch.diag(1 / root).mm(rows).mul(weight.double()).reshape(x.shape).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        dim = x.shape[-1]
        rows = x.double().reshape(x.shape[:-1].numel(), dim)
        grads = grad_output.double().reshape(rows.shape)
        root = (rows.square().sum(1) / dim + ctx.eps).sqrt()[:, None, None]
        outer = rows[:, :, None] * rows[:, None, :]
        jacobian = torch.eye(dim).double() / root - outer / (dim * root**3)
        dx = torch.bmm(jacobian, (grads * weight.double())[:, :, None])
        dw = (grads * rows / root[:, 0]).sum(0)
        return dx.reshape(x.shape).to(x.dtype), dw.to(x.dtype), None


def rms_norm(x, weight, eps=1e-6):
    return RMSNormFunction.apply(x, weight, eps)


class RMSNorm(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.register_parameter("weight", torch.nn.Parameter(torch.ones(dim)))
        self.options = {"eps": eps}

    def forward(self, x):
        apply = RMSNormFunction.apply
        return apply(x, self.weight, *self.options.values())
