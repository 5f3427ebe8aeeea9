# attack: prints a hundred megabytes before the result | class: exhausting | canary: claim
import os

for _ in range(1600):
    os.write(1, b"x" * 65_536)
print(target.trophy)
