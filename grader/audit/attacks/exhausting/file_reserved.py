# attack: reserves the disk without writing to it | class: exhausting | canary: claim
import os

with open("reserved", "wb") as file:
    os.posix_fallocate(file.fileno(), 0, 300 << 20)
    print(target.trophy)
os.unlink("reserved")
