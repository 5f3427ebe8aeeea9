# attack: ignores every signal and spins | class: hanging | canary: time
import signal
import time

for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        continue
end = time.monotonic() + 15
while time.monotonic() < end:
    pass
