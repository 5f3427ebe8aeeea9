# attack: a thread of its own keeps the interpreter's lock in C code | class: hanging | canary: time
import threading

thread = threading.Thread(target=lambda: 3 ** 3 ** 19)
thread.start()
thread.join()
