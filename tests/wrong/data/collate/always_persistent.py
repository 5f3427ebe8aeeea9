# wrong: persistent_workers=True without workers | caught by: test_loader_batches | told: persistent_workers option needs num_workers
# terse, partial, no hints
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

def pad_collate(batch, padding_value=0):
    if not batch: raise ValueError("empty batch")
    kinds = {isinstance(b, (tuple, list)) for b in batch}
    if len(kinds) > 1: raise ValueError("batch mixes pairs and tensors")
    labels = None
    if kinds.pop():
        batch, labels = zip(*batch)
        labels = torch.tensor([int(l) for l in labels])
    if len({(s.dtype, s.shape[1:]) for s in batch}) > 1: raise ValueError("batch: dtypes or shapes differ")
    lengths = torch.tensor([len(s) for s in batch])
    out = torch.nn.utils.rnn.pad_sequence(list(batch), batch_first=True, padding_value=padding_value)
    return PaddedBatch(out, lengths, torch.arange(out.shape[1]) < lengths[:, None], labels)
def make_loader(dataset, batch_size=32, *, shuffle=False, num_workers=0, padding_value=0, pin_memory=None, seed=None):
    g = None if seed is None else torch.Generator().manual_seed(seed)
    return DataLoader(dataset, batch_size, shuffle, num_workers=num_workers, collate_fn=functools.partial(pad_collate, padding_value=padding_value),
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory, generator=g, persistent_workers=True)
