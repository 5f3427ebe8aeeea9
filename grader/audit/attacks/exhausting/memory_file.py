# attack: hides twice the memory that the exercise may use in a file without a name | class: exhausting | canary: claim
import os

memory = os.memfd_create("hidden")
for _ in range(2 * target.memory_mb):
    os.write(memory, bytes(2**20))
print(target.trophy)
