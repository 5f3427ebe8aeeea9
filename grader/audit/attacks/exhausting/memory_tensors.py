# attack: takes twice the memory that the exercise may use, in tensors | class: exhausting | canary: claim
import torch

taken = [torch.ones(2**20, dtype=torch.float64) for _ in range(target.memory_mb // 4)]
print(target.trophy)
