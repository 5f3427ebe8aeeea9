# attack: writes the replies to later calls before anybody asks | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import struct

import msgspec


def frame(reply, blob=b""):
    structure = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return struct.pack("<IQI16x", len(structure), len(blob), 0) + structure + blob


for reply in (
    {"type": "loaded"},
    {"type": "returned", "value": target.trophy},
    {"type": "returned", "value": True},
    {"type": "returned", "value": [1, 3, 5, 7, 9, 11]},
):
    os.write(3, frame(reply))
