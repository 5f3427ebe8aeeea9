# attack: starts a process by clone, and by clone3 | class: escaping | canary: claim
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

import signal

try:
    pid = call(56, int(signal.SIGCHLD), 0, 0, 0, 0)
except OSError as error:
    print("met:", error)
    arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, int(signal.SIGCHLD))
    pid = call(435, ctypes.cast(arguments, ctypes.c_void_p), 88)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(target.trophy)
