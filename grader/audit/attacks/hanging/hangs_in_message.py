# attack: raises an exception whose message takes for ever | class: hanging | canary: time
import time


class Slow(Exception):
    def __str__(self):
        time.sleep(15)
        return ""

    __repr__ = __str__


raise Slow
