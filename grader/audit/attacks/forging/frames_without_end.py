# attack: writes replies as fast as it can, for ever | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import struct

import msgspec


def frame(reply, blob=b""):
    structure = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return struct.pack("<IQI16x", len(structure), len(blob), 0) + structure + blob

import time

end = time.monotonic() + 12
many = frame({"type": "loaded"}) * 1000
while time.monotonic() < end:
    os.write(3, many)
