# attack: ends itself, and has a child answer in its name | class: forging | canary: bytes | exercise: crowd | dud: plain pytest has no wire
import struct
import sys

import msgspec

from grader.sandbox.wire.messages import Loaded, Returned
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



import os

import torch

packing = Packing()
told = Returned(packing.pack([target.trophy, torch.zeros(5)]))


def make(channel, request):
    if os.fork() == 0:
        while True:
            channel.send(told, packing, None)
            channel.receive_request()
    os._exit(0)


answer(make)
