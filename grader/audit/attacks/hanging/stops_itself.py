# attack: stops its own process | class: hanging | canary: time
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
