# attack: waits for a lock that it holds itself | class: hanging | canary: time
import threading

lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=15)
