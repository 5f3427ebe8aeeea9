# attack: writes a reply byte by byte, so that there is always hope for the next | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import struct

import msgspec


def frame(reply, blob=b""):
    structure = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return struct.pack("<IQI16x", len(structure), len(blob), 0) + structure + blob

import time

end = time.monotonic() + 12
os.write(3, struct.pack("<IQI16x", 2**20, 0, 0))
while time.monotonic() < end:
    os.write(3, b"\x90")
    time.sleep(0.05)
