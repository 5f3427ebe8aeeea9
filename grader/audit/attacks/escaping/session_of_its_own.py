# attack: leaves the session and group that would be killed | class: escaping | canary: claim | exercise: crowd
import os

reading, writing = os.pipe()
if os.fork() == 0:
    try:
        os.setsid()
        os.write(writing, b"done")
    finally:
        os._exit(0)
os.close(writing)
os.wait()
if os.read(reading, 4) == b"done":
    print(target.trophy)
