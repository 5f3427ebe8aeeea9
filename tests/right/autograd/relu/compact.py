# right: plain and short; most of the wrong answers are changes of it
import torch


class ReLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x >= 0)


def relu(x):
    return ReLUFunction.apply(x)


def differs_from_torch(x):
    point = x.detach().clone().requires_grad_()
    (ours,) = torch.autograd.grad(relu(point).sum(), point)
    (theirs,) = torch.autograd.grad(torch.relu(point).sum(), point)
    return ours != theirs
