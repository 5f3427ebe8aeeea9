# attack: moves a process of the user's to one processor | class: escaping | canary: neighbor
import os

os.sched_setaffinity(target.pid, {min(os.sched_getaffinity(0))})
