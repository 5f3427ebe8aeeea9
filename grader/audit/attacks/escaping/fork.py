# attack: starts a process | class: escaping | canary: claim
import os

pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(target.trophy)
