# attack: replaces how the worker packs values, to send true for everything | class: forging | canary: bytes | dud: plain pytest has no wire
import sys

messages, packing = sys.modules["grader.sandbox.wire.messages"], sys.modules["grader.sandbox.wire.packing"]
packing.Packing.pack = lambda self, value, depth=0: target.trophy
sys.modules["grader.sandbox.inside.worker"].Worker._call = lambda self, *given: messages.Returned(
    target.trophy
)
