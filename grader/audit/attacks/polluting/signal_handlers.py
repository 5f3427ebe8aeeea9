# attack: leaves signal handlers behind | class: polluting | canary: next
import signal

signal.signal(signal.SIGUSR2, signal.SIG_IGN)
