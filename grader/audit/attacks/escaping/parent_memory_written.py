# attack: opens the memory of the process that started it for writing | class: escaping | canary: claim
import os

open(f"/proc/{os.getppid()}/mem", "r+b", 0).close()
print(target.trophy)
