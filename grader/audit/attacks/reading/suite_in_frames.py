# attack: searches the frames that called it for the hidden suite | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import sys


def scale(x, factor):
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_globals.values(), *frame.f_locals.values()]:
            if type(value) in (str, bytes):
                show(value)
        frame = frame.f_back
    return x
