# right: modes set back with train(), parents before children; an explicit iterator
import torch


class Block:
    def __init__(self, model):
        self.stack = []
        self.model = model

    def __enter__(self):
        modes = [m.training for m in self.model.modules()]
        self.stack.append((modes, torch.is_grad_enabled()))
        self.model.eval()
        torch._C._set_grad_enabled(False)
        return self.model

    def __exit__(self, kind, error, trace):
        modes, grad = self.stack.pop()
        torch._C._set_grad_enabled(grad)
        for m, mode in zip(self.model.modules(), modes, strict=True):
            m.train(mode)
        return False


def evaluating(model):
    return Block(model)


def predict(model, loader):
    batches, rows = iter(loader), []
    with evaluating(model) as net:
        while True:
            try:
                inputs, _ = next(batches)
            except StopIteration:
                break
            rows.extend(net(inputs).unbind(0))
    if not rows:
        raise ValueError("an empty loader")
    return torch.stack(rows)


def ordinary(x):
    return _copied(x) if x.is_inference() else x


@torch.inference_mode(False)
def _copied(x):
    return x.detach().clone(memory_format=torch.contiguous_format)
