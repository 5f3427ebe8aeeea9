# attack: answers with a list whose length takes for ever | class: hanging | canary: time
import time

class Slow(list):
    def __len__(self):
        time.sleep(15)
        return 5

    def __iter__(self):
        time.sleep(15)
        return iter([])


def scale(x, factor):
    return factor * x


def doubled(numbers):
    return Slow()
