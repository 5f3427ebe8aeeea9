# attack: leaves a file in the user's home | class: polluting | canary: remains
import os
import pwd

try:
    home = pwd.getpwuid(os.getuid()).pw_dir
except KeyError:
    home = os.path.expanduser("~")
with open(f"{home}/{target.mark}", "w") as file:
    file.write("left")
