# right: a reentrant Function with a dummy that requires a gradient; recursion; storages in a dict by id
import torch


def saved_bytes(f, *args, exclude=()):
    excluded = {}
    for tensor in exclude:
        excluded[tensor.storage()._untyped_storage.data_ptr()] = tensor
    everything = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (everything.append(tensor.untyped_storage()), tensor)[1], lambda tensor: tensor
    )
    with hooks:
        result = f(*args)
    del result
    by_address = {storage.data_ptr(): storage for storage in everything}
    return int(sum(s.nbytes() for key, s in by_address.items() if key not in excluded))


def training_bytes(model, optimizer):
    def bytes_of(tensors):
        return sum([tensor.numel() * torch.empty((), dtype=tensor.dtype).element_size() for tensor in tensors])

    tensors = [t for entries in optimizer.state.values() for t in entries.values() if torch.is_tensor(t)]
    return {
        "parameters": bytes_of(set(model.parameters())),
        "buffers": bytes_of(model.buffers()),
        "gradients": bytes_of(filter(lambda g: g is not None, (p.grad for p in model.parameters()))),
        "optimizer_state": bytes_of(tensors),
    }


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dummy, layer, x):
        ctx.layer, ctx.x, ctx.needs = layer, x.detach(), x.requires_grad
        ctx.state = torch.random.get_rng_state()
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_(ctx.needs)
        with torch.random.fork_rng([]):
            torch.random.set_rng_state(ctx.state)
            with torch.enable_grad():
                y = ctx.layer(x)
            if y.requires_grad:
                torch.autograd.backward(y, gradient)
        return None, None, x.grad


def checkpointed_forward(layers, x):
    layers = list(layers)
    if not layers:
        return x
    *first, last = layers
    x = checkpointed_forward(first, x)
    learns = x.requires_grad or any(p.requires_grad for p in last.parameters())
    if not (learns and torch.is_grad_enabled()):
        return last(x)
    dummy = torch.empty(0, requires_grad=True)
    return Again.apply(dummy, last, x)
