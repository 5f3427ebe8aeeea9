# right: two matrix products on slices of the weight, no type hints, a print, a main guard
import torch
import torch.nn as nn

VERBOSE = False


def log(*things):
    if VERBOSE:
        print(*things)


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super(GatedLinearUnit, self).__init__()
        if out_features is None and in_features % 2 == 1:
            raise ValueError("in_features has to be even")
        self.d = out_features if out_features is not None else in_features // 2
        k = in_features**-0.5
        self.weight = nn.Parameter((torch.rand(2 * self.d, in_features) * 2 - 1) * k)
        self.bias = nn.Parameter((torch.rand(2 * self.d) * 2 - 1) * k)
        print("made a GLU", in_features, self.d)

    def forward(self, x):
        log("forward", x.shape)
        a = x @ self.weight[: self.d].t() + self.bias[: self.d]
        b = x @ self.weight[self.d :].t() + self.bias[self.d :]
        return a * b.sigmoid()


def gradient_flow(module, x):
    for p in module.parameters():
        p.grad = None
    y = module(x.detach()).sum()
    if y.grad_fn is not None:
        y.backward()
    flow = {}
    for n, p in module.named_parameters():
        flow[n] = p.grad is not None
    return flow


if __name__ == "__main__":
    layer = GatedLinearUnit(8)
    print(gradient_flow(layer, torch.randn(2, 8)))
