# right: the forward pass is computed in NumPy, the constants come from an old-style DoubleTensor, backward is inherited from a base class
import numpy as np
import torch
from torch.autograd import Variable

SQRT_2_OVER_PI = torch.DoubleTensor([2 / np.pi]).sqrt()[0].item()


class Base(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        inner = SQRT_2_OVER_PI * (x + 0.044715 * torch.pow(x, 3))
        left = 0.5 * torch.tanh(inner) + 0.5
        right = 0.5 * x * (1 - torch.pow(torch.tanh(inner), 2)) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * torch.pow(x, 2))
        return grad_output * left + grad_output * right


class GELUFunction(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        a = x.detach().numpy()
        out = 0.5 * a * (1 + np.tanh(SQRT_2_OVER_PI * (a + 0.044715 * a * a * a)))
        return torch.from_numpy(np.asarray(out, dtype=a.dtype))


def gelu(x):
    return GELUFunction.apply(x)


def gradient_error(x):
    if x.numel() < 1:
        return 0.
    v = Variable(x.data.clone(), requires_grad=True)
    gelu(v).sum().backward()
    w = Variable(x.data.clone(), requires_grad=True)
    torch.nn.GELU(approximate="tanh")(w).sum().backward()
    return float(np.abs(v.grad.numpy() - w.grad.numpy()).max())


def check_gradients(x):
    return torch.autograd.gradcheck(gelu, (Variable(x.data.double().clone(), requires_grad=True),), raise_exception=False)
