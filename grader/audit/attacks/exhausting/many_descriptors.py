# attack: opens a thousand files at once | class: exhausting | canary: claim
import os

held = [os.open("/dev/null", os.O_RDONLY) for _ in range(600)]
print(target.trophy)
