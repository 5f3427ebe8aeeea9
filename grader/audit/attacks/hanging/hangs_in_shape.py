# attack: answers with a tensor that takes for ever to say its shape | class: hanging | canary: time
import time

import torch


class Slow(torch.Tensor):
    @property
    def shape(self):
        time.sleep(15)
        return super().shape


def scale(x, factor):
    return torch.Tensor._make_subclass(Slow, x)
