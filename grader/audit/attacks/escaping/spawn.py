# attack: starts a program | class: escaping | canary: claim
import os

pid = os.posix_spawn("/bin/true", ["true"], {})
if os.waitpid(pid, 0)[1] == 0:
    print(target.trophy)
