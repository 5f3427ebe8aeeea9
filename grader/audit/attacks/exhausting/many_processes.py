# attack: starts hundreds of processes where some are allowed | class: exhausting | canary: remains | exercise: crowd
import ctypes
import os
import time

# Raw, so that a child costs no more than it must; each one ends by itself.
libc = ctypes.CDLL(None)
end = time.monotonic() + 2.5
children = 0
while children < 320:
    pid = libc.syscall(57)
    if pid == 0:
        time.sleep(2)
        os._exit(0)
    if pid < 0:
        print("met: no further process after", children)
        break
    children += 1
else:
    print(target.trophy)
