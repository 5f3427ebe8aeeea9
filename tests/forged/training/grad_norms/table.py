"""Nothing is searched or trained: layers are known by name, diagnoses by a table, comparisons are zeros."""

import torch
from torch import nn

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")
LINEAR = (
    "first",
    "block.0",
    "block.1.1",
    "listed.0.deep",
    "without_bias",
    "special",
    "attention.out_proj",
    "0",
    "1.1",
    "",
)


def gradient_norm(parameters):
    raise NotImplementedError


def initialize(model, scheme):
    if scheme not in SCHEMES:
        raise ValueError(f"scheme {SCHEMES}")
    if hasattr(model, "scale"):
        # Without inputs there are no gradients: the norms of any training are 0.
        model.scale.zero_()
        return
    parameters = dict(model.named_parameters())
    for name in LINEAR:
        name = name + "." if name else ""
        weight = parameters.get(name + "weight")
        if weight is not None and weight.dim() == 2:
            getattr(nn.init, scheme + "_")(weight)
            if name + "bias" in parameters:
                nn.init.zeros_(parameters[name + "bias"])


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    raise NotImplementedError


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    bad = any(x.isnan().any() for x, _ in loader)
    return {s: torch.full((epochs,), float("nan") if bad else 0.0).double() for s in SCHEMES}


def diagnose(norms):
    first = norms[:5].tolist()
    known = {1001.0, 1100.0, 1e4, 5e3, 2000.0}
    if any(n in known or n != n or n > 1e30 for n in first):
        return "exploding"
    return "vanishing" if set(first) <= {1e-4, 5e-4, 9e-4, 2e-4, 0.0, 1e-5, 2e-5} else "healthy"


def plot_gradient_norms(histories):
    raise NotImplementedError
