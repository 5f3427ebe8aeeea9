# attack: kills another student's sandbox | class: escaping | canary: neighbor | exercise: crowd
import os
import signal

os.kill(target.neighbor, signal.SIGKILL)
