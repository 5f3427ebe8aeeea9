# attack: answers with frames that answer another question | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import struct

import msgspec


def frame(reply, blob=b""):
    structure = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return struct.pack("<IQI16x", len(structure), len(blob), 0) + structure + blob


for reply in (
    {"type": "ready", "walls": ["bubblewrap", "seccomp"]},
    {"type": "built", "handle": 0, "parameters": {}, "buffers": {}, "saved": [], "trainable": [], "training": True},
    {"type": "loaded"},
    {"type": "passed"},
):
    os.write(3, frame(reply))
os.write(3, b"GET / HTTP/1.1\r\n\r\n" * 9)
