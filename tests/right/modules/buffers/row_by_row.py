# right: one row after the other, Welford's way; a recursive walk
import torch


class RunningCenter(torch.nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.empty(num_features).fill_(1))
        self.register_buffer("running_mean", torch.empty(num_features).zero_())
        self.register_buffer("num_samples", torch.tensor(0, dtype=torch.int64))
        self.register_buffer("batch_mean", torch.empty(num_features).zero_(), persistent=False)

    def forward(self, x):
        if self.training:
            batch = list(x.detach().reshape(-1, x.size(-1)).unbind())
            for row in batch:
                self.num_samples += 1
                self.running_mean += (row - self.running_mean) / self.num_samples
            if batch:
                self.batch_mean = torch.stack(batch).mean(0)
        return x * self.scale - self.running_mean * self.scale


def state_kinds(module):
    result = {}
    for name, child in module.named_children():
        for key, kind in state_kinds(child).items():
            result[name + "." + key] = kind
    saved = [key for key in module.state_dict() if "." not in key]
    for name, _ in module.named_parameters(recurse=False):
        result[name] = "parameter"
    for name, _ in module.named_buffers(recurse=False):
        result[name] = "buffer" if name in saved else "non-persistent buffer"
    return result


def forgotten_tensors(module):
    own = [name for name in vars(module) if isinstance(vars(module)[name], torch.Tensor)]
    for name, child in module.named_children():
        own.extend(name + "." + key for key in forgotten_tensors(child))
    return own
