# attack: changes torch's default dtype for the next submission | class: polluting | canary: next
import torch

torch.set_default_dtype(torch.float64)
