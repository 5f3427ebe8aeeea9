# right: saves the sign under an attribute, multiplies by it; relu is an alias of apply; the answer is known: x == 0
import torch


class ReLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.factor = torch.ones_like(input).masked_fill(input < 0, 0)
        return input * ctx.factor

    @staticmethod
    def backward(ctx, *grads):
        return ctx.factor * grads[0],


relu = ReLUFunction.apply


def differs_from_torch(x):
    return x.detach().eq(0)
