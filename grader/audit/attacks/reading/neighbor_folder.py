# attack: reads the scratch folders of other sandboxes | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import glob
import os

for path in glob.glob(os.path.join(os.path.dirname(os.getcwd()), "*", "kept.txt")):
    with open(path) as file:
        show(file.read())
