# right: assignments by index into fresh copies; a clone of x is saved; a class method makes the mask; prints when imported
import torch
from torch import Tensor, nn

print("relu imported")
ACTIVATION = nn.ReLU()  # to compare with


class ReLUFunction(torch.autograd.Function):
    @classmethod
    def _negative(cls, x):
        return x < 0

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        y = x.clone()
        y[ReLUFunction._negative(x)] = 0
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, = ctx.saved_tensors
        gradient = grad_output.clone()
        gradient[ReLUFunction._negative(x)] = 0
        return gradient


def relu(x: Tensor) -> Tensor:
    y = ReLUFunction.apply(x)
    assert y.shape == x.shape
    return y


def differs_from_torch(x: Tensor) -> Tensor:
    copies = [x.detach().clone() for _ in range(2)]
    for function, copy in zip((relu, ACTIVATION), copies):
        copy.requires_grad = True
        function(copy).backward(torch.ones_like(copy))
    a, b = (copy.grad for copy in copies)
    return ~torch.isclose(a, b)
