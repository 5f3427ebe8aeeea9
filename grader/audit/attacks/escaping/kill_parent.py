# attack: kills the process that started it | class: escaping | canary: neighbor
import os
import signal

# Never the machine's first process, which is nobody's canary.
if os.getppid() != 1:
    os.kill(os.getppid(), signal.SIGKILL)
