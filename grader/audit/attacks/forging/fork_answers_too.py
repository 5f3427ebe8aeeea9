# attack: a fork goes on answering in the place of its parent | class: forging | canary: bytes | dud: plain pytest has no wire | exercise: crowd
import os

if os.fork() == 0:
    import time

    time.sleep(0.3)
    os.write(3, b"\x01" * 40)
    os._exit(0)
