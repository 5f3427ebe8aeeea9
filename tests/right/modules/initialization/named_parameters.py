# right: goes through a module's own named parameters; inference of the rule from a dict of lists
import math
import torch
from torch import nn

RULES = {
    "xavier": (nn.Linear,),
    "kaiming": (nn.Conv1d, nn.Conv2d),
    "small": (nn.Embedding,),
    "one": (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d),
}


def fans(weight: torch.Tensor):
    shape = tuple(weight.shape)
    if len(shape) in (0, 1):
        raise ValueError("weight must be a matrix or a kernel, not a vector: " + str(shape))
    per_channel = weight.numel() // (shape[0] * shape[1])
    return shape[1] * per_channel, shape[0] * per_channel


def xavier_uniform_(weight: torch.Tensor, gain: float = 1.0):
    bound = math.sqrt(6.0 * gain * gain / sum(fans(weight)))
    with torch.no_grad():
        weight.uniform_(0, 1)
        weight.mul_(2 * bound).sub_(bound)
    return weight


def kaiming_normal_(weight: torch.Tensor):
    variance = 2 / fans(weight)[0]
    with torch.no_grad():
        torch.nn.init.normal_(weight, 0.0, math.sqrt(variance))
    return weight


def init_weights(module: nn.Module):
    rule = next((name for name, kinds in RULES.items() if isinstance(module, kinds)), None)
    if rule is None:
        return
    own = {n: p for n, p in module.named_parameters(recurse=False) if n in ("weight", "bias")}
    if "bias" in own:
        nn.init.zeros_(own["bias"])
    if "weight" not in own:
        return
    weight = own["weight"]
    if rule == "xavier":
        xavier_uniform_(weight)
    if rule == "kaiming":
        kaiming_normal_(weight)
    if rule == "one":
        nn.init.ones_(weight)
    if rule == "small":
        nn.init.normal_(weight, std=2e-2)
        if isinstance(module.padding_idx, int):
            nn.init.zeros_(weight.data[module.padding_idx])
