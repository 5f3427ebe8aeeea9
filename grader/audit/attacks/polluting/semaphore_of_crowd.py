# attack: leaves a semaphore with a name | class: polluting | canary: remains | exercise: crowd
import _multiprocessing

_multiprocessing.SemLock(1, 1, 1, f"/{target.mark}", False)
