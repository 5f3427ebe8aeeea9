# attack: leaves a file in shared memory, where it may use some | class: polluting | canary: remains | exercise: crowd
with open("/dev/shm/" + target.mark, "w") as file:
    file.write("left")
