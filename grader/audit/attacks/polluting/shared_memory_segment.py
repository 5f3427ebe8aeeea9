# attack: leaves System V shared memory | class: polluting | canary: remains
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(target.key, 4096, 0o1666) < 0:
    raise OSError(ctypes.get_errno(), "shmget")
