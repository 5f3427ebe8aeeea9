# attack: runs before every other process of the machine | class: escaping | canary: claim | as: root
import os

os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
print(target.trophy)
