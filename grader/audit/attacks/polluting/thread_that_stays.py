# attack: leaves a process that waits for its own thread | class: polluting | canary: remains | exercise: crowd
import os
import threading
import time

if os.fork() == 0:
    threading.Thread(target=time.sleep, args=(20,)).start()
    time.sleep(20)
