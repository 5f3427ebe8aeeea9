# attack: leaves a file in shared memory | class: polluting | canary: remains
with open("/dev/shm/" + target.mark, "w") as file:
    file.write("left")
