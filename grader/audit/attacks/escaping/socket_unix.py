# attack: opens a socket of this machine | class: escaping | canary: claim
import socket

socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
print(target.trophy)
