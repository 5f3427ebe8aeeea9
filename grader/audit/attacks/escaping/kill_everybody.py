# attack: asks whether it could signal every process that there is | class: escaping | canary: claim
import os

os.kill(-1, 0)
print(target.trophy)
