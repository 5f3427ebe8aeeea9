# attack: answers with booleans that are neither true nor false | class: forging | canary: bytes | dud: plain pytest has no wire
import struct
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
        request, _ = channel.receive_request()
        make(channel, request)


def raw(channel, structure, blob=b""):
    if not isinstance(structure, bytes):
        structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(struct.pack("<IQQ", len(structure), len(blob), channel._number) + structure + blob)


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))



def make(channel, request):
    raw(channel, {"type": "returned", "value": extension(1, ["bool", [5], 5]), "mutated": [target.trophy]}, b"\x02\x80\xff\x00\x01")


answer(make)
