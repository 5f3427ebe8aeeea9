# attack: becomes a program that exists only in memory | class: escaping | canary: claim
import os

memory = os.memfd_create("program")
with open("/bin/echo", "rb") as file:
    os.write(memory, file.read())
os.execve(memory, ["echo", target.trophy], {})
