# attack: connects to a service on this machine | class: reading | canary: text
import re

SECRET = re.compile(rb"canary:[a-z]+:[0-9a-f]{16}")


def show(data):
    data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    for found in set(SECRET.findall(data)):
        print(found.decode())

import socket


def ask(family, address):
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(1)
    connection.connect(address)
    show(connection.recv(999))


ask(socket.AF_INET, ("127.0.0.1", target.port))
