# attack: opens a datagram socket where TCP to itself is allowed | class: escaping | canary: claim | exercise: crowd
import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
print(target.trophy)
