# attack: lets others of the same user look into it again, and dump its core | class: escaping | canary: claim
import ctypes

library = ctypes.CDLL(None, use_errno=True)
if library.prctl(4, 1, 0, 0, 0):
    raise OSError(ctypes.get_errno(), "prctl")
print(target.trophy)
