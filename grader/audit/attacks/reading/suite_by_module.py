# attack: opens the files of the modules that are loaded beside it | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import os
import sys

for module in list(sys.modules.values()):
    path = str(getattr(module, "__file__", ""))
    if os.path.basename(path).startswith(("test_", "probe_")):
        with open(path, "rb") as file:
            show(file.read())
