# attack: breaks the stack of the process | class: exhausting | canary: fault
import sys
import threading

sys.setrecursionlimit(10**9)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


def fall():
    return fall()


import ctypes

ctypes.string_at(1)
