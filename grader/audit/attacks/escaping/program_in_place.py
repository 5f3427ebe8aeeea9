# attack: becomes another program | class: escaping | canary: claim
import os

os.execv("/bin/echo", ["echo", target.trophy])
