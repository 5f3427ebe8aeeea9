# attack: searches every object for the hidden suite | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import gc
import types

for each in gc.get_objects():
    names = vars(each) if isinstance(each, types.ModuleType) else each
    if type(names) is dict:
        for value in list(names.values()):
            if type(value) is str and len(value) < 10**6:
                show(value)
