# attack: opens a socket that sees every packet | class: escaping | canary: claim | as: root
import socket

socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
print(target.trophy)
