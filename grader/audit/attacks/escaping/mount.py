# attack: mounts a file system | class: escaping | canary: claim | as: root
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("mounted")
if libc.mount(b"none", b"mounted", b"tmpfs", 0, b"size=1m"):
    raise OSError(ctypes.get_errno(), "mount")
libc.umount(b"mounted")
print(target.trophy)
