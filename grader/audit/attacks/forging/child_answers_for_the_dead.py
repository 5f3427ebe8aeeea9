# attack: ends itself, and has a child answer in its name | class: forging | canary: bytes | exercise: crowd | dud: plain pytest has no wire
import ctypes
import sys

import msgspec

from grader.sandbox.wire.messages import Loaded, Returned
from grader.sandbox.wire.packing import Packing


def answer(make):
    """Answer every later request with `make(channel, request)`."""
    # Use the C API: the attributes of frames lead to nothing.
    frames = ctypes.pythonapi
    frames.PyFrame_GetBack.restype = frames.PyFrame_GetLocals.restype = ctypes.py_object
    call = sys._getframe()
    while call.f_code.co_name != "serve":
        call = frames.PyFrame_GetBack(ctypes.py_object(call))
    channel = frames.PyFrame_GetLocals(ctypes.py_object(call))["channel"]
    channel.send(Loaded(), Packing(), None)
    while True:
        request, _ = channel.receive_request()
        make(channel, request)


def raw(channel, structure, blob=b""):
    if not isinstance(structure, bytes):
        structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(channel.sealed(structure, blob))


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
