# attack: signals a process of the user's by its descriptor | class: escaping | canary: neighbor
import os
import signal

signal.pidfd_send_signal(os.pidfd_open(target.pid), signal.SIGUSR1)
