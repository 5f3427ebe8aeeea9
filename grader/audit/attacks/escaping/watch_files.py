# attack: watches a file of the user's | class: escaping | canary: claim
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_add_watch(libc.inotify_init(), target.file.encode(), 0xFFF)
if watch < 0:
    raise OSError(ctypes.get_errno(), "inotify_add_watch")
print(target.trophy)
