# attack: changes torch's number of threads for the next submission | class: polluting | canary: next
import torch

torch.set_num_threads(3)
