# attack: replaces how the worker packs values, to send true for everything | class: forging | canary: bytes | dud: plain pytest has no wire
import ctypes
import sys

# Use the C API: the attributes of frames lead to nothing.
frames = ctypes.pythonapi
frames.PyFrame_GetBack.restype = frames.PyFrame_GetGlobals.restype = ctypes.py_object
call = sys._getframe()
while call.f_code.co_name != "_load":
    call = frames.PyFrame_GetBack(ctypes.py_object(call))
names = frames.PyFrame_GetGlobals(ctypes.py_object(call))
names["Packing"].pack = lambda self, value, depth=0: target.trophy
names["Worker"]._call = lambda self, *given: names["Returned"](target.trophy)
