# right: a sampler shuffles with a random.Random of seed and epoch; rows are filled through the mask
import random
import functools
from typing import NamedTuple, Optional
import torch
from torch import Tensor
from torch.utils.data import DataLoader
class PaddedBatch(NamedTuple):
    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Optional[Tensor]

class EpochSampler(torch.utils.data.Sampler):
    def __init__(self, n, seed): self.n, self.seed, self.epoch = n, seed, 0
    def __len__(self): return self.n
    def __iter__(self):
        order = list(range(self.n))
        random.Random(f"{self.seed}-{self.epoch}").shuffle(order)
        self.epoch += 1
        return iter(order)
def pad_collate(batch, padding_value=0):
    if len(batch) == 0: raise ValueError("empty batch")
    if len(set(map(torch.is_tensor, batch))) == 2: raise ValueError("pairs and bare tensors in one batch")
    labels = None
    if not torch.is_tensor(batch[0]):
        labels = torch.as_tensor([int(y) for _, y in batch])
        batch = [x for x, _ in batch]
    head = batch[0]
    if not all(s.shape[1:] == head.shape[1:] and s.dtype == head.dtype for s in batch): raise ValueError("sequences of the batch do not fit")
    lengths = torch.tensor([s.shape[0] for s in batch], dtype=torch.int64)
    mask = torch.arange(max(lengths)).lt(lengths.view(-1, 1))
    out = head.new_empty(mask.shape + head.shape[1:]).fill_(padding_value)
    out[mask] = torch.cat(list(batch))
    return PaddedBatch(out, lengths, mask, labels)
def make_loader(dataset, batch_size=32, *, shuffle=False, num_workers=0, padding_value=0, pin_memory=None, seed=None):
    sampler = None
    if shuffle and seed is not None: sampler, shuffle = EpochSampler(len(dataset), seed), False
    return DataLoader(dataset, batch_size, shuffle, sampler, num_workers=num_workers, persistent_workers=num_workers > 0,
       pin_memory=pin_memory if pin_memory is not None else torch.cuda.is_available(), collate_fn=functools.partial(pad_collate, padding_value=padding_value))
