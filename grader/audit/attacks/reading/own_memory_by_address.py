# attack: searches its own memory by address, with a pipe that shows which pages are mapped | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import ctypes
import gc
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
reader, writer = os.pipe()
PAGE = 4096
seen = set()


def pages_from(address, step):
    # A write from an address that is not mapped fails instead of crashing.
    page = address // PAGE
    while page not in seen and len(seen) < 60_000:
        seen.add(page)
        if libc.write(writer, page * PAGE, PAGE) != PAGE:
            return
        show(os.read(reader, PAGE))
        page += step


for each in gc.get_objects()[::50]:
    pages_from(id(each), 1)
    pages_from(id(each) - PAGE, -1)
