# attack: leaves gradients switched off | class: polluting | canary: next
import torch

torch.set_grad_enabled(False)
