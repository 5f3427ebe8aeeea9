# right: a collate object with __reduce__ and slots, a batch sampler, labels stacked, pad_collate recursive
import math
from typing import NamedTuple, Optional
import torch
from torch import Tensor
from torch.utils.data import DataLoader
class PaddedBatch(NamedTuple):
    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Optional[Tensor]

class _Collator:
    __slots__ = ("value",)
    def __init__(self, value): self.value = value
    def __reduce__(self): return _Collator, (self.value,)
    def __call__(self, batch): return pad_collate(batch, self.value)
class _Batches:
    def __init__(self, n, size, shuffle, seed):
        self.n, self.size, self.shuffle = n, size, shuffle
        self.g = torch.Generator()
        if seed is not None: self.g.manual_seed(seed)
        elif shuffle: self.g.seed()
    def __len__(self): return math.ceil(self.n / self.size)
    def __iter__(self):
        order = torch.randperm(self.n, generator=self.g) if self.shuffle else torch.arange(self.n)
        for part in order.split(self.size): 
            if len(part): yield part.tolist()
def pad_collate(batch, padding_value=0):
    if len(batch) == 0: raise ValueError("no items in batch")
    if isinstance(batch[0], (list, tuple)):
        if not all(isinstance(b, (list, tuple)) for b in batch): raise ValueError("batch: mixed")
        inner = pad_collate([b[0] for b in batch], padding_value)
        return inner._replace(labels=torch.stack([torch.as_tensor(b[1], dtype=torch.int64) for b in batch]))
    if any(isinstance(b, (list, tuple)) for b in batch): raise ValueError("batch: mixed")
    shapes, dtypes = {b.shape[1:] for b in batch}, {b.dtype for b in batch}
    if len(shapes) != 1: raise ValueError(f"batch with trailing shapes {shapes}")
    if len(dtypes) != 1: raise ValueError(f"batch with dtypes {dtypes}")
    lengths = torch.tensor([b.shape[0] for b in batch])
    T = lengths.max().item()
    out = torch.full((len(batch), T, *shapes.pop()), padding_value, dtype=dtypes.pop())
    for b, o in zip(batch, out.unbind(0)): o[:b.shape[0]].copy_(b)
    return PaddedBatch(out, lengths, torch.stack([torch.arange(T) < n for n in lengths]), None)
def make_loader(dataset, batch_size=32, *, shuffle=False, num_workers=0, padding_value=0, pin_memory=None, seed=None):
    gen = torch.Generator().manual_seed(seed) if seed is not None else None
    return DataLoader(dataset, batch_sampler=_Batches(len(dataset), batch_size, shuffle, seed), collate_fn=_Collator(padding_value),
      num_workers=num_workers, pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory, persistent_workers=True if num_workers else False, generator=gen)
