# right: NumPy in forward, heaviside of a detached x in backward; -0.0 comes out as it may
import numpy as np
import torch


class ReLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        array = x.detach().cpu().numpy()
        return torch.from_numpy(np.array(np.maximum(array, 0), dtype=array.dtype)).to(x.device)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        # The derivative is constant on both sides: nothing of the second derivative is lost by detach().
        return grad_output * torch.heaviside(x.detach(), torch.ones((), dtype=x.dtype))


def relu(x):
    # nn.ReLU() and F.relu are not allowed here.
    return ReLUFunction.apply(x)


def differs_from_torch(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        pair = [torch.autograd.grad(f(x), x, torch.ones_like(x))[0] for f in (relu, torch.relu)]
    return (pair[0] - pair[1]).abs() > 0.5


if __name__ == "__main__":
    print(differs_from_torch(torch.zeros(3)))
