# attack: has something to do when the interpreter ends | class: hanging | canary: time
import atexit
import time

atexit.register(time.sleep, 15)


def scale(x, factor):
    return None
