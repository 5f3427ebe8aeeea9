# right: a base class with the statistics, statistics in float64 on the way, a match of kinds
import torch
from torch import nn


class Statistics(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("num_samples", torch.zeros((), dtype=torch.int64))
        self.register_buffer("batch_mean", torch.zeros(num_features), persistent=False)

    def update(self, rows):
        if rows.shape[0] == 0:
            return
        exact = rows.to(torch.float64)
        old = self.running_mean.double() * self.num_samples
        self.num_samples += rows.shape[0]
        self.running_mean.copy_((old + exact.sum(0)) / self.num_samples)
        self.batch_mean.copy_(exact.mean(0))


class RunningCenter(Statistics):
    def __init__(self, num_features):
        super().__init__(num_features)
        self.scale = nn.Parameter(torch.ones(num_features))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.update(x.view(1, -1) if x.ndim == 1 else x.reshape(-1, x.shape[-1]))
        # A copy, for the next batch changes the buffer in place.
        return (x - self.running_mean.clone()) * self.scale


def state_kinds(module):
    saved, kinds = dict(module.state_dict(keep_vars=True)), {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        match isinstance(tensor, nn.Parameter), name in saved:
            case True, _:
                kinds[name] = "parameter"
            case False, True:
                kinds[name] = "buffer"
            case _:
                kinds[name] = "non-persistent buffer"
    return kinds


def forgotten_tensors(module):
    return [
        (prefix and prefix + ".") + name
        for prefix, sub in module.named_modules()
        for name, value in sub.__dict__.items()
        if issubclass(type(value), torch.Tensor)
    ]
