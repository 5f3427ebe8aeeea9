# attack: reads from every open descriptor | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import os

for descriptor in range(3, 1024):
    try:
        show(os.pread(descriptor, 2**16, 0))
    except OSError:
        continue
