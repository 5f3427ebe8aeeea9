# right: the same function as x * sigmoid(2u), no type hints, prints, a main guard with a demo of F.gelu and .backward()
import math
import torch
import torch.nn.functional as F

print("using torch", torch.__version__)
USE_CUDA = torch.cuda.is_available()


def two_u(x):
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)


class GELUFunction(torch.autograd.Function):
    # F.gelu and nn.GELU are not allowed in here
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        # 0.5 * (1 + tanh(u)) is sigmoid(2u)
        return input * torch.sigmoid(two_u(input))

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        s = torch.sigmoid(two_u(input))
        ds = s * (1 - s) * 2 * math.sqrt(2 / math.pi) * (1 + 0.134145 * input * input)
        return (s + input * ds) * grad_output


def gelu(x):
    out = GELUFunction.apply(x)
    print("gelu of", tuple(x.shape))
    return out


def reference_gradient(x):
    y = x.clone().detach()
    y.requires_grad = True
    F.gelu(y, approximate='tanh').sum().backward()
    return y.grad


def my_gradient(x):
    y = x.clone().detach()
    y.requires_grad = True
    gelu(y).sum().backward()
    return y.grad


def gradient_error(x):
    worst = 0.0
    for a, b in zip(my_gradient(x).flatten().tolist(), reference_gradient(x).flatten().tolist()):
        worst = max(worst, abs(a - b))
    return worst


def check_gradients(x):
    y = x.clone().detach().double()
    y.requires_grad = True
    ok = torch.autograd.gradcheck(gelu, (y,), raise_exception=False)
    print("gradcheck:", ok)
    return ok


if __name__ == "__main__":
    x = torch.randn(5, requires_grad=True)
    F.gelu(x).sum().backward()
    print(x.grad, gradient_error(x), check_gradients(x))
