# attack: handles page faults itself, to hold the kernel up | class: escaping | canary: claim
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


call(323, 1)
print(target.trophy)
