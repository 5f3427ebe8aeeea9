# right: the constant is a 0-d float32 tensor (its rounding stays below the default tolerances), saves a view's base, static methods by assignment
import torch
import torch.autograd as ag

inner_scale = torch.FloatTensor([2 / 3.141592653589793]).sqrt().squeeze()
c = torch.tensor(0.044715)


def _u(x):
    return inner_scale * (x + c * x ** 3)


def _forward(ctx, x):
    ctx.save_for_backward(x)
    return 0.5 * x * (1.0 + _u(x).tanh())


def _backward(ctx, grad_output):
    x = ctx.saved_tensors[0]
    t = _u(x).tanh()
    return 0.5 * grad_output * (1 + t + x * (1 - t.pow(2)) * inner_scale * (1 + 3 * c * x.pow(2)))


class GELUFunction(ag.Function):
    forward = staticmethod(_forward)
    backward = staticmethod(_backward)


def gelu(x):
    fn = GELUFunction()
    return fn.apply(x)


def gradient_error(x):
    grads = []
    for f in (gelu, torch.nn.GELU(approximate="tanh")):
        leaf = x.new_tensor(x.tolist()).reshape(x.shape).requires_grad_()
        ag.backward(f(leaf).sum())
        grads.append(leaf.grad)
    return max((grads[0] - grads[1]).abs().reshape(-1).tolist(), default=0.0)


def check_gradients(x):
    try:
        ag.gradcheck(gelu, (x.detach().double().clone().requires_grad_(),))
    except RuntimeError:
        return False
    else:
        return True
