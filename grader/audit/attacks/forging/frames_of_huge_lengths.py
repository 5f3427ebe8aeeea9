# attack: announces frames of 2**64 bytes | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import struct

import msgspec


def frame(reply, blob=b""):
    structure = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return struct.pack("<IQI16x", len(structure), len(blob), 0) + structure + blob


os.write(3, struct.pack("<IQI16x", 2**32 - 1, 2**64 - 1, 0))
