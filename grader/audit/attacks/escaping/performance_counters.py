# attack: reads the processor's performance counters | class: escaping | canary: claim | as: root
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


call(298, ctypes.cast((ctypes.c_uint32 * 32)(1, 128, 0, 0), ctypes.c_void_p), 0, -1, -1, 0)
print(target.trophy)
