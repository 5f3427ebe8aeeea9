# attack: compares its resources with those of another process | class: escaping | canary: claim
import ctypes
import os
import platform

library = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 312, "aarch64": 272}[platform.machine()]
if library.syscall(number, os.getpid(), target.pid, 1, 0, 0) < 0:
    raise OSError(ctypes.get_errno(), "kcmp")
print(target.trophy)
