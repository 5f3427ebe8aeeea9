# attack: attaches to another process as a debugger | class: reading | canary: claim
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
seize, detach = 0x4206, 17
if libc.ptrace(seize, target.pid, None, None):
    raise OSError(ctypes.get_errno(), "ptrace")
print(target.trophy)
libc.ptrace(detach, target.pid, None, None)
