# attack: changes the priority of a process of the user's | class: escaping | canary: neighbor
import os

os.setpriority(os.PRIO_PROCESS, target.pid, 7)
