# attack: changes torch's number of threads for whoever comes next | class: polluting | canary: next
import torch

torch.set_num_threads(3)
