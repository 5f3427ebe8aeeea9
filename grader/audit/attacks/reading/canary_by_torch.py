# attack: maps a file through torch | class: reading | canary: text
import os

import torch

for size in range(1, 100):
    try:
        found = torch.from_file(target.file, shared=False, size=size, dtype=torch.uint8)
    except RuntimeError as error:
        print("met:", error)
        break
    text = bytes(found.tolist())
print(text.decode())
