# right: modes gathered by hand, a generator of outputs made in inference_mode, rows stacked
import torch

class evaluating(object):
    def __init__(self, model, /):
        self.model = model

    def __enter__(self):
        self.before = []
        stack = [self.model]
        seen = set()
        while stack:
            module = stack.pop()
            if id(module) in seen: continue
            seen.add(id(module))
            self.before.append((module, module.training))
            stack.extend(module.children())
        self.guard = torch.autograd.grad_mode.set_grad_enabled(False)
        self.model.train(False)
        return self.before

    def __exit__(self, kind, value, trace):
        self.guard.__exit__(kind, value, trace)
        for module, training in self.before:
            object.__setattr__(module, "training", training)
        return False

def outputs_of(model, loader):
    iterator = iter(loader)
    while True:
        try:
            pair = next(iterator)
        except StopIteration:
            return
        with torch.inference_mode():
            out = model(pair[0])
        yield ordinary(out)

def predict(model, loader):
    rows = []
    with evaluating(model):
        for out in outputs_of(model, loader):
            rows.extend(out.unbind(0)); shape = out.shape[1:]; like = out
    try:
        like
    except UnboundLocalError:
        raise ValueError("loader yielded nothing") from None
    return torch.stack(rows) if rows else like.clone()

def ordinary(x):
    if not x.is_inference():
        return x
    with torch.inference_mode(False):
        with torch.no_grad():
            return torch.clone(x, memory_format=torch.contiguous_format)
