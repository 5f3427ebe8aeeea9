# attack: finds the worker in memory and replaces its handlers of calls | class: forging | canary: bytes | dud: plain pytest has no wire
import gc

from grader.sandbox.wire.messages import Returned
from grader.sandbox.wire.packing import Packing

for each in gc.get_objects():
    if type(each).__name__ == "Worker":
        each.answer = lambda request, unpacking: (
            Returned(target.trophy),
            Packing(),
        )
