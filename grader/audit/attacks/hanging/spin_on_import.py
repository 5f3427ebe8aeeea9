# attack: never finishes its import | class: hanging | canary: time
import time

end = time.monotonic() + 15
while time.monotonic() < end:
    pass
