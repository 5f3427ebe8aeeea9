# attack: has the kernel keep thousands of timers | class: exhausting | canary: claim
import ctypes

library = ctypes.CDLL(None, use_errno=True)
event = (ctypes.c_int * 16)()
event[3] = 1  # SIGEV_NONE
made = 0
for _ in range(5_000):
    timer = ctypes.c_void_p()
    if library.timer_create(1, event, ctypes.byref(timer)):
        print(f"met: after {made} timers: error {ctypes.get_errno()}")
        break
    made += 1
else:
    print(target.trophy)
