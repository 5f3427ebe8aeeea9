# right: weights of both means, torch.average by lerp, the state written through .data
import itertools

import torch
import torch.nn as nn


class RunningCenter(nn.Module):
    """Buffers are written through .data, so that they stay the same objects."""

    def __init__(self, num_features):
        super(RunningCenter, self).__init__()
        for name in ("running_mean", "batch_mean"):
            self.register_buffer(name, torch.zeros(num_features), persistent=name != "batch_mean")
        self.register_buffer("num_samples", torch.LongTensor([0]).squeeze())
        self.register_parameter("scale", nn.Parameter(torch.ones(num_features)))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                dims = tuple(range(x.dim() - 1))
                count = 1
                for size in x.shape[:-1]:
                    count *= size
                if count:
                    mean = x.mean(dims) if dims else x.clone()
                    seen = int(self.num_samples)
                    self.batch_mean.data = mean
                    self.num_samples.data = torch.tensor(seen + count, device=x.device)
                    self.running_mean.data = torch.lerp(
                        self.running_mean, mean, count / (seen + count)
                    )
        return torch.mul(x.sub(self.running_mean), self.scale)


def state_kinds(module):
    keys = set(module.state_dict().keys())

    def kind(name, tensor):
        if isinstance(tensor, nn.Parameter):
            return "parameter"
        return "buffer" if name in keys else "non-persistent buffer"

    both = itertools.chain(module.named_buffers(), module.named_parameters())
    return {name: kind(name, tensor) for name, tensor in both}


def forgotten_tensors(module):
    known = {id(t) for t in itertools.chain(module.parameters(), module.buffers())}
    found = set()
    for path, part in module.named_modules():
        for name in part.__dict__:
            value = part.__dict__[name]
            if isinstance(value, torch.Tensor) and id(value) not in known:
                found.add(".".join(filter(None, (path, name))))
    return list(found)
