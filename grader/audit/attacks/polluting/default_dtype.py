# attack: changes torch's default dtype for whoever comes next | class: polluting | canary: next
import torch

torch.set_default_dtype(torch.float64)
