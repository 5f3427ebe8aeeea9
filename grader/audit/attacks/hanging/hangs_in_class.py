# attack: answers with an object that takes for ever to give its class | class: hanging | canary: time
import time


class Slow:
    @property
    def __class__(self):
        time.sleep(15)
        return list


def scale(x, factor):
    return factor * x


def doubled(numbers):
    return Slow()
