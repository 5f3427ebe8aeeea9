# attack: reads the list of users | class: reading | canary: claim
with open("/etc/passwd") as file:
    if "root:" in file.read():
        print(target.trophy)
