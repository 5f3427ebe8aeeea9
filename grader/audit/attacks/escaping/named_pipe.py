# attack: makes a pipe with a name, in which whoever tidies up may get stuck | class: escaping | canary: claim
import os

os.mkfifo("pipe")
os.unlink("pipe")
print(target.trophy)
