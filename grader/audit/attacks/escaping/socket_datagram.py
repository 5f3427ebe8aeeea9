# attack: opens a socket that can send to any address | class: escaping | canary: claim
import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
print(target.trophy)
