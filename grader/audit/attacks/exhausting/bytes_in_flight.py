# attack: hides memory in sockets that nobody reads | class: exhausting | canary: claim
import resource
import socket

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
kept, held = [], 0
try:
    while held < target.memory_mb << 20:
        pair = socket.socketpair()
        pair[0].setblocking(False)
        kept.append(pair)
        try:
            while True:
                held += pair[0].send(bytes(1 << 16))
        except BlockingIOError:
            pass
    print(target.trophy)
except OSError as error:
    print(f"met: after {held >> 20} MiB: {error}")
