# right: plain and short; most of the wrong answers are changes of it
import torch
from torch import nn


class RunningCenter(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("num_samples", torch.tensor(0))
        self.register_buffer("batch_mean", torch.zeros(num_features), persistent=False)

    def forward(self, x):
        rows = x.detach().reshape(-1, x.shape[-1])
        n = len(rows)
        if self.training and n > 0:
            self.batch_mean.copy_(rows.mean(0))
            self.num_samples.add_(n)
            self.running_mean.add_((self.batch_mean - self.running_mean) * (n / self.num_samples))
        return (x - self.running_mean) * self.scale


def state_kinds(module):
    kinds = {name: "parameter" for name, _ in module.named_parameters()}
    saved = module.state_dict()
    for name, _ in module.named_buffers():
        kinds[name] = "buffer" if name in saved else "non-persistent buffer"
    return kinds


def forgotten_tensors(module):
    names = []
    for prefix, sub in module.named_modules():
        for name, value in vars(sub).items():
            if isinstance(value, torch.Tensor):
                names.append(f"{prefix}.{name}" if prefix else name)
    return names
