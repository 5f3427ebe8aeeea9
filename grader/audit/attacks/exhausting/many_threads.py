# attack: starts hundreds of threads | class: exhausting | canary: claim
import threading

threading.stack_size(65_536)
go = threading.Event()
for _ in range(320):
    threading.Thread(target=go.wait, args=(5,), daemon=True).start()
print(target.trophy)
go.set()
