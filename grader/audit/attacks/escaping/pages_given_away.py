# attack: gives pages of its memory to a pipe | class: escaping | canary: claim
import ctypes
import os

library = ctypes.CDLL(None, use_errno=True)
_, writing = os.pipe()
memory = ctypes.create_string_buffer(4096)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(memory), 4096)
if library.vmsplice(writing, vector, 1, 8) < 0:
    raise OSError(ctypes.get_errno(), "vmsplice")
print(target.trophy)
