# attack: reads the environment of the process that started it | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import os

for pid in {os.getppid(), 1}:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            show(file.read())
    except OSError as error:
        print("met:", error)
