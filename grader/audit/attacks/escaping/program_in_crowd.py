# attack: starts a program where processes are allowed | class: escaping | canary: claim | exercise: crowd
import subprocess

subprocess.run(["/bin/echo", target.trophy], check=True)
