# attack: replaces how the worker packs values, to send true for everything | class: forging | canary: bytes | dud: plain pytest has no wire
import sys

call = sys._getframe()
while call.f_code.co_name != "_load":
    call = call.f_back
names = call.f_globals
names["Packing"].pack = lambda self, value, depth=0: target.trophy
names["Worker"]._call = lambda self, *given: names["Returned"](target.trophy)
