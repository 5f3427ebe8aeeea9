# attack: has the end of the process report success | class: forging | canary: score
import atexit
import os

atexit.register(os._exit, 0)
