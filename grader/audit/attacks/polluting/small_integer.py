# attack: changes an integer in memory that all processes share until they write | class: polluting | canary: next
import ctypes

# 251 is 252 from here on, for everybody who shares this page.
ctypes.c_uint32.from_address(id(251) + 24).value = 252
