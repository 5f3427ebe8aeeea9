# right: backward is another Function's apply, with a backward of its own; both gradients stand in the .grad of two copies
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Gate(Function):
    """Let pass what belongs to an open gate."""

    @staticmethod
    def forward(ctx, g, is_open):
        ctx.save_for_backward(is_open)
        return g.masked_fill(~is_open, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx, gg):
        (is_open,) = ctx.saved_tensors
        return gg.masked_fill(~is_open, 0), None


class ReLUFunction(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x + x.abs()) / 2

    @staticmethod
    def backward(ctx, grad_output):
        if not ctx.needs_input_grad[0]:
            return None
        x = ctx.saved_tensors[0]
        return Gate.apply(grad_output, x.ge(0))


def relu(x):
    """See ReLUFunction."""
    return ReLUFunction.apply(x)


def _slope(function, x):
    leaf = torch.empty(x.shape, dtype=x.dtype).copy_(x.detach()).requires_grad_(True)
    function(leaf).sum().backward()
    return leaf.grad


def differs_from_torch(x):
    return torch.logical_not(_slope(relu, x) == _slope(torch.nn.functional.relu, x))
