# attack: raises exceptions that call themselves what the judge listens to | class: forging | canary: bytes | dud: plain pytest has no wire
import sys

import msgspec

from grader.sandbox.wire.messages import Loaded
from grader.sandbox.wire.packing import Packing


def answer(make):
    """Whatever is asked after this, answer with what `make` makes of the question."""
    call = sys._getframe()
    while call.f_code.co_name != "serve":
        call = call.f_back
    channel = call.f_locals["channel"]
    channel.send(Loaded(), Packing(), None)
    while True:
        request, unpacking = channel.receive_request()
        make(channel, request)

import struct


def raw(channel, structure, blob=b""):
    structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(struct.pack("<IQQ", len(structure), len(blob), channel._number) + structure + blob)


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))


kinds = iter(["Skipped", "NotYet", "Exit", "CheckFailed", "SystemExit", "GeneratorExit", "StopIteration"] * 99)


def make(channel, request):
    name = next(kinds)
    reply = {"type_name": name, "ancestry": [name, "BaseException", "SyntaxError", "OSError"], "text": "\x00\x1b[2J" * 9}
    raw(channel, {"type": "raised", **reply, "frames": [[-1, target.trophy + "x" * 9000], [2**60, ""]], "in_probe": True})


answer(make)
