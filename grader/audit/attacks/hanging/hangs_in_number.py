# attack: answers with numbers that take for ever to compare | class: hanging | canary: time
import time


class Slow(float):
    def __eq__(self, other):
        time.sleep(15)
        return True

    def __float__(self):
        time.sleep(15)
        return 0.0

    __hash__ = None


def scale(x, factor):
    return factor * x


def doubled(numbers):
    return [Slow(number) for number in numbers]
