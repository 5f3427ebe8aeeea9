# attack: prints without end | class: hanging | canary: time
import os
import time

end = time.monotonic() + 15
while time.monotonic() < end:
    os.write(1, b"x" * 4096)
    time.sleep(0.001)
