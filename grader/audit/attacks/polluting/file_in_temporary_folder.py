# attack: leaves a file in the temporary folder | class: polluting | canary: remains
with open("/tmp/" + target.mark, "w") as file:
    file.write("left")
