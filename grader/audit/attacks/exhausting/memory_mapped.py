# attack: takes twice the memory that the exercise may use, mapped and shared | class: exhausting | canary: claim
import mmap

taken = mmap.mmap(-1, 2 * target.memory_mb * 2**20)
for position in range(0, len(taken), 4096):
    taken[position] = 1
print(target.trophy)
