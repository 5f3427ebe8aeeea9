# right: torch.autograd.grad, a class for the clipping, inference mode, copy_
import torch


class Gradients:
    def __init__(self, parameters):
        self.tensors = [p.grad.detach() for p in parameters if p.grad is not None]

    @torch.inference_mode()
    def norm(self, order):
        if not self.tensors:
            return torch.zeros(())
        parts = [torch.linalg.vector_norm(t, ord=order) for t in self.tensors]
        return torch.linalg.vector_norm(torch.stack(parts), ord=order)

    @torch.inference_mode()
    def write(self, change):
        for tensor in self.tensors:
            tensor.copy_(change(tensor))


def total_norm(parameters, norm_type=2.0):
    return Gradients(parameters).norm(norm_type)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    if max_norm <= 0:
        raise ValueError("max_norm")
    gradients = Gradients(parameters)
    norm = gradients.norm(norm_type)
    finite = bool(norm.isfinite())
    if error_if_nonfinite and not finite:
        raise RuntimeError("norm is not finite")
    if finite and norm > max_norm:
        gradients.write(lambda tensor: tensor / norm * max_norm)
    return norm


def clip_grad_value_(parameters, clip_value):
    if clip_value <= 0:
        raise ValueError("clip_value")
    Gradients(parameters).write(lambda t: t.clip(-clip_value, clip_value))


def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    everything = list(model.parameters())
    learning = [p for p in everything if p.requires_grad]
    loss = loss_fn(model(inputs), targets)
    grads = torch.autograd.grad(loss, learning, allow_unused=True)
    for p in everything:
        p.grad = None
    for p, grad in zip(learning, grads):
        p.grad = grad
    norm = clip_grad_norm_(everything, max_norm)
    if norm.isfinite():
        optimizer.step()
    return norm.item()
