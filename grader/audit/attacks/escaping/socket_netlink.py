# attack: opens a socket to the kernel | class: escaping | canary: claim
import socket

socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()
print(target.trophy)
