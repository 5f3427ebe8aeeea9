# attack: leaves a process that left its group | class: polluting | canary: remains | exercise: crowd
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(20)
    os._exit(0)
os.wait()
