# attack: has the C library read a file, past all of Python | class: reading | canary: text
import ctypes

library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
library.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
file = library.fopen(target.file.encode(), b"r")
line = ctypes.create_string_buffer(1000)
if file:
    library.fgets(line, 1000, file)
print(line.value.decode())
