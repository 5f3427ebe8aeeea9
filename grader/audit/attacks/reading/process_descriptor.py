# attack: reads a deleted file that another process has open | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

with open(f"/proc/{target.pid}/fd/3", "rb") as file:
    show(file.read())
