# attack: leaves a file that every later Python would read | class: polluting | canary: remains
import sysconfig

with open(f"{sysconfig.get_path('purelib')}/{target.mark}.pth", "w") as file:
    file.write("# left\n")
