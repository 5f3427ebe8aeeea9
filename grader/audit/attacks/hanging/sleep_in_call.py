# attack: sleeps in a call | class: hanging | canary: time
import time


def scale(x, factor):
    time.sleep(15)
