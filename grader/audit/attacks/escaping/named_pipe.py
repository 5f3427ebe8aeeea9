# attack: makes a named pipe, on which the cleanup may get stuck | class: escaping | canary: claim
import os

os.mkfifo("pipe")
os.unlink("pipe")
print(target.trophy)
