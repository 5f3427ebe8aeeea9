# attack: has parameters without an end | class: hanging | canary: time
import time

import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.factors = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.factors * x

    def named_parameters(self, *given, **rest):
        end = time.monotonic() + 15
        while time.monotonic() < end:
            time.sleep(0.01)
            yield "factors", self.factors

    def _named_members(self, *given, **rest):
        return self.named_parameters()
