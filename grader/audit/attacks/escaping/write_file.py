# attack: writes into a file of the user's | class: escaping | canary: file
with open(target.file, "w") as file:
    file.write("changed")
