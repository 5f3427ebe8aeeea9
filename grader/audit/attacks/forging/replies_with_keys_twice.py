# attack: answers with duplicate keys, odd keys and fields that hide others | class: forging | canary: bytes | dud: plain pytest has no wire
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


def make(channel, request):
    record = extension(4, ["Tensor", ["shape", "shape", "dtype", "__class__", "fields"], [1] * 4])
    twice = b"\x83\xa4type\xa8returned\xa5value\xc2\xa5value" + msgspec.msgpack.encode(record)
    channel._socket.sendall(struct.pack("<IQQ", len(twice), 0, channel._number) + twice)


answer(make)
