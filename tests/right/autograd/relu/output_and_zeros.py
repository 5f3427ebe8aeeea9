# right: saves the output and where x is 0; the output alone could not tell 0 from negative
import torch


@torch.jit.script
def mask(y: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    return (y > 0) | zeros


class ReLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.where(x > 0, x, torch.zeros_like(x))
        ctx.save_for_backward(y, x == 0)
        ctx.mark_non_differentiable()
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, zeros = ctx.saved_tensors
        return grad_output.mul(mask(y, zeros).type_as(grad_output))


def relu(x):
    return ReLUFunction.apply(x)


def differs_from_torch(x):
    def slope(f):
        y = x.detach().contiguous().view(-1).clone().requires_grad_(True)
        return torch.autograd.grad(f(y).sum(), [y])[0].reshape(x.shape)

    return slope(relu).sub(slope(torch.relu)).bool()
