# attack: takes twice the memory that the exercise may use | class: exhausting | canary: claim
taken = bytearray(2 * target.memory_mb * 2**20)
taken[:: 4096] = b"x" * (len(taken) // 4096)
print(target.trophy)
