# attack: signals a process of the user's by tkill, tgkill and a queue | class: escaping | canary: neighbor
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

for number, *arguments in (
    (234, target.pid, target.pid, int(signal.SIGUSR1)),
    (200, target.pid, int(signal.SIGUSR1)),
    (129, target.pid, int(signal.SIGUSR1), (ctypes.c_int * 32)(int(signal.SIGUSR1), 0, -1)),
):
    try:
        call(number, *[ctypes.cast(a, ctypes.c_void_p) if not isinstance(a, int) else a for a in arguments])
    except OSError as error:
        print("met:", error)
