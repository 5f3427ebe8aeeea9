# right: flattens to two dimensions with reshape, addmm, tensor_split; expects a RuntimeError of backward where nothing learns
import torch
from torch.nn import Module, Parameter


class GatedLinearUnit(Module):
    def __init__(self, in_features, out_features=None):
        if out_features is None:
            if in_features % 2:
                raise ValueError("in_features: %d is odd" % in_features)
            out_features = int(in_features / 2)
        Module.__init__(self)
        self.out = out_features
        w = torch.FloatTensor(2 * out_features, in_features).uniform_(-1, 1)
        w /= in_features**0.5
        b = torch.FloatTensor(2 * out_features).fill_(0.1)
        self.weight, self.bias = Parameter(w), Parameter(b)

    def forward(self, x):
        lead = x.shape[:-1]
        flat = x.reshape(lead.numel(), x.shape[-1])
        h = torch.addmm(self.bias, flat, self.weight.transpose(0, 1))
        v, g = torch.tensor_split(h, 2, dim=1)
        return (v * torch.special.expit(g)).reshape(*lead, self.out)


def gradient_flow(module, x):
    module.zero_grad(set_to_none=True)
    output = module(x.detach())
    try:
        output.sum().backward()
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
    names = [name for name, _ in module.named_parameters()]
    return {name: module.get_parameter(name).grad is not None for name in reversed(names)}
