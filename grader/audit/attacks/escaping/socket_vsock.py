# attack: opens a socket to the host of a virtual machine | class: escaping | canary: claim
import socket

socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
print(target.trophy)
