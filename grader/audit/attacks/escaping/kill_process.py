# attack: signals a process of the user's | class: escaping | canary: neighbor
import os
import signal

os.kill(target.pid, signal.SIGUSR1)
